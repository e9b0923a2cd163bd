"""Blocking calls in a thread of their own, where a call that never returns does no harm.

A worker thread of anyio is waited for when the program ends, and a read from a file system that hangs would keep the
broker alive for ever.  So each `BlockingCall` has at most one daemon thread, and the program ends without it.
"""

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

import anyio

T = TypeVar("T")


class BlockingCall(Generic[T]):
    """One blocking call at a time, in a thread of its own.  Its result waits until it is fetched, however late."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._done: anyio.Event | None = None
        self._result: T | None = None
        self._fault: BaseException | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call was started whose result has not been fetched."""
        return self._done is not None

    @property
    def is_done(self) -> bool:
        """Whether a result waits to be fetched."""
        return self._done is not None and self._done.is_set()

    def start(self, work: Callable[[], T]) -> None:
        """Start a call; the last one's result must have been fetched."""
        loop, done = asyncio.get_running_loop(), anyio.Event()

        def call() -> None:
            try:
                self._result, self._fault = work(), None
            except BaseException as fault:  # noqa: BLE001  it is raised where the result is fetched
                self._fault = fault
            with suppress(RuntimeError):  # ignored when the event loop is closed
                loop.call_soon_threadsafe(done.set)

        self._done = done
        # No executor: the interpreter joins an executor's threads at exit, whether they are daemons or not.
        threading.Thread(target=call, name=self._name, daemon=True).start()

    async def wait(self, within_s: float) -> bool:
        """Wait for the call that was started; return whether it ended in time."""
        if self._done is not None:
            with anyio.move_on_after(within_s):
                await self._done.wait()
        return self.is_done

    def result(self) -> T:
        """Return the result of a call that is done, or raise what it raised."""
        result, fault = self._result, self._fault
        # Cleared before raising, so that a fault leaves the call free to start again.
        self._done = self._result = self._fault = None
        if fault is not None:
            raise fault
        return result  # type: ignore[return-value]  # it is set where there is no fault
