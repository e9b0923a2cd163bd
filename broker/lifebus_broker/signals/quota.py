"""What to drop when signals hold more room than they may.  Pure."""

from collections.abc import Sequence
from typing import Final

from lifebus_broker.ports import RecordStream

RECENT: Final = 32
"""Threads that share the room as equals; those that were silent for longer have what these leave."""


def excess(streams: Sequence[RecordStream], limit: int) -> list[tuple[RecordStream, int]]:
    """Return the streams that lose notes, each with the number through which they go; nothing within `limit` bytes.

    `streams` come in order, the one written to last first.  The recent ones keep the same share at most, so that a loud
    thread takes no room from a quiet one; of the older ones, the newest go last.  One sixteenth of the limit is freed
    beyond it.  A stream's notes count as equally large: call again after the drop, until it is enough.
    """
    if sum(stream.bytes for stream in streams) <= limit:
        return []
    room = limit - limit // 16
    share = _share([stream.bytes for stream in streams[:RECENT]], room)
    lost: list[tuple[RecordStream, int]] = []
    for place, stream in enumerate(streams):
        kept = min(stream.bytes, share if place < RECENT else room)
        room -= kept
        if kept < stream.bytes:
            lost.append((stream, stream.head - (stream.head - stream.floor) * kept // stream.bytes))
    return lost


def _share(sizes: Sequence[int], room: int) -> int:
    """Return how much each may keep at most, so that all together fit into the room."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = room // (len(ordered) - place)
        if size > share:
            return share
        room -= size
    return ordered[-1]
