"""The log of a run: its records as events, with those that clients have had kept among them.  Pure."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from lifebus_contract.flows import StepVerdict
from lifebus_contract.runs import LogEvent
from lifebus_supervisor.runtime.run_records import (
    Answered,
    Asked,
    Logged,
    PressureChanged,
    RunAttached,
    RunEnded,
    RunRecord,
    RunSubmitted,
    TryEnded,
    TryStarted,
)

OWN: Final = "lifebus."
"""What the names of the events begin with that the mechanism itself writes."""

_Told = tuple[str, str | None, dict[str, Any]]


def events_of(run_id: str, records: Iterable[RunRecord]) -> list[LogEvent]:
    """Return the events of a run, in the order in which they were recorded."""
    events: list[LogEvent] = []
    for record in records:
        if isinstance(record, Logged):
            events.append(record.event)
        elif (told := _TELLERS.get(type(record))) is not None:
            name, step, data = told(record)
            events.append(LogEvent(event=OWN + name, run_id=run_id, step_id=step, at_ms=record.at_ms, data=data))
    return events


def _submitted(record: RunSubmitted) -> _Told:
    return "run_submitted", None, {"flow": record.definition.name, "by": record.by}


def _attached(record: RunAttached) -> _Told:
    return "run_attached", None, {"owner": record.owner}


def _try_started(record: TryStarted) -> _Told:
    return "try_started", record.step, {"try": record.number}


def _try_ended(record: TryEnded) -> _Told:
    data: dict[str, Any] = {"try": record.number, "outcome": record.outcome.kind.value}
    if record.outcome.code is not None:
        data["code"] = record.outcome.code
    if record.verdict is not None:
        data["verdict"] = record.verdict.value
    if record.output_fault:
        data["output_fault"] = record.output_fault
    is_done = record.verdict is StepVerdict.PROCEED
    return "step_done" if is_done else "try_failed", record.step, data | {"duration_ms": record.duration_ms}


def _asked(record: Asked) -> _Told:
    return "asked", record.step, {"question_id": record.question_id, "kind": record.question_kind.value}


def _answered(record: Answered) -> _Told:
    data = {"question_id": record.question_id, "action": record.action.value, "responder": record.responder}
    return "answered", record.step, data


def _pressed(record: PressureChanged) -> _Told:
    return "pressure", record.step, {"near": list(record.near)}


def _ended(record: RunEnded) -> _Told:
    return "run_ended", None, {"status": record.status.value}


_TELLERS: Final[Mapping[type, Callable[[Any], _Told]]] = {
    RunSubmitted: _submitted,
    RunAttached: _attached,
    TryStarted: _try_started,
    TryEnded: _try_ended,
    Asked: _asked,
    Answered: _answered,
    PressureChanged: _pressed,
    RunEnded: _ended,
}
