"""How turns of workers ended, as observers report it: durable with the job before the report is acknowledged."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final

import anyio
import structlog

from lifebus_supervisor.queue.records import WorkerAnswer
from lifebus_transports.messages.signals import ObservedTurn

_MAX_ITEMS: Final = 256

_log = structlog.get_logger("lifebus.worker_turns")


class AwaitedTurn:
    """A turn that somebody waits for: `answer` is how it ended, once `ended` is set; `items` what it did up to now."""

    def __init__(self, turn_id: str | None) -> None:
        self.turn_id = turn_id
        self.answer: WorkerAnswer | None = None
        self.ended = anyio.Event()
        self.items: list[str] = []
        self.came = anyio.Event()

    def take(self, answer: WorkerAnswer) -> None:
        """Take how the turn ended; another turn's end is none of it."""
        if self.answer is None and self.turn_id in {None, answer.turn_id}:
            self.answer = answer
            self.ended.set()

    def add(self, item: str) -> None:
        """Take that an item is complete."""
        if len(self.items) < _MAX_ITEMS:
            self.items.append(item)
            self.came.set()
            self.came = anyio.Event()


class TurnAnswers:
    """The turns that are waited for, by thread.  `record` makes an end durable with the job that runs in a thread."""

    def __init__(self) -> None:
        self.record: Callable[[str, WorkerAnswer], Awaitable[bool]] = _nobody
        self._awaited: dict[str, AwaitedTurn] = {}

    @contextmanager
    def awaited(self, thread: str, turn_id: str | None = None) -> Generator[AwaitedTurn]:
        """Wait for the turn that runs, or is about to begin, in a thread."""
        turn = self._awaited[thread] = AwaitedTurn(turn_id)
        try:
            yield turn
        finally:
            if self._awaited.get(thread) is turn:
                del self._awaited[thread]

    async def take(self, seen: ObservedTurn) -> None:
        """Take what an observer reports; return once an end is durable.

        Raises:
            LifebusError: it was not recorded, and has to come again.
        """
        awaited = self._awaited.get(seen.thread)
        if seen.status == "inProgress":
            if awaited is not None:
                awaited.add(seen.item)
            return
        answer = WorkerAnswer(
            turn_id=seen.turn,
            status=seen.status,
            text=seen.text,
            cut=seen.cut,
            error=seen.error,
            retryable=seen.retryable,
        )
        if not await self.record(seen.thread, answer):
            _log.info("worker_turn_of_no_job", thread=seen.thread, turn=seen.turn, status=seen.status)
        # Looked up again: whoever waits may have begun to meanwhile.
        if (awaited := self._awaited.get(seen.thread)) is not None:
            awaited.take(answer)


async def _nobody(_: str, __: WorkerAnswer) -> bool:
    return False
