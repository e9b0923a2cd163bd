"""What an entry is after an upsert of the same message id.  Pure."""

import msgspec
from msgspec.structs import replace

from lifebus_contract import InvalidRequest
from lifebus_contract.transcripts import MAX_ENTRY_BYTES, TranscriptEntry


def merged(known: TranscriptEntry | None, new: TranscriptEntry) -> TranscriptEntry:
    """Return the entry that follows from the one that is there and a new one of the same message id.

    It begins when the first of both did, and ends when the last did, never before it began.  An entry that is over does
    not stream again: then the times alone are merged.  Details stay where the new entry has none.
    """
    if known is None:
        return _in_order(new)
    started = _least(known.started_at, new.started_at)
    completed = _greatest(known.completed_at, new.completed_at)
    winner = known if known.status.is_terminal and not new.status.is_terminal else new
    details = known.details if winner.details is None else winner.details
    return _in_order(replace(winner, started_at=started, completed_at=completed, details=details))


def check_size(entry: TranscriptEntry) -> None:
    """Check that an entry is not too large to be kept and passed on.

    Raises:
        InvalidRequest: ``too_large``.
    """
    size = entry_size(entry)
    if size > MAX_ENTRY_BYTES:
        detail = f"an entry is limited to {MAX_ENTRY_BYTES} bytes of JSON, this one has {size}"
        raise InvalidRequest(detail, code="too_large", field="$.entry")


def entry_size(entry: TranscriptEntry) -> int:
    """Return the bytes that an entry has as JSON."""
    return len(_ENCODER.encode(entry))


def bounded(entry: TranscriptEntry) -> TranscriptEntry:
    """Return an entry that is not too large, with the beginning of its content where all of it would be.

    Raises:
        InvalidRequest: ``too_large``: without any content it is too large still.
    """
    if entry_size(entry) <= MAX_ENTRY_BYTES:
        return entry
    whole = entry.content.encode()
    entry = replace(entry, content_bytes=max(len(whole), entry.content_bytes or 0))

    def cut(size: int) -> TranscriptEntry:
        return replace(entry, content=whole[:size].decode(errors="ignore"))

    # A character may take more bytes in JSON than in UTF-8: how many fit is found by trying.
    fits, over = 0, min(len(whole), MAX_ENTRY_BYTES) + 1
    while over - fits > 1:
        size = (fits + over) // 2
        fits, over = (size, over) if entry_size(cut(size)) <= MAX_ENTRY_BYTES else (fits, size)
    check_size(cut(fits))
    return cut(fits)


def _in_order(entry: TranscriptEntry) -> TranscriptEntry:
    """Return an entry that does not end before it begins."""
    if entry.started_at is None or entry.completed_at is None or entry.completed_at >= entry.started_at:
        return entry
    return replace(entry, completed_at=entry.started_at)


def _least(one: int | None, other: int | None) -> int | None:
    return min((time for time in (one, other) if time is not None), default=None)


def _greatest(one: int | None, other: int | None) -> int | None:
    return max((time for time in (one, other) if time is not None), default=None)


_ENCODER = msgspec.json.Encoder()
