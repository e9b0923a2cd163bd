"""Times of the contract (ISO 8601, UTC) and of the bus (milliseconds since the epoch).  Pure."""

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def iso_of(at_ms: int) -> str:
    """Return a time as ISO 8601 in UTC, to the millisecond."""
    return (_EPOCH + timedelta(milliseconds=at_ms)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def ms_of(text: str) -> int:
    """Return the milliseconds since the epoch of an ISO 8601 time with a zone; never before the epoch."""
    return max(0, (datetime.fromisoformat(text) - _EPOCH) // timedelta(milliseconds=1))
