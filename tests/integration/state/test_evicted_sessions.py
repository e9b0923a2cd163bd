"""A broker that forgets what it can answers as one that keeps everything: receipts, heads, names, state, snapshots."""

import importlib
import itertools
import json
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

from hypothesis import Phase, given, settings
from hypothesis import strategies as st

import lifebus
from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookCall
from lifebus_broker.state.stores import dump_stores
from lifebus_contract import IdSource, LifebusError, encode_json
from lifebus_supervisor.daemon import composition
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_transports.messages.reads import Backfill
from support.effort import effort
from support.running import connected, running_bus, short_directory

BOUNDS = (
    ("lifebus_broker.routing.frame_ends", "MAX_FRAMES"),
    ("lifebus_broker.routing.frame_ends", "_MAX_SESSIONS"),
    ("lifebus_broker.routing.harness_sequences", "_MAX_SESSIONS"),
    ("lifebus_broker.ledger.sqlite.store", "MAX_TIPS"),
    ("lifebus_broker.ledger.sqlite.store", "POINT_EVERY"),
    ("lifebus_broker.state.session_table", "SEAL_AT"),
)
"""How much of sessions that are over is kept (docs/reliability.md, "What sessions cost"); here one of each."""

CACHES = (
    ("lifebus_broker.snapshots.compactions.state_cache", "CACHE_EVERY"),
    ("lifebus_broker.snapshots.state_follower", "CACHE_EVERY"),
)
"""After how many receipts a cache is written, from which a start goes on; a snapshot names it."""

START_S = 1_790_000_000
HOUR_S = 3_600
FRAME = {"frame_id": "f1", "frame_class": "top_level"}
SAID: dict[str, tuple[str, dict[str, Any]]] = {
    "start": ("session.started", {}),
    "open": ("frame.opened", {"frame": FRAME}),
    "close": ("frame.ended", {"frame": FRAME}),
    "compact": ("context.compacted", {}),
    "end": ("session.ended", {}),
}
# Without turns: when supervision ends one is a matter of moments.
HOOKS: dict[str, dict[str, object]] = {"SessionStart": {"source": "startup"}, "SessionEnd": {"reason": "other"}}
REST = ("hour", "again")

Step = tuple[str, int]


def histories(kinds: Sequence[str]) -> st.SearchStrategy[list[Step]]:
    return st.lists(st.tuples(st.sampled_from(kinds), st.integers(0, 4)), min_size=12, max_size=48)


# What supervision has seen of a session that is open goes with a restart, whether others have ended or not: so there
# are either hooks and ticks, or restarts.
STEPS = histories([*SAID, *SAID, *HOOKS, *HOOKS, *REST, "tick", "tick"]) | histories([*SAID, *REST, "restart"])


class Clock:
    """The wall clock of a broker, which a history moves."""

    def __init__(self) -> None:
        self.now = float(START_S)

    def __call__(self) -> float:
        return self.now

    def ns(self) -> int:
        return int(self.now) * 1_000_000_000


class History:
    """The steps of a history, told to one broker; `answers` is what it was told in return."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._told: list[lifebus.CallbackRequest] = []
        self.answers: list[object] = []

    async def tell(self, daemon: Daemon, bus: lifebus.Bus, number: int, step: Step) -> None:
        kind, place = step
        self._clock.now += 1
        if kind in SAID:
            event, fields = SAID[kind]
            key = f"key-{number}"
            adapter = ("opencode", "codex")[place % 2]
            request = lifebus.make_request(event, adapter, session=f"app-{place}", idempotency_key=key, **fields)
            self._told.append(request)
            await self._emit(bus, request)
        elif kind in HOOKS:
            await HookCalls(daemon.bus, ADAPTERS, 1.0, supervision=daemon.supervisor).handle(
                hook(daemon, number, kind, f"hooked-{place}")
            )
        elif kind == "again" and self._told:
            await self._emit(bus, self._told[place % len(self._told)])
        elif kind == "hour":
            self._clock.now += HOUR_S
        elif kind == "tick":
            daemon.supervisor.ticked_at = None
            await daemon.supervisor.tick()

    async def _emit(self, bus: lifebus.Bus, request: lifebus.CallbackRequest) -> None:
        try:
            self.answers.append([encode_json(one) for one in (await bus.emit(request)).receipts])
        except LifebusError as refusal:
            self.answers.append((refusal.code, refusal.detail))


def hook(daemon: Daemon, number: int, name: str, session: str) -> HookCall:
    cwd = "/home/user/api" if session.endswith(("0", "1")) else "/home/user/web"
    stdin = {"hook_event_name": name, "session_id": session, "cwd": cwd, **HOOKS[name]}
    return HookCall(
        call_id=f"hook-{number}", adapter_id="claude", hook=name, cwd=cwd, env={}, stdin=json.dumps(stdin).encode()
    )


@contextmanager
def reproducible(clock: Clock) -> Generator[None]:
    """Have brokers that are started meanwhile make the same ids and times of the same history."""
    numbers = itertools.count()
    ids = IdSource(lambda: clock.ns() // 1_000_000, lambda size: next(numbers).to_bytes(size, "big"))
    with ExitStack() as stack:
        for name, made in (("time.time", clock), ("time.time_ns", clock.ns)):
            stack.enter_context(patch(name, made))
        stack.enter_context(patch.object(composition, "IdSource", return_value=ids))
        # Ticks of sessions that are supervised are not recorded, and would take ids of those that are.
        stack.enter_context(patch.object(Supervisor, "_publish_idle_ticks"))
        yield


def forgetting(*, is_forgetful: bool) -> ExitStack:
    """Have brokers keep one of everything, and forget sessions at the first tick; or everything, for ever."""
    stack = ExitStack()
    ticks = 0 if is_forgetful else 10**9
    for name in ("_FORGET_TICKS", "_FORGET_HISTORY_TICKS"):
        module = importlib.import_module("lifebus_supervisor.supervision.supervisor")
        stack.enter_context(patch.object(module, name, ticks))
    for path, name in BOUNDS if is_forgetful else ():
        stack.enter_context(patch.object(importlib.import_module(path), name, 1))
    for path, name in CACHES:
        stack.enter_context(patch.object(importlib.import_module(path), name, 8))
    return stack


async def told(folder: Path, steps: Sequence[Step], *, is_forgetful: bool) -> dict[str, object]:
    """Tell a broker a history, and return what it answers then; only a forgetful one is started anew meanwhile."""
    clock = Clock()
    history = History(clock)
    parts: list[list[tuple[int, Step]]] = [[]]
    for number, step in enumerate(steps):
        if step[0] == "restart" and is_forgetful:
            parts.append([])
        parts[-1].append((number, step))
    found: dict[str, object] = {}
    with forgetting(is_forgetful=is_forgetful), reproducible(clock):
        for part in parts:
            async with running_bus(directory=folder) as daemon, connected(daemon) as bus:
                for number, step in part:
                    await history.tell(daemon, bus, number, step)
                found = await seen(daemon, bus)
    return {"answers": history.answers, **found}


async def seen(daemon: Daemon, bus: lifebus.Bus) -> dict[str, object]:
    """Return everything that a client can learn of the sessions, and the state as a dump and as a snapshot."""
    follower = daemon.follower
    assert follower is not None
    heads = await bus.sessions()
    snapshot = (await bus.saves.save("CAMPAIGN")).snapshot_id
    return {
        "heads": heads,
        "by name": [await bus.sessions(one.name) for one in heads if one.name is not None],
        "receipts": [(await bus.read(query)).rows for query in queries(heads)],
        "state": await follower.use(lambda state, _: dump_stores(state.advance())),
        "snapshot": (daemon.settings.state_dir / "snapshots" / f"{snapshot}.json").read_bytes(),
    }


def queries(heads: Iterable[lifebus.SessionHead]) -> Iterator[Backfill]:
    """Yield what a client asks for: all receipts, those of each session, and those since its last one."""
    yield Backfill(limit=1_024)
    for one in heads:
        yield Backfill(limit=1_024, session=(one.adapter_id, one.harness_session_id))
        yield Backfill(limit=1_024, since_epoch_s=one.last_at_epoch_s)


# Not made smaller: each try starts brokers, and took minutes in all.
@settings(deadline=None, max_examples=effort(6, 150), phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(STEPS)
async def test_sessions_that_were_forgotten_are_as_in_a_broker_that_forgets_nothing(steps: list[Step]) -> None:
    with short_directory() as folder, short_directory() as other:
        kept = await told(folder, steps, is_forgetful=False)
        forgot = await told(other, steps, is_forgetful=True)
    for name, found in kept.items():
        assert forgot[name] == found, name
