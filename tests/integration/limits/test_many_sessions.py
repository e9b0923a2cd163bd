"""What sessions that are over leave behind in the memory of a running broker: nothing that grows."""

import importlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_adapters import ADAPTERS
from lifebus_adapters.adapter import HookCall
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.sealed_file import SealedInFile
from lifebus_broker.state.stores import Stores, dump_stores, reduce_event
from lifebus_contract import CallbackRequest
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_transports.messages.signals import ObservedSignal
from support.containers import endless_caches, large_containers
from support.effort import effort
from support.parts import sessions_of
from support.running import connected, running_bus, until_answered
from support.transcripts.boxes import entry
from support.transports.gateway import running_gateway

FEW = 16
"""What every cache may hold in these tests."""

SESSIONS = effort(4 * FEW, 400)
BOUNDS = (
    ("lifebus_broker.routing.frame_ends", "MAX_FRAMES"),
    ("lifebus_broker.routing.frame_ends", "_MAX_SESSIONS"),
    ("lifebus_broker.routing.harness_sequences", "_MAX_SESSIONS"),
    ("lifebus_broker.ledger.sqlite.store", "MAX_TIPS"),
    ("lifebus_broker.ledger.sqlite.store", "POINT_EVERY"),
    ("lifebus_broker.state.session_table", "SEAL_AT"),
    ("lifebus_supervisor.supervision.monitor_table", "MAX_MONITORS"),
    ("lifebus_supervisor.supervision.apps", "MAX_APPS"),
    ("lifebus_supervisor.transcripts.loaded", "MAX_LOADED"),
    ("lifebus_supervisor.transcripts.endings", "_MAX_LIVE"),
    ("lifebus_supervisor.extensions.session_settings", "MAX_SESSIONS"),
    ("lifebus_broker.ledger.sqlite.records", "_MAX_TIPS"),
    ("lifebus_broker.signals.order_positions", "RECENT"),
)
"""The bounds of what is kept by session (docs/reliability.md, "What sessions cost")."""

OTHERS = {
    # grows with the lines of the log, to a bound of its own
    "Daemon.follower._open[]._hashes[].digests",
    # grows with the signals of all sessions, to `MAX_RANGES`
    "Daemon.signals._listeners[]>closure>OrderLog._order._lines[]._ranges",
    # timers that were cancelled: asyncio removes them once they are more than fifty, and most
    "Daemon.bus.ledger._loop._scheduled",
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    for module, name in BOUNDS:
        monkeypatch.setattr(importlib.import_module(module), name, FEW)


def life_of(number: int) -> Iterator[CallbackRequest]:
    """One session that an app reports: it has a frame, counts for itself, and ends."""
    frame = {"frame_id": f"frame-{number}", "frame_class": "top_level"}
    events = ("session.started", "frame.opened", "frame.ended", "session.ended")
    for count, event in enumerate(events, 1):
        own: dict[str, Any] = {"frame": frame} if event.startswith("frame") else {}
        yield lifebus.make_request(event, "opencode", session=f"app-{number}", sequence=count, **own)


def hook(daemon: Daemon, number: int, name: str, **fields: str) -> HookCall:
    stdin = {"hook_event_name": name, "session_id": f"hooked-{number}", "cwd": "/w", **fields}
    return HookCall(
        call_id=f"hook-1-{number}-{name}",
        adapter_id="claude",
        hook=name,
        cwd=str(daemon.settings.state_dir),
        env={},
        stdin=json.dumps(stdin).encode(),
    )


async def tell(daemon: Daemon, number: int) -> None:
    """Record what an app-server says in a session, and what is said in it."""
    thread = f"app-{number}"
    started = ObservedSignal(thread=thread, event_type="app_server.thread.started", signal=b'{"params":{}}')
    await daemon.signals.record("observer", number + 1, "opencode", [started])
    transcripts = sessions_of(daemon).transcripts
    await transcripts.store.upsert(thread, entry("m1", content="said"))
    await transcripts.marks.mark_system(f"worker-{number}", number)
    await transcripts.marks.mark_deleted(f"deleted-{number}", number)


async def caught_up(daemon: Daemon) -> None:
    """Wait until the follower is where the ledger is."""
    follower = daemon.follower
    assert follower is not None

    async def position() -> int:
        return await follower.use(lambda state, _: (state.advance(), state.position)[1])

    await until_answered(position, lambda reached: reached >= daemon.bus.ledger.head)


async def sealed_in(daemon: Daemon) -> tuple[int, int]:
    """Return how many sessions, and how many streams, the follower keeps outside of memory."""
    assert daemon.follower is not None
    tables = await daemon.follower.use(lambda state, _: (state.state.sessions.sealed, state.state.facts.sealed))
    assert all(isinstance(table, SealedInFile) for table in tables)
    return len(tables[0]), len(tables[1])


async def dump_of(daemon: Daemon) -> bytes:
    """Return the dump of the state that the broker has."""
    assert daemon.follower is not None
    return await daemon.follower.use(lambda state, _: dump_stores(state.state))


def replayed(daemon: Daemon) -> Stores:
    """Return the state that the ledger's file says."""
    stores = Stores()
    with SqliteLog(daemon.settings.ledger_path) as log:
        for line in log.lines(0, log.head):
            reduce_event(stores, line)
    return stores


async def test_nothing_in_memory_grows_with_sessions_that_are_over() -> None:
    async with running_gateway(whole=True) as (daemon, _), connected(daemon) as bus:
        calls = HookCalls(daemon.bus, ADAPTERS, 1.0, supervision=daemon.supervisor)
        before, at_start = endless_caches(), large_containers(daemon, 2 * FEW)
        for number in range(SESSIONS):
            await bus.emit([*life_of(number)])
            await tell(daemon, number)
            for name, fields in (("SessionStart", {"source": "startup"}), ("SessionEnd", {"reason": "other"})):
                await calls.handle(hook(daemon, number, name, **fields))
            if number % FEW == 0:
                await daemon.supervisor.tick()
        await caught_up(daemon)
        found = large_containers(daemon, 2 * FEW)
        sessions = len(await daemon.bus.ledger.sessions())
        grown = {name: size for name, size in endless_caches().items() if size >= before.get(name, 0) + SESSIONS}
        sealed, streams = await sealed_in(daemon)

    assert sessions == 2 * SESSIONS
    # The last 2 * FEW sessions may not be sealed yet.
    assert min(sealed, streams) >= 2 * (SESSIONS - FEW)
    assert {way: size for way, size in found.items() if way not in OTHERS and size > at_start.get(way, 0)} == {}
    assert grown == {}


async def test_a_session_that_comes_back_goes_on_as_if_nothing_had_been_put_away(tmp_path: Path) -> None:
    for restarted in (False, True):
        async with running_bus(whole=True, directory=tmp_path) as daemon, connected(daemon) as bus:
            if not restarted:
                for number in range(4 * FEW):
                    await bus.emit([*life_of(number)])
            await caught_up(daemon)
            again = lifebus.make_request("session.started", "opencode", session="app-3", sequence=5 + restarted)
            (emitted,) = (await bus.emit(again)).receipts
            await caught_up(daemon)
            assert emitted.sequence == 5 + restarted
            assert await dump_of(daemon) == dump_stores(replayed(daemon))


def test_a_container_that_grows_is_found_wherever_it_is_held() -> None:
    held = list(range(40))

    def closure() -> list[int]:
        return held

    class Slotted:
        __slots__ = ("inner",)

        def __init__(self) -> None:
            self.inner = dict.fromkeys(range(50))

    found = large_containers({"by closure": closure, "by slot": [Slotted()]}, 40)

    assert sorted(found.values()) == [40, 50]
