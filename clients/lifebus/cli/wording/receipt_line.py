"""A receipt as one line that a pipe can cut, and its time; made without any library."""

from time import gmtime, strftime

TYPE_CHECKING = False  # `lifebus emit` prints its receipt before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lifebus_contract.views import SessionHead

YEAR_10000 = 253_402_300_800
"""The first second of which no time is written."""


def receipt_line(at_epoch_s: int, words: "Sequence[str]", extras: "Mapping[str, str]") -> str:
    """Return the line: its time, its words (session, sequence, event, status), and the extras that say something."""
    return " ".join([utc_text(at_epoch_s), *words, *(f"{name}={value}" for name, value in extras.items() if value)])


def session_text(adapter_id: str, session: str | None) -> str:
    """Return which session a receipt is about."""
    return f"{adapter_id}/{session or '-'}"


def name_of(head: "SessionHead") -> str:
    """Return what a session is called: its short name, else its whole name."""
    return called(head.name, head.adapter_id, head.harness_session_id)


def called(name: str | None, adapter_id: str, session: str) -> str:
    """Return the name of a session that has one, else its whole name."""
    return name or session_text(adapter_id, session)


def sequence_text(sequence: int | None) -> str:
    """Return the receipt's number in its session."""
    return "-" if sequence is None else str(sequence)


def utc_text(at_epoch_s: int) -> str:
    """Return a time in RFC 3339, in UTC."""
    return strftime("%Y-%m-%dT%H:%M:%SZ", gmtime(at_epoch_s)) if at_epoch_s < YEAR_10000 else f"@{at_epoch_s}"
