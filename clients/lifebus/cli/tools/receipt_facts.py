"""What a receipt says in `telemetry_summary`, by name (docs/waiting.md, docs/sessions.md).  Pure."""

from collections.abc import Mapping
from typing import Final

from lifebus import Receipt
from lifebus_contract.facts.selections import is_failure, is_question

Key = tuple[str, str]
"""A session: adapter id and the harness's own id of it."""

UNKNOWN_PROJECT: Final = "-"
"""The project of sessions of which nobody said in which folder they work."""

_REPEATS: Final = ("client_background", "corrects")


def session_of(receipt: Receipt) -> Key | None:
    """Return the session that a receipt is of, None for one that is of none."""
    session = receipt.harness_session_id
    return None if session is None else (receipt.adapter_id, session)


def text_fact(receipt: Receipt, name: str) -> str | None:
    """Return a fact that is text; None where it is missing, empty or something else."""
    value = receipt.telemetry_summary.get(name)
    return value if isinstance(value, str) and value else None


def number_fact(receipt: Receipt, name: str) -> int | None:
    """Return a fact that is an integer; None where it is missing or something else."""
    value = receipt.telemetry_summary.get(name)
    # Not isinstance: a bool is an int as well.
    return value if type(value) is int else None


def repeats_event(receipt: Receipt) -> bool:
    """Whether the event of a receipt stands in an earlier one, so that only its payloads are new."""
    return any(name in receipt.telemetry_summary for name in _REPEATS)


def event_key(receipt: Receipt) -> tuple[str, str]:
    """Return what all receipts of one event have in common: every client that is asked gets one of its own."""
    return receipt.event_id, receipt.invocation_id


def is_nested(receipt: Receipt) -> bool:
    """Whether a receipt is about a sub-agent and not about a turn."""
    return receipt.telemetry_summary.get("parent_frame_id") is not None


def failed(receipt: Receipt) -> bool:
    """Whether an event failed, as `--failed` has it; a receipt that repeats an event does not repeat its failure."""
    facts: Mapping[str, object] = {} if repeats_event(receipt) else receipt.telemetry_summary
    if is_question(receipt.failure_class, facts.get("waiting_for")):
        return False
    return is_failure(receipt.event, receipt.status, facts.get("frame_end"), facts.get("session_end"))


def folder_of(cwd: str | None) -> str:
    """Return the last part of a directory, which may be a path or a name alone; `-` where it is not known."""
    return (cwd or "").rstrip("/").rpartition("/")[2] or ("/" if cwd else UNKNOWN_PROJECT)
