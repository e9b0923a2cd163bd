"""The observer: reads what the proxy records, queues it for the broker, and reports the end."""

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
"""How long the observer outlives the proxy while no broker takes the rest."""


class ObservationReader:
    """Reads what the proxy records into the queue, until the proxy has ended."""

    def __init__(self, recording: Recording, queue: ObservationQueue) -> None:
        self.ended = asyncio.Event()
        self._recording = recording
        self._queue = queue
        self._stream = AppServerStream()
        self._changed = asyncio.Event()

    def read_available(self) -> None:
        """Queue what is there; the event loop calls this when the pipe of records is readable."""
        chunks = self._recording.read()
        if chunks is None:
            self._finish(self._recording.ending())
            self.ended.set()
        for chunk in chunks or ():
            self._take(chunk)
        self._changed.set()

    async def wait_for_work(self) -> bool:
        """Wait until something is queued; return False once the queue is empty and nothing more will come."""
        while not len(self._queue) and not self.ended.is_set():
            self._changed.clear()
            await self._changed.wait()
        return len(self._queue) > 0

    def _take(self, chunk: Chunk) -> None:
        if chunk.lost:
            # Before the chunk itself: what is missing came before it, and cut a line in two.
            self._stream.lose(chunk.direction)
            self._queue.add(ObservedLoss(bytes=chunk.lost))
        self._enqueue(self._stream.feed(chunk.direction, chunk.data, chunk.at_ms))

    def _enqueue(self, observed: list[Observed]) -> None:
        for one in observed:
            if isinstance(one, FactSeen):
                self._queue.add(ObservedFact(fact=msgspec.to_builtins(one.fact)))
            else:
                self._queue.add(ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal))

    def _finish(self, ending: Ending) -> None:
        """Queue what was lost last, the end of everything that is open, and how the program ended."""
        lost = sum(ending.lost.values())
        if lost:
            self._queue.add(ObservedLoss(bytes=lost))
        evidence = _evidence(ending.code)
        self._enqueue(self._stream.close(evidence))
        counts: dict[str, FactValue] = msgspec.to_builtins(self._stream.counters)
        exited = ending.code if ending.code is not None and ending.code >= 0 else None
        killed_by = -ending.code if ending.code is not None and ending.code < 0 else None
        self._queue.add(ObservedExit(exit_code=exited, signal=killed_by, evidence={**evidence, **counts}))


def _evidence(code: int | None) -> dict[str, FactValue]:
    """Return what shows the end: an exit code, a signal, or only that the proxy is gone."""
    if code is None:
        return {"passage": "killed"}  # receipts have always named it so
    if code >= 0:
        return {"exit_code": code}
    return {"signal": -code, "signal_name": _name_of(-code)}


def _name_of(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


async def observe(recording: Recording, run: ObservedRun, runtime_dir: Path) -> None:
    """Report to the broker what passes, until the proxy has ended and all is reported, or the time for that is over."""
    queue = ObservationQueue()
    reader, sender = ObservationReader(recording, queue), ObservationSender(queue, runtime_dir, run)
    loop = asyncio.get_running_loop()
    loop.add_reader(recording.records, reader.read_available)

    async with anyio.create_task_group() as tasks:

        async def watch_end() -> None:
            await reader.ended.wait()
            loop.remove_reader(recording.records)
            # The editor has its exit code already; this process only lingers.
            tasks.cancel_scope.deadline = anyio.current_time() + (0 if sender.broker_absent else _LAST_S)

        tasks.start_soon(watch_end)
        await sender.run(reader.wait_for_work)
    if len(queue):
        call_final_hook(run, runtime_dir, recording.ending().code, queue.remaining())
