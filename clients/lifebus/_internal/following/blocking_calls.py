"""Calls from a thread into the event loop of its bus, without a task for each of them."""

import asyncio
import threading
from collections.abc import Awaitable, Callable, Generator
from concurrent.futures import CancelledError, Future
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

from anyio.from_thread import BlockingPortal

T = TypeVar("T")

Work = Callable[[], Awaitable[Any]]


class BlockingCalls:
    """Has one task of the loop do what a thread asks, one call at a time; made by `blocking_calls`.

    A portal starts a task for each call, which takes three times as long.  What threads ask beside a call that is under
    way goes to the portal all the same: none waits for another.
    """

    def __init__(self, portal: BlockingPortal) -> None:
        self._portal = portal
        self._free = threading.Lock()
        self._loop: asyncio.AbstractEventLoop
        self._asked: asyncio.Queue[tuple[Work, Future[Any]]]
        self._is_over = False

    def call(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return what the work returns, or raise what it raises."""
        if not self._free.acquire(blocking=False):
            return self._portal.call(work)
        done: Future[T] = Future()
        try:
            self._loop.call_soon_threadsafe(self._ask, work, done)
            return done.result()
        finally:
            # A thread that was interrupted leaves its call under way: from then on the portal does the others.
            if done.done():
                self._free.release()

    async def run(self, ready: Future[None]) -> None:
        """Do what is asked, until cancelled; what was asked and not begun by then is cancelled."""
        self._loop, self._asked = asyncio.get_running_loop(), asyncio.Queue(1)
        ready.set_result(None)
        try:
            while True:
                await _do(*await self._asked.get())
        finally:
            self._is_over = True
            while not self._asked.empty():
                self._asked.get_nowait()[1].cancel()

    def _ask(self, work: Work, done: Future[Any]) -> None:
        # After the end nobody takes it from the queue, and its thread would wait for ever.
        if self._is_over:
            done.cancel()
        else:
            self._asked.put_nowait((work, done))


async def _do(work: Work, done: Future[Any]) -> None:
    try:
        result = await work()
    except Exception as fault:  # noqa: BLE001  it is the caller's, whatever it is
        done.set_exception(fault)
    except BaseException:
        done.cancel()
        raise
    else:
        done.set_result(result)


@contextmanager
def blocking_calls(portal: BlockingPortal) -> Generator[BlockingCalls]:
    """Take calls into the loop of a portal inside the block."""
    calls, ready = BlockingCalls(portal), Future[None]()
    running = portal.start_task_soon(calls.run, ready)
    ready.result()
    try:
        yield calls
    finally:
        running.cancel()
        with suppress(CancelledError):
            running.result()
