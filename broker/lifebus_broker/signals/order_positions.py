"""Up to which number each thread is in the gateway's order: the newest threads in memory, all others on the disk."""

from collections import OrderedDict
from collections.abc import Iterator
from typing import Final

from lifebus_broker.state.sealed import SealedItems

RECENT: Final = 1_024
"""Most threads that stay in memory; a piece of them is put away at once."""

_BYTES: Final = 8


class KeptPositions:
    """Numbers by adapter and thread, as the gateway wants them; those of threads that are silent take no memory.

    Every method may raise `InternalError`: what was put away cannot be read any more.
    """

    def __init__(self, others: SealedItems) -> None:
        """Begin with nothing; `others` is empty, and belongs to this."""
        self._recent: OrderedDict[tuple[str, str], int] = OrderedDict()
        self._others = others

    def get(self, thread: tuple[str, str], /) -> int:
        """Return the number of a thread, 0 where none is known."""
        if (number := self._recent.get(thread)) is not None:
            return number
        found = self._others.get(thread)
        return 0 if found is None else int.from_bytes(found)

    def put(self, thread: tuple[str, str], number: int, /) -> None:
        """Keep the number of a thread."""
        self._recent[thread] = number
        self._recent.move_to_end(thread)
        if len(self._recent) > RECENT:
            # Several at once: each time is a transaction.
            piece = [self._recent.popitem(last=False) for _ in range(RECENT // 4)]
            self._others.put((key, kept.to_bytes(_BYTES)) for key, kept in piece)

    def items(self) -> Iterator[tuple[tuple[str, str], int]]:
        """Yield every thread with its number; nothing may be put meanwhile."""
        yield from self._recent.items()
        for thread, number in self._others.in_order():
            if thread not in self._recent:
                yield thread, int.from_bytes(number)
