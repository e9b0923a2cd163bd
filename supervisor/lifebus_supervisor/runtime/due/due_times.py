"""One timer for many: each is looked at again when its next pause is over."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Final, Generic, TypeVar

from lifebus_supervisor.runtime.due.keyed_heap import KeyedHeap

_SAME_S: Final = 0.001

One = TypeVar("One", bound=Hashable)


class DueTimes(Generic[One]):
    """When each one is due, by the clock of the event loop, in seconds; `on_due` is called with it then."""

    def __init__(self, on_due: Callable[[One], None]) -> None:
        self._on_due = on_due
        self._due: KeyedHeap[One, float] = KeyedHeap()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, one: One, delay_s: float | None) -> None:
        """Have one looked at after a delay, and not at the time that was set before; None is never."""
        if delay_s is None:
            self._due.remove(one)
            return
        at = asyncio.get_running_loop().time() + max(0.0, delay_s)
        before = self._due.place_of(one)
        if before is not None and abs(before - at) < _SAME_S:
            return
        self._due.put(one, at)
        self._arm()

    def close(self) -> None:
        """Stop; nothing is due any more."""
        self._due.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if (first := self._due.first()) is not None:
            self._timer = asyncio.get_running_loop().call_at(first[0], self._fire)

    def _fire(self) -> None:
        now = asyncio.get_running_loop().time()
        while (first := self._due.first()) is not None and first[0] <= now:
            self._due.remove(first[1])
            self._on_due(first[1])
        self._arm()
