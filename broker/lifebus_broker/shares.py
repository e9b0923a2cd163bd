"""What to drop when signals hold more room than they may: the oldest of whoever holds most.  Pure.

Above: signals.  Below: ports.
"""

from collections.abc import Iterable, Sequence

from lifebus_broker.ports import NoteStream

__all__ = ["excess"]


def excess(streams: Sequence[NoteStream], limit: int) -> list[tuple[NoteStream, int]]:
    """Return the streams that lose notes, each with the number through which they go; nothing within `limit` bytes.

    Every stream keeps the same share at most, so that a loud thread takes no room from a quiet one.  One sixteenth of
    the limit is freed beyond it.  A stream's notes count as equally large: call again after the drop, until it is
    enough.
    """
    if sum(stream.bytes for stream in streams) <= limit:
        return []
    share = _share((stream.bytes for stream in streams), limit - limit // 16)
    return [(stream, _through(stream, share)) for stream in streams if stream.bytes > share]


def _share(sizes: Iterable[int], room: int) -> int:
    """Return how much each may keep at most, so that all together fit into the room."""
    ordered = sorted(sizes)
    for place, size in enumerate(ordered):
        share = room // (len(ordered) - place)
        if size > share:
            return share
        room -= size
    return ordered[-1]


def _through(stream: NoteStream, share: int) -> int:
    kept = (stream.head - stream.floor) * share // stream.bytes
    return stream.head - kept
