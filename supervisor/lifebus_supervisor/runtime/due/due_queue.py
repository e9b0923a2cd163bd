"""Names in the order in which they are due by the wall clock, with one timer for all of them."""

from collections.abc import Callable
from typing import Final

import anyio

from lifebus_supervisor.runtime.due.keyed_heap import KeyedHeap

_STEP_S: Final = 60.0
"""The longest sleep: the wall clock may be set, and the machine may have slept."""

_SET_BACK_MS: Final = 1_000
"""A clock that shows so much less than before was set back; what is due comes no later for that."""


class DueQueue:
    """Names that are each due at a time.  `clock` returns wall-clock milliseconds."""

    def __init__(self, clock: Callable[[], int]) -> None:
        self._clock = clock
        self._shown_ms = clock()
        self._due: KeyedHeap[str, int] = KeyedHeap()
        self._changed = anyio.Event()

    def put(self, name: str, at_ms: int | None) -> None:
        """Have a name due at a time, whenever it was before; None takes it out."""
        if at_ms is None:
            self._due.remove(name)
        elif self._due.place_of(name) != at_ms:
            self._due.put(name, at_ms)
            self.wake()

    def put_at_latest(self, name: str, at_ms: int) -> None:
        """Have a name due at a time, unless it is due before."""
        known_ms = self._due.place_of(name)
        self.put(name, at_ms if known_ms is None else min(at_ms, known_ms))

    def wake(self) -> None:
        """Look at the clock again."""
        self._changed.set()

    async def take(self) -> str:
        """Return the name that is due first, once it is, and take it out."""
        while True:
            self._changed = anyio.Event()  # before the look, so that nothing that changes during it is missed
            now_ms = self._look()
            first = self._due.first()
            if first is None:
                await self._changed.wait()
            elif first[0] > now_ms:
                with anyio.move_on_after(min((first[0] - now_ms) / 1000, _STEP_S)):
                    await self._changed.wait()
            else:
                self._due.remove(first[1])
                return first[1]

    def _look(self) -> int:
        """Return what the clock shows; where it was set back, all is due after the same pause as before."""
        now_ms = self._clock()
        back_ms = self._shown_ms - now_ms
        self._shown_ms = now_ms
        if back_ms > _SET_BACK_MS:
            self._due.move(lambda at_ms: at_ms - back_ms)
        return now_ms
