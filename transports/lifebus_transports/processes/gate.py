"""Lending what is few: first come, first served, and only so many may wait."""

import asyncio
from collections import deque
from typing import Final, Generic, TypeVar

from lifebus_contract import BrokerBusy, LifebusError

MOST_WAITING: Final = 256
"""How many may wait at one gate; more are refused as busy."""

T = TypeVar("T")


class Gate(Generic[T]):
    """Lends things.  Nobody waits here by itself for ever: who takes has a deadline, and is cancelled at it."""

    def __init__(self) -> None:
        self._free: deque[T] = deque()
        self._waiting: deque[asyncio.Future[T]] = deque()

    def put(self, thing: T) -> None:
        """Lend a thing to who waits longest, or keep it until somebody comes."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_result(thing)
                return
        self._free.append(thing)

    def drop(self, thing: T) -> None:
        """Forget a thing, if it is here."""
        if thing in self._free:
            self._free.remove(thing)

    def refuse(self, fault: LifebusError) -> None:
        """Send away everybody who waits."""
        while self._waiting:
            future = self._waiting.popleft()
            if not future.done():
                future.set_exception(fault)

    async def take(self) -> T:
        """Return a thing, which is then the caller's until it is put back or forgotten.

        Raises:
            BrokerBusy: too many wait already.
            LifebusError: there will be nothing.
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
            if future.done() and not future.cancelled() and future.exception() is None:
                self.put(future.result())  # it came in the moment of leaving
            else:
                self._leave(future)
            raise

    def _leave(self, future: "asyncio.Future[T]") -> None:
        if future in self._waiting:
            self._waiting.remove(future)
