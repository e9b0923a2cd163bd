"""A bus under supervision: a clock that is moved by hand, files that are made up, processes that die on order."""

import os
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio

from lifebus_adapters import ADAPTERS, CallerProcess, HookAnswer, HookCall
from lifebus_adapters.shared.telemetry import Fact
from lifebus_broker.durations import Durations
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Query
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.routing.registry import Registry
from lifebus_contract import Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.app_server.recorder import AppServerRecorder
from lifebus_supervisor.hook_intake.calls import HookCalls
from lifebus_supervisor.supervision.environment import Environment, SupervisorLimits, TelemetryTail
from lifebus_supervisor.supervision.monitor_table import KnownState, MonitorTable
from lifebus_supervisor.supervision.supervisor import PassResult, Supervisor
from lifebus_supervisor.supervision.ticks import WakeSignal
from lifebus_supervisor.tailing.events import FileUpdate, TailedFile
from support.adapters.calls import call, ids

INTERVAL_S = 2.0
HARNESS = CallerProcess(pid=4321, started="boot:99")


class ScriptedTail:
    """A tail whose updates a test puts there."""

    def __init__(self) -> None:
        self.followed: list[tuple[str, str, str]] = []
        self.forgotten: list[tuple[str, str]] = []
        self.standing: list[FileUpdate] = []
        self._updates: list[FileUpdate] = []

    def put(self, update: FileUpdate) -> None:
        self._updates.append(update)

    def follow(self, adapter_id: str, session: str, path: str) -> bool:
        self.followed.append((adapter_id, session, path))
        return True

    def forget(self, adapter_id: str, session: str) -> None:
        self.forgotten.append((adapter_id, session))

    async def poll(self) -> Sequence[FileUpdate]:
        updates, self._updates = self._updates, []
        return [*updates, *self.standing]

    async def poll_session(self, adapter_id: str, session: str, within_s: float) -> Sequence[FileUpdate]:
        its = [one for one in self._updates if one.adapter_id == adapter_id and one.session in {None, session}]
        self._updates = [one for one in self._updates if one not in its]
        return its

    def files(self) -> Sequence[TailedFile]:
        return ()

    async def changes(self) -> AsyncIterator[None]:
        await anyio.sleep_forever()
        yield


class Clock:
    """Time that passes when a test says so."""

    seconds = 1_000.0
    jumped = 0.0
    """How far the wall clock was set, or ran while the machine slept."""

    def now(self) -> float:
        return self.seconds

    def epoch(self) -> float:
        return 1_800_000_000.0 + self.seconds + self.jumped


class CountingSignal(WakeSignal):
    """Counts the requests for an early pass."""

    count = 0

    def set(self) -> None:
        self.count += 1


class SupervisedBus:
    """One supervised bus.  Every step returns the receipts that it added."""

    def __init__(self, bus: EventBus, clock: Clock, limits: SupervisorLimits) -> None:
        self.bus = bus
        self.clock = clock
        self.files = ScriptedTail()
        self.limits = limits
        self.dead: set[CallerProcess] = set()
        self.installed: set[str] = set()
        self.distrusted: dict[str, str] = {}
        self.wake = CountingSignal()
        self.transient: list[Receipt] = []
        self._calls = 0
        self.supervisor = self.restart()
        bus.fanout.listen_transient(lambda stored: self.transient.append(decode_receipt(stored.receipt)))

    def restart(self, telemetry: TelemetryTail | None = None, *, known: KnownState | None = None) -> Supervisor:
        """Forget all that is not in the ledger, as a broker that starts again does."""
        environment = Environment(
            now=self.clock.now,
            epoch=self.clock.epoch,
            ticks=Durations(self.clock.now),
            is_alive=lambda process: process not in self.dead,
            hooks_installed=lambda adapter_id: adapter_id in self.installed,
            hooks_distrusted=self.distrusted.get,
        )
        self.files = ScriptedTail()
        monitors = MonitorTable(self.bus.ledger, self.bus.capabilities.apply, environment.epoch, known)
        self.recorder = AppServerRecorder(self.bus, monitors, environment)
        self.supervisor = Supervisor(
            self.bus,
            telemetry or self.files,
            self.limits,
            environment,
            monitors,
            deferred=self.recorder,
            wake=self.wake,
        )
        self.bus.fanout.listen(self.supervisor.on_commit)
        return self.supervisor

    async def hook(self, adapter_id: str, payload: dict[str, Any], **changes: Any) -> list[Receipt]:
        return (await self.answered(adapter_id, payload, **changes))[0]

    async def answered(
        self, adapter_id: str, payload: dict[str, Any], **changes: Any
    ) -> tuple[list[Receipt], HookAnswer]:
        self._calls += 1
        settings: dict[str, Any] = {"call_id": f"call-{self._calls}", "process": HARNESS} | changes
        before = self.bus.ledger.head
        handler = HookCalls(self.bus, ADAPTERS, 1.0, clock=self.clock.now, supervision=self.supervisor)
        answer = await handler.handle(call(adapter_id, payload, **settings))
        return await self.since(before), answer

    async def call(self, native: HookCall) -> None:
        """Hand on a hook call as it was recorded."""
        handler = HookCalls(self.bus, ADAPTERS, 1.0, clock=self.clock.now, supervision=self.supervisor)
        await handler.handle(native)

    def news(self, adapter_id: str, session: str, *facts: Fact, grown: int = 100, **changes: Any) -> None:
        settings: dict[str, Any] = {"source_id": "rollout", "path": f"/telemetry/{session}"} | changes
        self.files.put(FileUpdate(adapter_id=adapter_id, session=session, facts=facts, grown=grown, **settings))

    async def tick(self, count: int = 1) -> list[Receipt]:
        """Let the interval pass and tick, so often."""
        before = self.bus.ledger.head
        for _ in range(count):
            self.clock.seconds += INTERVAL_S
            await self.supervisor.tick()
        return await self.since(before)

    async def observe(self) -> list[Receipt]:
        before = self.bus.ledger.head
        result: PassResult = await self.supervisor.poll_early()
        receipts = await self.since(before)
        assert len(result.stored) == len(receipts)
        return receipts

    async def since(self, position: int) -> list[Receipt]:
        page = await self.bus.ledger.read(Query(after=position, limit=1_000))
        return [decode_receipt(one.receipt) for one in page.stored]


def facts_of(receipts: Sequence[Receipt]) -> list[str]:
    """The events without the ticks that found them."""
    return [receipt.event.value for receipt in receipts if receipt.event != "supervisor.tick"]


@asynccontextmanager
async def supervised(directory: Path, limits: SupervisorLimits | None = None) -> AsyncGenerator[SupervisedBus]:
    fanout = Fanout()
    ledger = await SqliteLedger.open(directory / "ledger.db", entropy=os.urandom, committed=fanout.publish)
    registry = Registry(adapter.registered for adapter in ADAPTERS.values())
    try:
        async with anyio.create_task_group() as tasks:
            clock = Clock()
            bus = EventBus(registry=registry, ledger=ledger, fanout=fanout, ids=ids(), clock=clock.epoch, tasks=tasks)
            yield SupervisedBus(bus, clock, limits or SupervisorLimits())
            tasks.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await ledger.aclose()
