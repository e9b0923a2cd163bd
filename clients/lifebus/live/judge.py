"""What was recorded, as lines that can be compared, and what may never be recorded whatever was run.  Pure."""

from collections.abc import Container, Iterator, Sequence
from typing import Final

from lifebus_contract import LifecycleEvent, Receipt

WAITING: Final = "waiting"
"""The fact that says that a session begins to wait for a person, or no longer does."""

_ASIDE: Final = {LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.SUPERVISOR_TICK}
_DETAILS: Final = {
    LifecycleEvent.SESSION_STARTING: "source",
    LifecycleEvent.SESSION_STARTED: "source",
    LifecycleEvent.FRAME_ENDED: "frame_end",
    LifecycleEvent.SESSION_ENDED: "session_end",
    LifecycleEvent.CAPABILITY_DEGRADED: "cause",
    LifecycleEvent.CONTEXT_COMPACTED: "trigger",
}


def lines_of(receipts: Sequence[Receipt]) -> list[str]:
    """Return what happened to sessions, frames and contexts, in order, one line a receipt: the event and its detail.

    A tick is left out, but for one that says who waits for a person.
    The sessions follow each other in the order in which they began.  The frames of sub-agents are marked as nested.
    What a process says that names no session is left out: what follows from it is recorded in the sessions.
    `session.ending` only announces: it stands directly before `session.ended`, wherever the frames' ends were recorded.
    """
    nested = {one.telemetry_summary.get("frame_id") for one in receipts if "parent_frame_id" in one.telemetry_summary}
    shown = [one for one in receipts if one.event not in _ASIDE or WAITING in one.telemetry_summary]
    sessions = dict.fromkeys(one.harness_session_id for one in receipts if one.harness_session_id)
    lines: list[str] = []
    for session in sessions:
        lines += _announced_last([_line(one, nested) for one in shown if one.harness_session_id == session])
    return lines


def _announced_last(lines: Sequence[str]) -> list[str]:
    """Return the lines with each announcement of a session's end behind the frames' ends that follow it."""
    found = list(lines)
    for at in range(len(found) - 1):
        if found[at] == LifecycleEvent.SESSION_ENDING and LifecycleEvent.FRAME_ENDED in found[at + 1]:
            found[at], found[at + 1] = found[at + 1], found[at]
    return found


def _line(receipt: Receipt, nested: Container[object] = ()) -> str:
    facts = receipt.telemetry_summary
    if WAITING in facts:
        return f"waiting {facts[WAITING]} {facts['waiting_for']}"
    depth = "nested " if receipt.telemetry_summary.get("frame_id") in nested else ""
    return " ".join([f"{depth}{receipt.event.value}", *_detail(receipt)])


def _detail(receipt: Receipt) -> list[str]:
    """Return the harness's or the supervisor's own word for what happened."""
    facts = receipt.telemetry_summary
    for marked in ("resumed", "continues"):  # a start, or a frame's opening, that no hook reported as a new one
        if facts.get(marked) is True:
            return [marked]
    found = facts.get(_DETAILS.get(receipt.event, ""))
    return [str(found)] if found else []


def broken_rules(receipts: Sequence[Receipt]) -> list[str]:
    """Return what no scenario may record, one sentence each."""
    return [
        *_sequence_faults(receipts),
        *_frame_faults(receipts),
        *_faults_behind_ends(receipts),
        *_pressure_faults(receipts),
    ]


def _sequence_faults(receipts: Sequence[Receipt]) -> Iterator[str]:
    for session in dict.fromkeys(one.harness_session_id for one in receipts if one.harness_session_id):
        numbers = [one.sequence for one in receipts if one.harness_session_id == session]
        if numbers != list(range(1, len(numbers) + 1)):
            yield f"session {session} is numbered {numbers}"


def _frame_faults(receipts: Sequence[Receipt]) -> Iterator[str]:
    opened, ended = set[tuple[str | None, str | int | None]](), set[tuple[str | None, str | int | None]]()
    for one in receipts:
        frame = (one.harness_session_id, one.telemetry_summary.get("frame_id"))
        if one.event is LifecycleEvent.FRAME_OPENED:
            if frame in opened and not one.telemetry_summary.get("continues"):
                yield f"frame {frame[1]} was opened twice"
            opened.add(frame)
        if one.event is LifecycleEvent.FRAME_ENDED:
            if frame in ended:
                yield f"frame {frame[1]} ended twice"
            if frame not in opened:
                yield f"frame {frame[1]} ended without having been opened"
            ended.add(frame)
    for frame in opened - ended:
        yield f"frame {frame[1]} never ended"


def _faults_behind_ends(receipts: Sequence[Receipt]) -> Iterator[str]:
    over = set[str | None]()
    for one in receipts:
        if one.event is LifecycleEvent.SESSION_STARTING or one.event is LifecycleEvent.SESSION_STARTED:
            over.discard(one.harness_session_id)
        elif one.harness_session_id is not None and one.harness_session_id in over:
            yield f"{_line(one)} stands behind the end of its session"
        if one.event is LifecycleEvent.SESSION_ENDED:
            over.add(one.harness_session_id)


def _pressure_faults(receipts: Sequence[Receipt]) -> Iterator[str]:
    for one in receipts:
        summary = one.telemetry_summary
        if one.event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
            level, window = summary.get("context_pressure"), summary.get("context_window_tokens")
            if level and not window:
                yield f"pressure {level} was recorded without a window"
