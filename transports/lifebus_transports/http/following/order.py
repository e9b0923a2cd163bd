"""The order in which the signals of all threads came, so that they are followed as one line by one number.

Threads have numbers of their own; this has only which of them came behind which, in ranges.  Pure.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, Literal

from msgspec import Struct

from lifebus_contract.jobs import ADAPTER
from lifebus_contract.transcripts import TRANSCRIPT_THREAD
from lifebus_transports.http.ports import OrderPositions

LineName = Literal["signals", "queue", "transcripts"]
"""What is followed as one line: what app-servers say, the events of the queue, the changes of transcripts."""

LINES: Final[tuple[LineName, ...]] = ("signals", "queue", "transcripts")
MAX_RANGES: Final = 65_536
"""How many ranges a line has at most; older ones are forgotten, and who comes back for them is told so."""


class ThreadRange(Struct, frozen=True, array_like=True):
    """Signals of one thread that came one after the other: the numbers `first` to `last`.

    They are the places behind `before` of their line.
    """

    adapter: str
    thread: str
    first: int
    last: int
    before: int

    @property
    def end(self) -> int:
        """The place of the last one."""
        return self.before + self.last - self.first + 1


class SignalLine:
    """One line: its places are 1, 2, 3 … without holes; those up to `floor` are forgotten."""

    def __init__(self, max_ranges: int = MAX_RANGES) -> None:
        self.head = self.floor = 0
        self._max = max_ranges
        self._ranges: deque[ThreadRange] = deque()

    def add(self, one: ThreadRange) -> None:
        """Add a range behind everything; what lies before the first one is forgotten."""
        if not self._ranges:
            self.floor = one.before
        newest = self._ranges[-1] if self._ranges else None
        if newest is not None and (newest.adapter, newest.thread, newest.last + 1) == (
            one.adapter,
            one.thread,
            one.first,
        ):
            self._ranges[-1] = ThreadRange(one.adapter, one.thread, newest.first, one.last, newest.before)
        else:
            self._ranges.append(one)
        self.head = one.end
        if len(self._ranges) > self._max:
            self.floor = self._ranges.popleft().end

    def after(self, place: int) -> Iterator[ThreadRange]:
        """Return what is behind a place, in its order; the first range begins behind it."""
        at = max(bisect_right(self._ranges, place, key=lambda one: one.before) - 1, 0)
        for one in islice(self._ranges, at, None):
            skipped = place - one.before
            if skipped <= 0:
                yield one
            elif place < one.end:
                yield ThreadRange(one.adapter, one.thread, one.first + skipped, one.last, place)


class SignalOrder:
    """The lines of a gateway.

    What came is `note`d, `take`n to be made durable, and `add`ed once it is: a place that anybody has seen is never
    given to another signal.
    """

    def __init__(self, kept: OrderPositions, max_ranges: int = MAX_RANGES) -> None:
        """Begin with nothing; `kept` is up to which number each thread is in the order, as far as that is durable."""
        self.kept = kept
        self._under_way: dict[tuple[str, str], int] = {}
        self._lines = {name: SignalLine(max_ranges) for name in LINES}
        self._noted: list[tuple[str, str, int, int]] = []

    def line(self, name: LineName) -> SignalLine:
        """Return a line."""
        return self._lines[name]

    def note(self, adapter: str, thread: str, last: int, *, floor: int = 0) -> None:
        """Note that a thread has signals up to a number, of which those up to `floor` are not kept."""
        # Numbers of a thread have no holes: what was recorded before this was told of came before it, too.
        key = adapter, thread
        first = max(self._under_way.get(key) or self.kept.get(key), floor) + 1
        if last >= first:
            self._under_way[key] = last
            self._noted.append((adapter, thread, first, last))

    def take(self, limit: int) -> tuple[ThreadRange, ...]:
        """Return what was noted and not taken yet, at most so many ranges, each with its place."""
        noted, self._noted = self._noted[:limit], self._noted[limit:]
        heads = {name: line.head for name, line in self._lines.items()}
        taken: list[ThreadRange] = []
        for adapter, thread, first, last in noted:
            name = line_of(adapter, thread)
            taken.append(ThreadRange(adapter, thread, first, last, heads[name]))
            heads[name] = taken[-1].end
        return tuple(taken)

    def add(self, ranges: Iterable[ThreadRange]) -> set[LineName]:
        """Add ranges that are durable, and return which lines have more now."""
        changed: set[LineName] = set()
        for one in ranges:
            name = line_of(one.adapter, one.thread)
            self._lines[name].add(one)
            self.mark(one.adapter, one.thread, one.last)
            changed.add(name)
        return changed

    def mark(self, adapter: str, thread: str, last: int) -> None:
        """Take it that a thread is durably in the order up to a number."""
        key = adapter, thread
        self.kept.put(key, max(last, self.kept.get(key)))
        if self._under_way.get(key, 0) <= last:
            self._under_way.pop(key, None)


def line_of(adapter: str, thread: str) -> LineName:
    """Return the line that a thread belongs to."""
    if adapter != ADAPTER:
        return "signals"
    return "transcripts" if thread.startswith(TRANSCRIPT_THREAD) else "queue"


def topic_of(adapter: str, thread: str) -> str:
    """Return the name of the topic that a thread is."""
    return thread if adapter == ADAPTER else f"signals/{adapter}/{thread}"
