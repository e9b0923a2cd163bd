"""The observer: reads what the proxy records, queues it for the broker, and reports the end."""

import asyncio
from pathlib import Path
from typing import Final

import anyio
import msgspec
from msgspec import Struct

from lifebus.observer.final_hook_call import call_final_hook
from lifebus.observer.queue import ObservationQueue
from lifebus.observer.recording import DIRECTIONS, Chunk, Ending, Positions, Recording
from lifebus.observer.sender import ObservationSender, ObservedRun
from lifebus.observer.steering import Steering
from lifebus.observer.steering_orders import take_orders
from lifebus.observer.stream import AppServerStream
from lifebus.observer.way_back import ProxyWay
from lifebus_adapters.app_server.reader import Direction, FactSeen, Observed
from lifebus_contract.fields import FactValue
from lifebus_transports.messages.signals import (
    Observation,
    ObservedExit,
    ObservedFact,
    ObservedLoss,
    ObservedSignal,
)
from lifebus_transports.signal_names import signal_name

OUTLIVES_S: Final = 2.0
"""How long the observer outlives its server while no broker takes the rest; the last call of the hook included."""

_SENDING_S: Final = 1.0
"""How much of that is for the broker."""

_LEAST_S: Final = 0.4
"""How long is tried in any case: a server may have ended before its observer had started."""


class Deadlines(Struct, frozen=True):
    """Until when the rest is sent, and until when the hook has taken what is left, on the monotonic clock."""

    sending: float
    leaving: float


def deadlines(ended_at_ms: int | None, now: float) -> Deadlines:
    """Return the deadlines of an observer whose server has ended; one whose end nobody has noted ended just now."""
    ended = now if ended_at_ms is None else min(now, ended_at_ms / 1_000)
    sending = max(ended + _SENDING_S, now + _LEAST_S)
    return Deadlines(sending, max(ended + OUTLIVES_S, sending + _LEAST_S))


class ObservationReader:
    """Reads what the proxy records into the queue, until the proxy has ended.

    `steering` sends lines to the server by the way back to the `proxy`, a descriptor; None without one.
    """

    def __init__(self, recording: Recording, queue: ObservationQueue, proxy: int | None = None) -> None:
        self.ended = asyncio.Event()
        self._recording = recording
        self._queue = queue
        self._stream = AppServerStream()
        self.steering = None if proxy is None else Steering(self._stream, ProxyWay(proxy), queue.add)
        self._changed = asyncio.Event()
        # Whether the stream has what came just before, in each direction: an observer that takes over has not.
        self._continues = dict.fromkeys(DIRECTIONS, recording.is_first)
        queue.begin(recording.reported)
        if not recording.is_first:
            self._stream.note_gap()

    def read_available(self) -> None:
        """Queue what is there; the event loop calls this when the pipe of records is readable."""
        chunks = self._recording.read()
        if chunks is None:
            self._finish(self._recording.ending())
            self.ended.set()
        for chunk in chunks or ():
            self._take(chunk)
        self.note_reported()
        self._changed.set()

    def note_reported(self) -> None:
        """Note how far everything is with the broker, for the observer that comes if this one dies."""
        self._recording.report(self._queue.reported)

    async def wait_for_work(self) -> bool:
        """Wait until something is queued; return False once the queue is empty and nothing more will come."""
        while not len(self._queue) and not self.ended.is_set():
            self._changed.clear()
            await self._changed.wait()
        return len(self._queue) > 0

    def _take(self, chunk: Chunk) -> None:
        direction, data = chunk.direction, chunk.data
        if chunk.lost or not (self._continues[direction] or chunk.begins_line):
            self._stream.lose(direction, line_begins=chunk.begins_line)
        self._continues[direction] = True
        if chunk.lost:
            # Before the chunk itself: what is missing came before it, and nobody knows how many messages it was.
            self._queue.add(ObservedLoss(messages=None, bytes=chunk.lost), read=self._move(direction, chunk.position))
        by = None if not chunk.ours or self.steering is None else self.steering.sender
        lines = list(self._stream.lines(direction, data, chunk.at_ms, by))
        if self.steering is not None:
            self.steering.note_read(direction, chunk.position + len(data), lost=chunk.lost > 0)
        last = chunk.position + data.rfind(b"\n") + 1
        end = last - sum(size for size, _ in lines)
        for size, observed in lines:
            end += size
            self._enqueue(observed, ObservedLoss(messages=1, bytes=size), self._move(direction, end))
        if b"\n" in data:
            self._move(direction, last)  # also where what ended was passed over

    def _move(self, direction: Direction, position: int) -> Positions:
        """Take it that a direction is read up to a position; return both."""
        into, out = self._queue.read
        self._queue.advance((position, out) if direction == "in" else (into, position))
        return self._queue.read

    def _enqueue(
        self, observed: list[Observed], loss: ObservedLoss | None = None, read: Positions | None = None
    ) -> None:
        """Queue what one message says; `loss` is what is lost with it, `read` how far all is read behind it."""
        for number, one in enumerate(observed, 1):
            item = _observation(one)
            self._queue.add(item, loss if number == 1 else None, read=read if number == len(observed) else None)

    def _finish(self, ending: Ending) -> None:
        """Queue what was lost last, the end of everything that is open, and how the program ended."""
        lost = sum(ending.lost.values())
        if lost:
            self._queue.add(ObservedLoss(messages=None, bytes=lost))
        evidence = _evidence(ending.code)
        counts: dict[str, FactValue] = msgspec.to_builtins(self._stream.counters)
        if self.steering is not None:
            # A proxy that was killed has not passed on all that the server had said.
            self.steering.own.close(all_read=ending.code is not None and not lost)
        self._enqueue(self._stream.close(evidence, counts))
        exited = ending.code if ending.code is not None and ending.code >= 0 else None
        killed_by = -ending.code if ending.code is not None and ending.code < 0 else None
        self._queue.add(ObservedExit(exit_code=exited, signal=killed_by, evidence={**evidence, **counts}))


def _observation(one: Observed) -> Observation:
    if isinstance(one, FactSeen):
        return ObservedFact(fact=msgspec.to_builtins(one.fact))
    return ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal)


def _evidence(code: int | None) -> dict[str, FactValue]:
    """Return what shows the end: an exit code, a signal, or only that the proxy is gone."""
    if code is None:
        return {"passage": "killed"}  # receipts have always named it so
    if code >= 0:
        return {"exit_code": code}
    return {"signal": -code, "signal_name": signal_name(-code)}


async def observe(recording: Recording, run: ObservedRun, runtime_dir: Path, proxy: int | None = None) -> None:
    """Report to the broker what passes, until the proxy has ended and all is reported, or the time for that is over.

    `proxy` is the way back, by which the broker has lines sent to the server.
    """
    queue = ObservationQueue()
    reader = ObservationReader(recording, queue, proxy)
    sender = ObservationSender(queue, runtime_dir, run, reader.note_reported)
    loop = asyncio.get_running_loop()
    loop.add_reader(recording.records, reader.read_available)

    def ended_at() -> int | None:
        return recording.ending().at_ms

    async with anyio.create_task_group() as tasks:
        steered = anyio.CancelScope()

        async def steer() -> None:
            if reader.steering is not None:
                with steered:
                    await take_orders(reader.steering, run, runtime_dir)

        async def watch_end() -> None:
            await reader.ended.wait()
            steered.cancel()
            loop.remove_reader(recording.records)
            # The editor has its exit code already; this process only lingers.
            now = anyio.current_time()
            tasks.cancel_scope.deadline = now if sender.broker_absent else deadlines(ended_at(), now).sending

        tasks.start_soon(watch_end)
        tasks.start_soon(steer)
        await sender.run(reader.wait_for_work)
    if len(queue):
        now = anyio.current_time()
        seconds = deadlines(ended_at(), now).leaving - now
        call_final_hook(run, runtime_dir, recording.ending().code, queue.remaining(), seconds)
