"""An app-server's stdin and stdout as bytes: cut into lines, and the lines read.  Pure."""

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from lifebus_adapters.app_server.facts import OperatorAsked
from lifebus_adapters.app_server.reader import AppServerReader, Direction, Observed, ReaderCounters
from lifebus_contract.fields import FactValue
from lifebus_transports.framing.lines import LineFramer

MAX_LINE_BYTES: Final = 8_388_608
"""Longest line that is kept, in bytes; of a longer one nothing is read."""


class AppServerStream:
    """Reads one app-server from its start to its end.  Bytes for the server are fed before it can have them.

    `watch`, where it is set, gets each line of the server before it is read.
    """

    def __init__(self, *, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self.watch: Callable[[bytes], None] | None = None
        self._reader = AppServerReader()
        self._framers: dict[Direction, LineFramer] = {
            "in": LineFramer(max_line_bytes),
            "out": LineFramer(max_line_bytes),
        }

    @property
    def counters(self) -> ReaderCounters:
        """What was read so far."""
        counters = self._reader.counters
        counters.overlong = sum(framer.overlong for framer in self._framers.values())
        counters.lost = sum(framer.lost for framer in self._framers.values())
        return counters

    def questions(self) -> list[OperatorAsked]:
        """Return what the server waits for, and nobody has answered."""
        return self._reader.questions()

    def settled(self) -> list[OperatorAsked]:
        """Return what the server waited for and does not any more, as far as it is remembered."""
        return self._reader.settled()

    def has_thread(self, name: str) -> bool:
        """Whether a thread can take turns here, as far as was seen."""
        return self._reader.has_thread(name)

    def cwd_of(self, name: str) -> str | None:
        """Return the directory in which a thread works, None where that was not seen."""
        return self._reader.cwd_of(name)

    def adopt(self, name: str) -> None:
        """Take it that a thread is the broker's own."""
        self._reader.adopt(name)

    def feed(self, direction: Direction, data: bytes, received_at_ms: int) -> list[Observed]:
        """Return what these bytes complete; they came at a time, in milliseconds since 1970.  Never raises."""
        return [one for _, observed in self.lines(direction, data, received_at_ms) for one in observed]

    def lines(
        self, direction: Direction, data: bytes, received_at_ms: int, by: str | None = None
    ) -> Iterator[tuple[int, list[Observed]]]:
        """Read these bytes, and yield of each line that ends in them its size in bytes and what it says.

        To be read to the end before anything else is done.  `by` is who had lifebus send them, None for the client's.
        """
        # A framer a direction: chunks of the two interleave anywhere, lines never do.
        framer = self._framers[direction]
        for line in framer.feed(data):
            if isinstance(line, bytes):
                if self.watch is not None and direction == "out":
                    self.watch(line)
                yield len(line) + 1, self._reader.read(direction, line, received_at_ms, by)
            else:
                self._reader.note_gap()
                yield line.size + 1, []
        if framer.is_overlong:  # the other direction is read on while this line has no end
            self._reader.note_gap()

    def lose(self, direction: Direction, *, line_begins: bool = False) -> None:
        """Note that bytes are missing here: what has begun is dropped, and reading goes on after the next newline.

        With `line_begins` the next byte is known to begin a line, and reading goes on at once.
        """
        self._framers[direction].lose(line_begins=line_begins)
        self._reader.note_gap()

    def note_gap(self) -> None:
        """Note that what came before was read by somebody else: who a thread belongs to may be unknown."""
        self._reader.note_gap()

    def close(self, evidence: Mapping[str, FactValue], counts: Mapping[str, FactValue] | None = None) -> list[Observed]:
        """Return the end of everything that is open, now that the server is gone (see `AppServerReader.close`)."""
        return self._reader.close(evidence, counts)
