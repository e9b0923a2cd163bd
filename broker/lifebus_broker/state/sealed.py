"""What is kept of sessions that ended, by adapter and session: in memory here; a ledger file has a place on the disk.

Where it is kept changes no answer.  Others keep what grows with sessions in the same way, by two names of their own.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Protocol, TypeAlias

SealedItem: TypeAlias = tuple[tuple[str, str], bytes]
"""(adapter_id, harness_session_id), and what is kept of the session."""


class SealedItems(Protocol):
    """Bytes by adapter and session.  Every method may block on a disk; one thread at a time.

    Every method may raise `InternalError`: what was kept cannot be read any more.
    """

    def __len__(self) -> int:
        """Return how many sessions there are."""
        ...

    def get(self, key: tuple[str, str]) -> bytes | None:
        """Return what is kept of a session, None where nothing is."""
        ...

    def put(self, items: Iterable[SealedItem]) -> None:
        """Keep the items."""
        ...

    def drop(self, key: tuple[str, str]) -> None:
        """Forget a session."""
        ...

    def in_order(self) -> Iterator[SealedItem]:
        """Yield everything, by adapter and session; nothing may be changed meanwhile."""
        ...

    def copy(self) -> "SealedItems":
        """Return an independent copy."""
        ...

    def close(self) -> None:
        """Forget everything; it is not used any more."""
        ...


NewItems: TypeAlias = Callable[[], SealedItems]
"""Makes an empty one."""


class SealedInMemory:
    """Implements `SealedItems` in memory."""

    def __init__(self, items: Iterable[SealedItem] = ()) -> None:
        self._items = dict(items)

    def __len__(self) -> int:
        """Return how many sessions there are."""
        return len(self._items)

    def get(self, key: tuple[str, str]) -> bytes | None:
        """Return what is kept of a session, None where nothing is."""
        return self._items.get(key)

    def put(self, items: Iterable[SealedItem]) -> None:
        """Keep the items."""
        self._items.update(items)

    def drop(self, key: tuple[str, str]) -> None:
        """Forget a session."""
        self._items.pop(key, None)

    def in_order(self) -> Iterator[SealedItem]:
        """Yield everything, by adapter and session."""
        for key in sorted(self._items):
            yield key, self._items[key]

    def copy(self) -> SealedItems:
        """Return an independent copy."""
        return SealedInMemory(self._items.items())

    def close(self) -> None:
        """Forget everything."""
        self._items.clear()
