"""The structured log of a run, with the contract's standard names.  Pure.

The standard events are no records of their own: they are read from the run, its questions and its checkpoints, which
are durable, so that a log never lacks one.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

import msgspec
from msgspec import structs

from lifebus.loa.times import iso_of, ms_of
from lifebus.loa.types import LoaEvent, StandardEvent
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.runs import LogEvent, RunInfo, StepInfo, StepStatus

_COMPACTED: Final = "lifebus.context_compacted"
"""The mechanism's own event of a context that was made smaller on request."""

_STANDARD: Final = {
    "lifebus.try_started": StandardEvent.PHASE_START.value,
    "lifebus.step_done": StandardEvent.PHASE_COMPLETE.value,
    "lifebus.asked": StandardEvent.ESCALATION_TRIGGERED.value,
    _COMPACTED: StandardEvent.CONTEXT_COMPACTION.value,
}
"""What the contract calls events that the mechanism writes under names of its own."""


def bus_event(event: LoaEvent, run_id: str) -> LogEvent:
    """Return an event as the bus keeps it."""
    return LogEvent(
        event=event.event,
        run_id=run_id,
        step_id=None if event.phase is msgspec.UNSET else event.phase,
        at_ms=ms_of(event.timestamp),
        data={} if event.data is msgspec.UNSET else event.data,
    )


def loa_event(event: LogEvent) -> LoaEvent:
    """Return an event of the bus as the contract has it."""
    return LoaEvent(
        event=event.event,
        timestamp=iso_of(event.at_ms),
        phase=msgspec.UNSET if event.step_id is None else event.step_id,
        data=event.data or msgspec.UNSET,
    )


def standard_events(
    run: RunInfo, questions: Iterable[QuestionInfo], checkpoints: Iterable[tuple[str, str, str]]
) -> Iterator[LoaEvent]:
    """Yield the standard events of a run; `checkpoints` are triples of id, phase and time."""
    for step in run.steps:
        yield from _phase_events(step)
    for info in questions:
        asked = info.question
        if asked.run_id == run.run_id and asked.step_id is not None:
            yield LoaEvent(
                event=StandardEvent.ESCALATION_TRIGGERED.value,
                timestamp=iso_of(asked.asked_at_ms),
                phase=asked.step_id,
                data={"question": asked.question_id, "kind": asked.kind.value, "reason": asked.reason},
            )
    for one in checkpoints:
        yield checkpoint_event(*one)


def standard_event(event: LogEvent) -> LoaEvent:
    """Return an event of the bus under the contract's standard name, where the contract has one for it."""
    found = loa_event(event)
    return structs.replace(found, event=_STANDARD.get(found.event, found.event))


def checkpoint_event(name: str, phase: str, created_at: str) -> LoaEvent:
    """Return the event of a checkpoint that was saved."""
    created = StandardEvent.CHECKPOINT_CREATED.value
    return LoaEvent(event=created, timestamp=created_at, phase=phase, data={"checkpoint": name})


def compactions(events: Iterable[LogEvent]) -> Iterator[LoaEvent]:
    """Yield the standard event of each compaction that is on record among the bus's events of a run."""
    for event in events:
        if event.event == _COMPACTED:
            yield standard_event(event)


def in_order(events: Iterable[LoaEvent]) -> tuple[LoaEvent, ...]:
    """Return events by their times; those of one time stay as they stand."""
    return tuple(sorted(events, key=lambda event: datetime.fromisoformat(event.timestamp)))


def _phase_events(step: StepInfo) -> Iterator[LoaEvent]:
    """Yield the start of each try, and the end of the one that was the last."""
    for one in step.tries:
        data = {"try": one.number, "retry": one.retry}
        yield LoaEvent(
            event=StandardEvent.PHASE_START.value, timestamp=iso_of(one.started_at_ms), phase=step.step_id, data=data
        )
    last = step.tries[-1] if step.tries else None
    if last is None or last.ended_at_ms is None or step.status not in (StepStatus.DONE, StepStatus.SKIPPED):
        return
    code = None if last.outcome is None else last.outcome.code
    yield LoaEvent(
        event=StandardEvent.PHASE_COMPLETE.value,
        timestamp=iso_of(last.ended_at_ms),
        phase=step.step_id,
        data={"try": last.number, "status": step.status.value} | ({} if code is None else {"exit_code": code}),
    )
