"""Which calls of tools a session's file shows without their results.  Pure."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from lifebus_adapters.shared.telemetry import ToolsDone

MAX_CALLS: Final = 256
"""Most calls that are remembered until their results come; the oldest is forgotten first."""


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


class OpenCalls:
    """The calls of one session's own tools that have no result so far."""

    def __init__(self) -> None:
        self._open: dict[str, None] = {}

    def begin_turn(self) -> None:
        """Take that a turn begins: what has no result by now gets none."""
        self._open.clear()

    def call(self, ids: Iterable[object]) -> None:
        """Take that tools are called; what is no id is passed over."""
        for one in ids:
            if isinstance(one, str):
                self._open[one] = None
        while len(self._open) > MAX_CALLS:
            del self._open[next(iter(self._open))]

    def finish(self, session: str, ids: Iterable[object], timestamp: object) -> Sequence[ToolsDone]:
        """Take that tools have given their results; return the fact that no other call waits for one.

        Without a time that can be read the result says nothing of what was asked before it.
        """
        known = [one for one in ids if isinstance(one, str) and one in self._open]
        for one in known:
            del self._open[one]
        at_ms = epoch_ms(timestamp)
        return (ToolsDone(session=session, at_ms=at_ms),) if known and not self._open and at_ms is not None else ()


def epoch_ms(timestamp: object) -> int | None:
    """Return an ISO 8601 time with its zone in milliseconds since 1970; None where it is none."""
    try:
        at = datetime.fromisoformat(timestamp if isinstance(timestamp, str) else "")
    except ValueError:
        return None
    if at.tzinfo is None:
        return None
    milliseconds = (at - _EPOCH) // _MILLISECOND
    return milliseconds if milliseconds >= 0 else None
