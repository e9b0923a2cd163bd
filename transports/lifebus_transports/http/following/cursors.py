"""Where a client is in what it follows, as one text that it gives back: `Last-Event-ID`.  Pure.

`DIGEST~EPOCH~EPOCH~EPOCH~1.2.3`: which topics these are, the histories of receipts, of signals and of the order of all
signals, a number for each topic.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec import Struct

from lifebus_contract.fields import MAX_INTEGER
from lifebus_transports.http.following.topics import Topic

_SEPARATOR: Final = "~"
_PARTS: Final = 5
_MAX_LENGTH: Final = 1_024
_HISTORIES: Final = ("receipts", "signals", "order")


class Cursor(Struct, frozen=True):
    """The last number that was read of each topic, in the order of the topics, and the histories they belong to."""

    epochs: dict[str, str]
    numbers: tuple[int, ...]

    def epoch_of(self, topic: Topic) -> str:
        """Return the history that a topic's number belongs to."""
        return self.epochs[topic.history]


def prefix_of(topics: Sequence[Topic], epochs: Mapping[str, str]) -> str:
    """Return what all cursors of one stream begin with; `epochs` are by the names of histories."""
    return _SEPARATOR.join((_digest(topics), *(epochs.get(one, "") for one in _HISTORIES), ""))


def numbers_of(numbers: Sequence[int]) -> str:
    """Return what a cursor ends with."""
    return ".".join(map(str, numbers))


def parse_cursor(text: str, topics: Sequence[Topic]) -> Cursor:
    """Return where a client was.

    Raises:
        ValueError: it is no cursor, or one of other topics.
    """
    parts = text.split(_SEPARATOR) if len(text) <= _MAX_LENGTH else []
    if len(parts) != _PARTS or parts[0] != _digest(topics):
        raise ValueError("the last event id is none of these topics; leave it out to begin anew")
    numbers = parts[-1].split(".")
    # `isascii`: other digits count as decimal, too.
    if len(numbers) != len(topics) or not all(one.isascii() and one.isdecimal() and len(one) < 17 for one in numbers):  # noqa: PLR2004  2^53
        raise ValueError("the last event id holds no number for each topic")
    found = tuple(map(int, numbers))
    if max(found) > MAX_INTEGER:
        raise ValueError("the last event id holds a number beyond 2^53")
    return Cursor(dict(zip(_HISTORIES, parts[1:-1], strict=True)), found)


def _digest(topics: Sequence[Topic]) -> str:
    """Return what tells streams apart; filters do not count, because numbers mean the same with others."""
    names = "\n".join(topic.name for topic in topics)
    return hashlib.sha256(names.encode("utf-8", "surrogatepass")).hexdigest()[:8]
