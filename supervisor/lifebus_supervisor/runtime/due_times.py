"""One timer for many: each is looked at again when its next pause is over."""

import asyncio
import heapq
from collections.abc import Callable
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

_SAME_S: Final = 0.001


class Timed(Protocol):
    """Something that is looked at again; `due` is when, None where nothing is to be looked at."""

    due: float | None


One = TypeVar("One", bound=Timed)


class DueTimes(Generic[One]):
    """When each one is due, by the clock of the event loop, in seconds; `on_due` is called with it then."""

    def __init__(self, on_due: Callable[[One], None]) -> None:
        self._on_due = on_due
        self._heap: list[tuple[float, int, One]] = []
        self._numbers = count()
        self._timer: asyncio.TimerHandle | None = None

    def set(self, one: One, delay_s: float | None) -> None:
        """Have one looked at after a delay, and not at the time that was set before; None is never."""
        if delay_s is None:
            one.due = None
            return
        due = asyncio.get_running_loop().time() + max(0.0, delay_s)
        if one.due is not None and abs(one.due - due) < _SAME_S:
            return
        one.due = due
        heapq.heappush(self._heap, (due, next(self._numbers), one))
        self._arm()

    def close(self) -> None:
        """Stop; nothing is due any more."""
        self._heap.clear()
        if self._timer is not None:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        # What was set anew or is over stays in the heap until its time: it is passed over here.
        while self._heap and self._heap[0][2].due != self._heap[0][0]:
            heapq.heappop(self._heap)
        if self._heap:
            self._timer = asyncio.get_running_loop().call_at(self._heap[0][0], self._fire)

    def _fire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._heap and self._heap[0][0] <= now:
            due, _, one = heapq.heappop(self._heap)
            if one.due == due:
                one.due = None
                self._on_due(one)
        self._arm()
