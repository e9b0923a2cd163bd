"""An observer of an app-server in front of a supervised bus: bytes in, receipts out, its numbers and origin as real."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from lifebus.observer.stream import AppServerStream
from lifebus_adapters import CallerProcess
from lifebus_adapters.app_server.reader import FactSeen, Observed
from lifebus_contract import Receipt
from lifebus_supervisor.app_server.intake import AppServerIntake
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedLoss, ObservedProcess
from support.adapters.app_server_recordings import Chunk, chunks_of, read_messages
from support.supervisor.supervised import SupervisedBus

SERVER = CallerProcess(pid=777, started="boot:7")


class Observer:
    """One run of an observer.  Every step returns the receipts that it added."""

    def __init__(
        self,
        rig: SupervisedBus,
        origin: str = "o1",
        *,
        process: CallerProcess | None = SERVER,
        intake: AppServerIntake | None = None,
    ) -> None:
        self.rig = rig
        self.intake = intake or AppServerIntake(rig.bus, rig.supervisor, rig.recorder)
        self.reader = AppServerStream()
        self.sent: list[tuple[int, ObservedFact | ObservedLoss | ObservedExit]] = []
        self._origin = origin
        self._process = None if process is None else ObservedProcess(pid=process.pid, started=process.started)
        self._next = 1

    async def says(self, *messages: Any) -> list[Receipt]:
        """The server says something; a client's messages stand in tuples of one."""
        return await self.send(read_messages(*messages, reader=self.reader))

    async def feed(self, chunks: Sequence[Chunk]) -> list[Receipt]:
        before = self.rig.bus.ledger.head
        for direction, data, at_ms in chunks:
            await self.send(self.reader.feed(direction, data, at_ms))
        return await self.rig.since(before)

    async def ends(self, **evidence: int) -> list[Receipt]:
        """The server ends, and its observer says so."""
        before = self.rig.bus.ledger.head
        await self.send(self.reader.close({**evidence}))
        await self.observe(ObservedExit(exit_code=evidence.get("exit_code"), signal=evidence.get("signal")))
        return await self.rig.since(before)

    async def send(self, observed: Sequence[Observed]) -> list[Receipt]:
        """Send what a reader saw, as plain data."""
        facts = [ObservedFact(fact=msgspec.to_builtins(seen.fact)) for seen in observed if isinstance(seen, FactSeen)]
        return await self.observe(*facts)

    async def observe(self, *observations: ObservedFact | ObservedLoss | ObservedExit) -> list[Receipt]:
        numbered = list(enumerate(observations, self._next))
        self._next += len(numbered)
        self.sent += numbered
        return await self.again(numbered)

    async def again(self, numbered: Sequence[tuple[int, ObservedFact | ObservedLoss | ObservedExit]]) -> list[Receipt]:
        """Send numbered observations, which may have been sent before."""
        before = self.rig.bus.ledger.head
        if numbered:
            await self.intake.take(self._origin, "codex", self._process, numbered)
        return await self.rig.since(before)


async def play(rig: SupervisedBus, recording: Path) -> list[Receipt]:
    """Play a recording to its end, as two runs where the server was killed and started again."""
    chunks = chunks_of(recording)
    begins = [number for number, (_, data, _) in enumerate(chunks) if b'"method": "initialize", "id": 1,' in data]
    cut = begins[1] if len(begins) > 1 else len(chunks)
    first = Observer(rig)
    await first.feed(chunks[:cut])
    await rig.observe()
    if chunks[cut:]:
        await first.ends(signal=9)
        second = Observer(rig, "o2", process=CallerProcess(pid=778, started="boot:8"), intake=first.intake)
        await second.feed(chunks[cut:])
        first = second
    await rig.observe()
    await first.ends(exit_code=0)
    await rig.tick(4)
    return await rig.since(0)
