"""Names in the order in which they are due, with one timer for all of them."""

import heapq
from collections.abc import Callable
from typing import Final

import anyio

_STEP_S: Final = 60.0
"""The longest sleep: the wall clock may be set, and the machine may have slept."""


_SET_BACK_MS: Final = 1_000
"""A clock that shows so much less than before was set back; what is due comes no later for that."""


class DueQueue:
    """Names that are each due at a time.  `clock` returns wall-clock milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._shown_ms = clock()
        self._due: dict[str, int] = {}
        self._heap: list[tuple[int, str]] = []
        self._changed = anyio.Event()

    def put(self, name: str, at_ms: int | None) -> None:
        """Have a name due at a time, whenever it was before; None takes it out."""
        if at_ms is None:
            self._due.pop(name, None)
        elif self._due.get(name) != at_ms:
            self._due[name] = at_ms
            heapq.heappush(self._heap, (at_ms, name))
            self._rebuild()
            self.wake()

    def put_at_latest(self, name: str, at_ms: int) -> None:
        """Have a name due at a time, unless it is due before."""
        self.put(name, min(at_ms, self._due.get(name, at_ms)))

    def wake(self) -> None:
        """Look at the clock again."""
        self._changed.set()

    async def take(self) -> str:
        """Return the name that is due first, once it is, and take it out."""
        while True:
            self._changed = anyio.Event()  # before the look, so that nothing that changes during it is missed
            left = self._left_s()
            if left is None:
                await self._changed.wait()
            elif left > 0:
                with anyio.move_on_after(min(left, _STEP_S)):
                    await self._changed.wait()
            else:
                _, name = heapq.heappop(self._heap)
                del self._due[name]
                return name

    def _left_s(self) -> float | None:
        """Return how long it takes until the first name is due, None where there is none."""
        now_ms = self._clock()
        if self._shown_ms - now_ms > _SET_BACK_MS:
            self._set_back(self._shown_ms - now_ms)
        self._shown_ms = now_ms
        while self._heap and self._due.get(self._heap[0][1]) != self._heap[0][0]:
            heapq.heappop(self._heap)
        return (self._heap[0][0] - now_ms) / 1000 if self._heap else None

    def _rebuild(self) -> None:
        """Leave out what is not due any more, where that is most of the heap."""
        if len(self._heap) > 2 * len(self._due) + 64:
            self._order()

    def _set_back(self, by_ms: int) -> None:
        """Have everything due after the same pause as before the clock was set back."""
        self._due = {name: at_ms - by_ms for name, at_ms in self._due.items()}
        self._order()

    def _order(self) -> None:
        self._heap = [(at_ms, name) for name, at_ms in self._due.items()]
        heapq.heapify(self._heap)
