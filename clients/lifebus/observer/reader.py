"""The observer at work: what the passage records is read, told to the broker, and in the end concluded."""

import asyncio
import signal
from pathlib import Path
from typing import Final

import anyio
import msgspec

from lifebus.observer.final_hook_call import call_final_hook
from lifebus.observer.queue import ObservationQueue
from lifebus.observer.recording import Chunk, Ending, Recording
from lifebus.observer.sender import ObservationSender, ObservedRun
from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server import FactSeen, Observed
from lifebus_contract.fields import FactValue
from lifebus_transports.messages.signals import ObservedExit, ObservedFact, ObservedLoss, ObservedSignal

_LAST_S: Final = 2.0
"""How long the observer outlives the passage while no broker takes the rest."""


class ObservationReader:
    """Reads what the passage records into the backlog, until the passage has ended."""

    def __init__(self, recording: Recording, backlog: ObservationQueue) -> None:
        self.ended = asyncio.Event()
        self._recording = recording
        self._backlog = backlog
        self._stream = AppServerStream()
        self._news = asyncio.Event()

    def look(self) -> None:
        """Take in what is there; the loop calls it when there is something."""
        chunks = self._recording.read()
        if chunks is None:
            self._conclude(self._recording.ending())
            self.ended.set()
        for chunk in chunks or ():
            self._take(chunk)
        self._news.set()

    async def more(self) -> bool:
        """Wait until something is to be told; return False once everything is, and nothing more will come."""
        while not len(self._backlog) and not self.ended.is_set():
            self._news.clear()
            await self._news.wait()
        return len(self._backlog) > 0

    def _take(self, chunk: Chunk) -> None:
        if chunk.lost:
            self._stream.lose(chunk.direction)
            self._backlog.add(ObservedLoss(bytes=chunk.lost))
        self._tell(self._stream.feed(chunk.direction, chunk.data, chunk.at_ms))

    def _tell(self, observed: list[Observed]) -> None:
        for one in observed:
            if isinstance(one, FactSeen):
                self._backlog.add(ObservedFact(fact=msgspec.to_builtins(one.fact)))
            else:
                self._backlog.add(ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal))

    def _conclude(self, ending: Ending) -> None:
        """Tell what was lost last, the end of everything that is open, and how the program ended."""
        lost = sum(ending.lost.values())
        if lost:
            self._backlog.add(ObservedLoss(bytes=lost))
        evidence = _evidence(ending.code)
        self._tell(self._stream.close(evidence))
        counts: dict[str, FactValue] = msgspec.to_builtins(self._stream.counters)
        exited = ending.code if ending.code is not None and ending.code >= 0 else None
        killed_by = -ending.code if ending.code is not None and ending.code < 0 else None
        self._backlog.add(ObservedExit(exit_code=exited, signal=killed_by, evidence={**evidence, **counts}))


def _evidence(code: int | None) -> dict[str, FactValue]:
    """Return what shows the end: an exit code, a signal, or only that the passage is gone."""
    if code is None:
        return {"passage": "killed"}
    if code >= 0:
        return {"exit_code": code}
    return {"signal": -code, "signal_name": _name_of(-code)}


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def observe(recording: Recording, sender: ObservedRun, runtime_dir: Path) -> None:
    """Tell the broker what passes, until the passage has ended and all is told, or the time for that is over."""
    backlog = ObservationQueue()
    witness, delivery = ObservationReader(recording, backlog), ObservationSender(backlog, runtime_dir, sender)
    loop = asyncio.get_running_loop()
    loop.add_reader(recording.records, witness.look)

    async with anyio.create_task_group() as tasks:

        async def watch_end() -> None:
            await witness.ended.wait()
            loop.remove_reader(recording.records)
            tasks.cancel_scope.deadline = anyio.current_time() + (0 if delivery.hopeless else _LAST_S)

        tasks.start_soon(watch_end)
        await delivery.run(witness.more)
    if len(backlog):
        call_final_hook(sender, runtime_dir, recording.ending().code, backlog.left())
