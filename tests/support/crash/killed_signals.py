"""Observers that tell a broker of signals through all its lives, who follows what comes of it, and a life that ends."""

import random
from collections.abc import Sequence
from contextlib import suppress

import anyio
from anyio.abc import TaskStatus

import lifebus
from lifebus.signals import SignalReceived
from lifebus_contract import LifebusError
from lifebus_transports.messages.signals import Observation, Observe, ObserveAnswer
from support.broker_process import BrokerProcess
from support.patience import PATIENCE_S


class Reporter:
    """One observer through all the broker's lives: what it does not know the fate of, it sends again."""

    largest = 30
    """Most observations of one batch."""

    def __init__(self, origin: str, chance: random.Random) -> None:
        self.origin = origin
        self.sent = 0
        self._chance = chance
        self._pending: list[Observation] = []

    def make(self, number: int) -> Observation:
        """The observation of a number; the first one is 1."""
        raise NotImplementedError

    async def report(self, bus: lifebus.Bus) -> None:
        """Send one batch until it is answered, or until the broker is gone."""
        if not self._pending:
            size = self._chance.randint(1, self.largest)
            self._pending = [self.make(self.sent + step) for step in range(1, size + 1)]
        body = Observe(
            client_id="test",
            adapter_id="codex",
            origin=self.origin,
            first=self.sent + 1,
            observations=tuple(self._pending),
        )
        answer = await bus._connection.ask("observe", body, ObserveAnswer, timeout=PATIENCE_S)
        assert answer.through == self.sent + len(self._pending)
        self.sent, self._pending = answer.through, []


class Follower:
    """Follows every thread of an adapter through every restart and keeps what it saw."""

    def __init__(self, adapter: str = "codex") -> None:
        self.seen: list[SignalReceived] = []
        self.gaps: list[lifebus.Gap] = []
        self._adapter = adapter

    async def follow(self, broker: BrokerProcess, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Follow to the end; it has started once it follows, because joining is not tried again with another broker."""
        async with lifebus.connect("follower", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            signals = bus.signals(adapter=self._adapter, since="start", gaps="yield")
            await signals.join()
            task_status.started()
            async for item in signals:
                if isinstance(item, lifebus.Gap):
                    self.gaps.append(item)
                else:
                    self.seen.append(item)


async def kill_amid_reports(
    broker: BrokerProcess, reporters: Sequence[Reporter], batches: int, longest_s: float, chance: random.Random
) -> None:
    """Let everybody report until a number of batches is answered, and then, within some moments, kill."""
    enough = anyio.Event()

    async def report(bus: lifebus.Bus, reporter: Reporter) -> None:
        nonlocal batches
        with suppress(LifebusError):  # the broker was killed
            while True:
                await reporter.report(bus)
                batches -= 1
                if batches <= 0:
                    enough.set()

    async with (
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        anyio.create_task_group() as tasks,
    ):
        for reporter in reporters:
            tasks.start_soon(report, bus, reporter)
        await enough.wait()
        with anyio.move_on_after(chance.uniform(0, longest_s)):
            await anyio.sleep_forever()
        await broker.kill()
        tasks.cancel_scope.cancel()
