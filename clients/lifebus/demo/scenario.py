"""Runs the demonstration: a broker, clients, followers, hooks; then the proof."""

import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, Protocol

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus.client import Bus, connect
from lifebus.demo.broker_process import BrokerProcess, demo_environment, running_broker
from lifebus.demo.checks import Check, LedgerRow, check_facts, check_followers, check_hooks, check_sequences
from lifebus.demo.follower import Follower, Progress, follow, follow_with_a_break
from lifebus.demo.participants import CLIENTS, serve_client
from lifebus.demo.recordings import HARNESSES, Recording, load_recordings, sessions_of
from lifebus.demo.replay import Player, Watcher
from lifebus_contract import Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_transports.messages.requests import Backfill

_STOP_AFTER: Final = 12
_CATCH_UP_S: Final = 30.0
_LOOK_S: Final = 0.05


class Stage(Struct, frozen=True):
    """What a view may show: where things are, and who follows."""

    home: Path
    broker_pid: int
    recordings: list[Recording]
    followers: list[Follower]


class View(Watcher, Protocol):
    """Who shows the demonstration."""

    def opened(self, stage: Stage) -> None:
        """The broker is up, the clients are registered, the followers follow."""
        ...

    def receipt(self, receipt: Receipt) -> None:
        """The follower of everything saw a receipt."""
        ...

    def note(self, text: str) -> None:
        """Something else happened."""
        ...


async def perform(view: View, speed: float | None) -> list[Check]:
    """Run it all and return what was proved.

    Raises:
        LifebusError: the broker did not start, or stopped answering.
        TimeoutError: the followers did not catch up in time.
    """
    home = Path(tempfile.mkdtemp(prefix="lifebus-demo-"))
    try:
        environment = demo_environment(home)
        async with running_broker(environment) as broker:
            checks = await _with_broker(view, speed, home, environment, broker)
        exit_code = await broker.stop()
        return [*checks, Check("broker", exit_code == 0, f"stopped in order, exit code {exit_code}")]
    finally:
        shutil.rmtree(home, ignore_errors=True)


async def _with_broker(
    view: View, speed: float | None, home: Path, environment: dict[str, str], broker: BrokerProcess
) -> list[Check]:
    recordings = load_recordings()
    cast = _Cast(home / "run", view, recordings)
    async with cast.on_stage() as bus:
        view.opened(Stage(home, broker.pid, recordings, cast.followers))
        player = Player(environment, home, speed, view)
        async with anyio.create_task_group() as tasks:
            for adapter in HARNESSES:
                tasks.start_soon(player.play, [one for one in recordings if one.adapter == adapter])
        with anyio.fail_after(_CATCH_UP_S):
            await _spool_taken_in(home, view)
            faults = (await bus.verify()).faults
            rows = await cast.catch_up(bus)
        counters = (await bus.status()).counters
        followed = check_followers(rows, cast.followers)
    expected = sum(len(recording.steps) for recording in recordings)
    return [
        *followed,
        check_sequences(rows),
        Check("chain", not faults, "the broker's hash chain is sound" if not faults else faults[0]),
        *check_hooks(player.results, expected, counters.get("spool_drained", 0)),
        *check_facts(rows, cast.dispatched),
    ]


class _Cast:
    """The clients and followers, and where each of them has to get to."""

    def __init__(self, runtime_dir: Path, view: View, recordings: list[Recording]) -> None:
        self.everything = Follower("everything")
        self.late = Follower("late")
        self.per_session = [
            Follower(f"{adapter} …{session[-6:]}", (adapter, session)) for adapter, session in sessions_of(recordings)
        ]
        self.dispatched: list[str] = []
        self._runtime_dir = runtime_dir
        self._view = view
        self._progress = Progress()
        self._resume = anyio.Event()

    @property
    def followers(self) -> list[Follower]:
        """All followers, those of everything first."""
        return [self.everything, self.late, *self.per_session]

    @asynccontextmanager
    async def on_stage(self) -> AsyncGenerator[Bus]:
        """Start clients and followers, yield a connection, and end them all."""
        async with AsyncExitStack() as stack:
            bus = await stack.enter_async_context(connect("demo.followers", runtime_dir=self._runtime_dir))
            tasks = await stack.enter_async_context(anyio.create_task_group())
            stack.callback(tasks.cancel_scope.cancel)
            for client in CLIENTS:
                await tasks.start(serve_client, client, self._runtime_dir, self.dispatched.append)
            self._start_followers(bus, tasks)
            yield bus

    async def catch_up(self, bus: Bus) -> list[LedgerRow]:
        """Let the late follower go on, wait until every follower is where the ledger is, and return the ledger."""
        self._resume.set()
        while True:
            rows = await _ledger_rows(bus)
            newest = {(row.receipt.adapter_id, row.receipt.harness_session_id): row.position for row in rows}
            goals = {
                follower.name: rows[-1].position if follower.session is None else newest.get(follower.session, 0)
                for follower in self.followers
            }
            await self._progress.until(partial(self._reached, goals))
            if (await bus.status()).ledger.head == rows[-1].position:
                return rows

    def _reached(self, goals: dict[str, int]) -> bool:
        return all(follower.position >= goals[follower.name] for follower in self.followers)

    def _start_followers(self, bus: Bus, tasks: TaskGroup) -> None:
        tasks.start_soon(follow, bus, self.everything, self._progress, self._view.receipt)
        for follower in self.per_session:
            tasks.start_soon(follow, bus, follower, self._progress)

        async def late() -> None:
            await follow_with_a_break(
                self._runtime_dir,
                self.late,
                self._progress,
                stop_after=_STOP_AFTER,
                resume=self._resume,
                note=self._view.note,
            )

        tasks.start_soon(late)


async def _ledger_rows(bus: Bus) -> list[LedgerRow]:
    """Read the whole ledger, page by page."""
    rows: list[LedgerRow] = []
    after = 0
    while True:
        page = await bus.read(Backfill(after=after))
        rows += [LedgerRow(row.position, decode_receipt(row.receipt)) for row in page.rows]
        after = page.next
        if page.complete:
            return rows


async def _spool_taken_in(home: Path, view: View) -> None:
    """Wait until the broker has taken in what hooks left in the spool because the machine was too busy."""
    files = [home / "state/spool" / name for name in ("calls", "calls.claimed")]
    if any(file.exists() for file in files):
        view.note("the machine is busy: some hooks left their call in the spool; the broker takes them in")
    while any(file.exists() for file in files):  # noqa: ASYNC110  another process does it, and tells nobody
        await anyio.sleep(_LOOK_S)
