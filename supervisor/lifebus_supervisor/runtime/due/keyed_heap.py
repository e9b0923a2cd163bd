"""Keys in the order of their places, each of which may change its place or leave.  Pure."""

import heapq
from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, Final, Generic, Protocol, TypeVar

_FEW: Final = 64
"""So many entries that stand for nothing are kept, so that a small heap is not built again and again."""


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Key = TypeVar("Key", bound=Hashable)
Place = TypeVar("Place", bound=_Ordered)


class KeyedHeap(Generic[Key, Place]):
    """A priority queue: each key has one place at most, and the key with the least place is at hand.

    Of keys with one place the one that was put first goes first.  What left its place stays in the heap until it comes
    up, or until most of the heap is of that kind: so the heap has at most twice as many entries as keys, and a few.
    """

    def __init__(self) -> None:
        self._entries: dict[Key, tuple[Place, int]] = {}
        self._heap: list[tuple[Place, int, Key]] = []
        self._numbers = count()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: Key, place: Place) -> None:
        """Give a key its place; it leaves the one that it had."""
        entry = (place, next(self._numbers))
        self._entries[key] = entry
        heapq.heappush(self._heap, (*entry, key))
        self._bound()

    def remove(self, key: Key) -> None:
        """Take a key out, if it is there."""
        self._entries.pop(key, None)
        self._bound()

    def place_of(self, key: Key) -> Place | None:
        """Return the place of a key, None where it has none."""
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def first(self) -> tuple[Place, Key] | None:
        """Return the least place and whose it is, None where the heap is empty."""
        while self._heap:
            place, number, key = self._heap[0]
            entry = self._entries.get(key)
            if entry is not None and entry[1] == number:
                return place, key
            heapq.heappop(self._heap)
        return None

    def move(self, moved: Callable[[Place], Place]) -> None:
        """Give every key another place, by its place."""
        self._entries = {key: (moved(place), number) for key, (place, number) in self._entries.items()}
        self._rebuild()

    def clear(self) -> None:
        """Take all keys out."""
        self._entries.clear()
        self._heap.clear()

    def _bound(self) -> None:
        if len(self._heap) > 2 * len(self._entries) + _FEW:
            self._rebuild()

    def _rebuild(self) -> None:
        self._heap = [(*entry, key) for key, entry in self._entries.items()]
        heapq.heapify(self._heap)
