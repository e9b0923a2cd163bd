"""What to drop when the signals exceed their quota.  Pure."""

from collections.abc import Sequence
from typing import Final

from lifebus_broker.ports import RecordStream

RECENT: Final = 32
"""How many of the most recently written threads share the room equally; the older ones get what these leave."""


def to_drop(streams: Sequence[RecordStream], limit: int) -> list[tuple[RecordStream, int]]:
    """Return the streams to shorten, each with the number through which its records go; none within `limit` bytes.

    `streams` come most recently written first.  The recent ones keep at most the same share each, so that a busy thread
    takes no room from a quiet one; of the older ones, the oldest go first.  One sixteenth of the limit is freed beyond
    it.  A stream's records count as equally large: call again after the drop, until the result is empty.
    """
    if sum(stream.bytes for stream in streams) <= limit:
        return []
    room = limit - limit // 16  # some slack, so that not every new signal causes a drop
    share = _share([stream.bytes for stream in streams[:RECENT]], room)
    shortened: list[tuple[RecordStream, int]] = []
    for place, stream in enumerate(streams):
        kept = min(stream.bytes, share if place < RECENT else room)
        room -= kept
        if kept < stream.bytes:
            shortened.append((stream, stream.head - (stream.head - stream.floor) * kept // stream.bytes))
    return shortened


def _share(sizes: Sequence[int], room: int) -> int:
    """Return how much each may keep at most, so that all together fit into the room."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = room // (len(ordered) - place)
        if size > share:
            return share
        room -= size
    return ordered[-1]
