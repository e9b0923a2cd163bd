"""A pool of what is few: first come, first served, and only so many may wait."""

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from lifebus_contract import BrokerBusy, LifebusError

MOST_WAITING: Final = 256
"""How many may wait at one pool; more are refused as busy."""

T = TypeVar("T")


class Pool(Generic[T]):
    """Items that are lent to one caller at a time.  Who waits has a deadline of its own, and is cancelled at it."""

    def __init__(self) -> None:
        self._free: deque[T] = deque()
        self._waiting: deque[asyncio.Future[T]] = deque()

    def release(self, item: T) -> None:
        """Give an item to who has waited longest, or keep it until somebody comes."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():  # a cancelled caller stays in the queue until its task runs
                future.set_result(item)
                return
        self._free.append(item)

    def discard(self, item: T) -> None:
        """Take an item out of the pool, if it is free."""
        if item in self._free:
            self._free.remove(item)

    def fail_waiting(self, fault: LifebusError) -> None:
        """Raise `fault` in everybody who waits."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(fault)

    async def acquire(self) -> T:
        """Return an item, which is then the caller's until it is released.

        Raises:
            BrokerBusy: too many wait already.
            LifebusError: there will be no item.
        """
        if self._free:
            return self._free.popleft()
        if len(self._waiting) >= MOST_WAITING:
            raise BrokerBusy("too many dispatches wait for this command; try again", code="busy")
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            # The item may have come in the same turn of the loop as the cancellation: it must not be lost.
            if future.done() and not future.cancelled() and future.exception() is None:
                self.release(future.result())
            elif future in self._waiting:
                self._waiting.remove(future)
            raise
