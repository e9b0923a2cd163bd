"""Every fact that the receipts of a run may carry is in the catalogue of facts, and the catalogue has no others."""

from collections import defaultdict
from typing import Final

from msgspec import structs

from lifebus_contract import LifecycleEvent
from lifebus_contract.facts.catalogue import every_fact, facts_of
from lifebus_contract.facts.fact import ANY_EVENT, FactType
from lifebus_contract.fields import FactValue
from lifebus_contract.flows import Outcome, OutcomeKind, StepVerdict
from lifebus_contract.questions import AnswerAction, QuestionKind
from lifebus_contract.runs import RunStatus
from lifebus_supervisor.runtime.bus.receipts import emissions_of
from lifebus_supervisor.runtime.limits.costs import CostBook, Tally
from lifebus_supervisor.runtime.limits.run_limits import RunLimits
from lifebus_supervisor.runtime.run_records import (
    AbortRequested,
    Answered,
    Asked,
    ContextUse,
    PressureChanged,
    RetryRequested,
    RunAttached,
    RunDetached,
    RunEnded,
    RunRecord,
    RunSubmitted,
    TryEnded,
    TryStarted,
)
from lifebus_supervisor.runtime.run_state import RunState, start_state
from support.flows import flow, step

AT: Final = 1_800_000_000_000
TYPES: dict[FactType, set[type]] = {
    FactType.TEXT: {str},
    FactType.INTEGER: {int},
    FactType.BOOLEAN: {bool},
    FactType.TEXT_OR_INTEGER: {str, int},
}

RECORDS: tuple[RunRecord, ...] = (
    RunAttached(at_ms=AT, owner="builder"),
    RunDetached(at_ms=AT),
    TryStarted(at_ms=AT, step="build", number=1),
    TryEnded(
        at_ms=AT,
        step="build",
        number=1,
        outcome=Outcome(kind=OutcomeKind.EXITED, code=5, signal=9),
        verdict=StepVerdict.RETRY,
        label="EX_IOERR",
        unknown_code=True,
        retry_at_ms=AT + 1,
        duration_ms=7,
        stdout_bytes=1,
        stderr_bytes=2,
        left_processes=3,
        output_fault="the disk is full",
    ),
    PressureChanged(at_ms=AT, step="build", near=("context_tokens", "time")),
    Asked(at_ms=AT, step="build", question_id="q1", question_kind=QuestionKind.ESCALATION),
    Answered(at_ms=AT, step="build", question_id="q1", action=AnswerAction.PROCEED, responder="ann"),
    RetryRequested(at_ms=AT, step="build", by="ann"),
    AbortRequested(at_ms=AT, by="ann"),
    RunEnded(at_ms=AT, status=RunStatus.FAILED, reason="no tries left"),
)

REPORTED = {
    "session.starting": "flow owner interruptions",
    "session.started": "flow owner interruptions",
    "frame.opening": "step frame_id try series retry",
    "frame.opened": "step frame_id try series retry",
    "frame.ending": "step frame_id frame_end",
    "frame.ended": "step frame_id frame_end outcome exit_code signal_number verdict code_name unknown_code duration_ms"
    " stdout_bytes stderr_bytes left_processes output_fault retries_left",
    "context.pressure_observed": "step frame_id near near_limit_percent context_used_tokens context_window_tokens"
    " context_used_pct",
    "session.ending": "session_end",
    "session.ended": "session_end reason tokens cost_micros unpriced_calls",
    "supervisor.tick": "run interruptions step step_state retry_at_ms operator operator_kind request_id waiting"
    " waiting_for waiting_kind waiting_id waiting_since_ms waiting_ended_by action responder",
}
"""What a run says with each event: everything that docs/flows.md has of it."""


def state() -> RunState:
    """A run whose only step has used its context and some money."""
    begun = start_state("run-1", RunSubmitted(at_ms=AT, definition=flow("/srv", step("build")), by="ann"))
    context = ContextUse(used=80, window=100)
    steps = {name: structs.replace(one, number=1, context=context) for name, one in begun.steps.items()}
    costs = CostBook(total=Tally(cost_micros=9, input_tokens=5, calls=2, unpriced_calls=1))
    return structs.replace(begun, steps=steps, limits=RunLimits(costs=costs))


def reported() -> dict[LifecycleEvent, dict[str, set[FactValue]]]:
    """Every fact with its values, by event."""
    found: dict[LifecycleEvent, dict[str, set[FactValue]]] = defaultdict(lambda: defaultdict(set))
    for record in RECORDS:
        for emission in emissions_of(state(), record):
            for key, value in emission.telemetry.items():
                found[emission.request.event][key].add(value)
    return found


def test_a_run_says_with_each_event_what_its_records_hold() -> None:
    assert {event.value: set(facts) for event, facts in reported().items()} == {
        event: set(keys.split()) for event, keys in REPORTED.items()
    }


def test_the_catalogue_knows_each_of_them_and_their_values() -> None:
    unknown = [
        (event.value, key, value)
        for event, facts in reported().items()
        for key, values in facts.items()
        for value in values
        if not any(
            fact.key == key and type(value) in TYPES[fact.kind] and (not fact.values or value in fact.values)
            for fact in facts_of(event)
        )
    ]
    assert unknown == []


def test_the_catalogue_says_nothing_of_runs_that_they_do_not_say() -> None:
    claimed = {
        (event.value, fact.key)
        for fact in every_fact()
        if "flows" in fact.reporter
        for event in ANY_EVENT
        if event in fact.events
    }
    assert claimed <= {(event, key) for event, keys in REPORTED.items() for key in keys.split()}
