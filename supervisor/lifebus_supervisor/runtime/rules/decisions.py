"""What follows from how a run stands.  Pure.

The owner of a run decides again after every record; a decision that was not carried out is made again after a restart,
because it depends on records alone.
"""

from typing import Final

from msgspec import Struct

from lifebus_contract.flows import FlowDefinition, Outcome, OutcomeKind, StepDefinition, StepVerdict
from lifebus_contract.questions import QuestionKind
from lifebus_contract.runs import Artifact, CostRecord, RunStatus, StepStatus
from lifebus_supervisor.runtime.limits.budget import reason_of
from lifebus_supervisor.runtime.limits.signals import near_now, pressure_changes, pressure_due_ms, signals_of
from lifebus_supervisor.runtime.rules.outcomes import judge
from lifebus_supervisor.runtime.rules.retry_pause import pause_ms
from lifebus_supervisor.runtime.rules.run_reducer import apply
from lifebus_supervisor.runtime.run_names import approval_id, question_id
from lifebus_supervisor.runtime.run_records import (
    Asked,
    CostRecorded,
    RunAttached,
    RunDetached,
    RunEnded,
    RunRecord,
    TryEnded,
    TryStarted,
)
from lifebus_supervisor.runtime.run_state import RunState, StepState

_PENDING: Final = StepStatus.PENDING
_RUNNING: Final = StepStatus.RUNNING
_DONE: Final = StepStatus.DONE
_SKIPPED: Final = StepStatus.SKIPPED


class Decisions(Struct, frozen=True, kw_only=True):
    """What is to be done now: records to be made durable, then acted on; tries to be stopped; when to decide again.

    `due_at_ms` is when the next pause is over, None where nothing backs off.
    """

    records: tuple[RunRecord, ...] = ()
    stops: tuple[str, ...] = ()
    due_at_ms: int | None = None

    @property
    def acts(self) -> bool:
        """Whether anything is to be recorded."""
        return bool(self.records)


class ObservedEnd(Struct, frozen=True, kw_only=True):
    """How a try was seen to end; the same fields as in `TryEnded`, before the rules of the flow are applied.

    `costs` are the calls to models that were seen at its end.
    """

    outcome: Outcome
    duration_ms: int = 0
    stdout_bytes: int = 0
    stderr_bytes: int = 0
    left_processes: int = 0
    tail: str = ""
    output_fault: str = ""
    artifacts: tuple[Artifact, ...] = ()
    session: tuple[str, str] | None = None
    costs: tuple[CostRecord, ...] = ()


def decide(state: RunState, now_ms: int) -> Decisions:
    """Return what follows from how a run stands."""
    if state.ended is not None or not state.is_attached:
        return Decisions()
    view = _look(state, now_ms)
    if (end := _end_of(state, view, now_ms)) is not None:
        # What still runs is stopped first: its end is recorded before the run's.
        return Decisions(stops=tuple(view.running)) if view.running else Decisions(records=(end,))
    pressed = tuple(pressure_changes(state, view.running, now_ms))
    asked = tuple(_wanted(state, name, now_ms) for name in view.wanting)
    due = [] if (pressure := pressure_due_ms(state, view.running, now_ms)) is None else [pressure]
    if state.question_id is not None:
        return Decisions(records=(*pressed, *asked), due_at_ms=min(due, default=None))
    if near := near_now(state, now_ms):
        return Decisions(records=(*pressed, *asked, _about_budget(state, near, now_ms)))
    due += [at_ms for at_ms in view.retries.values() if at_ms > now_ms]
    beginnings = _beginnings(state, view, now_ms)
    return Decisions(records=(*pressed, *asked, *beginnings), due_at_ms=min(due, default=None))


def _about_budget(state: RunState, near: tuple[str, ...], now_ms: int) -> Asked:
    return Asked(
        at_ms=now_ms,
        step=None,
        question_id=question_id(state.run_id, None, state.questions + 1),
        question_kind=QuestionKind.BUDGET,
        reason=reason_of(state.limits.grant, state.limits.use(now_ms), near),
        about=near,
    )


class _View(Struct, kw_only=True):
    """The steps of a run by what matters for a decision; `retries` has when each that backs off is due."""

    open: int = 0
    begun: int = 0
    running: list[str] = []
    wanting: list[str] = []
    retries: dict[str, int] = {}
    pending: list[str] = []


def _look(state: RunState, now_ms: int) -> _View:
    """Sort the steps of a run; one pass, because every record of a run is followed by a decision."""
    view = _View()
    for name, step in state.steps.items():
        status = step.status
        if status is _DONE or status is _SKIPPED:
            continue
        view.open += 1
        if step.is_begun:
            view.begun += 1
        if status is _PENDING:
            view.pending.append(name)
        elif status is _RUNNING:
            view.running.append(name)
        elif step.want is not None:
            view.wanting.append(name)
        elif step.retry_at_ms is not None:
            # A clock that shows a time before the pause began was set back: nobody knows what is left of the pause.
            view.retries[name] = step.retry_at_ms if now_ms >= (step.tries[-1].ended_at_ms or 0) else now_ms
    return view


def _end_of(state: RunState, view: _View, now_ms: int) -> RunEnded | None:
    if state.aborting is not None:
        return RunEnded(at_ms=now_ms, status=RunStatus.ABORTED, reason=state.aborting)
    if state.failing is not None:
        return RunEnded(at_ms=now_ms, status=RunStatus.FAILED, reason=state.failing)
    return None if view.open else RunEnded(at_ms=now_ms, status=RunStatus.COMPLETED)


def _wanted(state: RunState, name: str, now_ms: int) -> Asked:
    step = state.steps[name]
    kind, reason = (QuestionKind.ESCALATION, "") if step.want is None else (step.want.kind, step.want.reason)
    return Asked(
        at_ms=now_ms,
        step=name,
        question_id=question_id(state.run_id, name, step.series),
        question_kind=kind,
        reason=reason,
    )


def _beginnings(state: RunState, view: _View, now_ms: int) -> list[RunRecord]:
    """Return the tries that may begin, and the questions that come before a first try.

    Retries come first: a step that has its place is not overtaken.  Then the order is that of the flow.
    """
    found: list[RunRecord] = [_next_try(state, name, now_ms) for name, at_ms in view.retries.items() if at_ms <= now_ms]
    places = state.definition.max_parallel - view.begun
    for name in view.pending:
        step = state.steps[name]
        if not step.is_begun:
            if places <= 0 or not _is_ready(state, step):
                continue
            places -= 1
        found.append(_beginning(state, name, step, now_ms))
    return found


def _is_ready(state: RunState, step: StepState) -> bool:
    return all(state.steps[name].status.is_over for name in step.definition.needs)


def _beginning(state: RunState, name: str, step: StepState, now_ms: int) -> RunRecord:
    if step.definition.approval is None or step.approved:
        return _next_try(state, name, now_ms)
    return Asked(
        at_ms=now_ms,
        step=name,
        question_id=approval_id(state.run_id, name, step.series),
        question_kind=QuestionKind.APPROVAL,
        reason=step.definition.approval,
    )


def _next_try(state: RunState, name: str, now_ms: int) -> TryStarted:
    signals = signals_of(state, name, now_ms)
    return TryStarted(at_ms=now_ms, step=name, number=state.steps[name].number + 1, signals=signals)


def end_of_try(state: RunState, name: str, seen: ObservedEnd, *, now_ms: int, fraction: float) -> TryEnded:
    """Return the record of a try's end: what follows by the rules, and when it is tried again.

    `fraction`, from 0 to 1, is the drawn part of the jitter.  After the last failure there is no pause.
    """
    step = state.steps[name]
    judgement = judge(seen.outcome, step.definition, state.definition)
    return TryEnded(
        at_ms=now_ms,
        step=name,
        number=step.number,
        outcome=seen.outcome,
        verdict=judgement.verdict,
        label=judgement.label,
        unknown_code=judgement.unknown_code,
        retry_at_ms=_retry_at(step, judgement.verdict, now_ms, fraction),
        duration_ms=seen.duration_ms,
        stdout_bytes=seen.stdout_bytes,
        stderr_bytes=seen.stderr_bytes,
        left_processes=seen.left_processes,
        tail=seen.tail,
        output_fault=seen.output_fault,
        artifacts=seen.artifacts,
        session=seen.session,
    )


def end_records(state: RunState, name: str, seen: ObservedEnd, *, now_ms: int, fraction: float) -> list[RunRecord]:
    """Return the records of a try's end: the calls that were seen and are not counted, what they used up, the end."""
    found: list[RunRecord] = []
    for cost in seen.costs:
        if state.limits.costs.takes(cost) and not state.limits.costs.knows(cost):
            found.append(CostRecorded(at_ms=now_ms, cost=cost))
            state = apply(state, found[-1])
    if found:
        found += pressure_changes(state, (name,), now_ms)
    return [*found, end_of_try(state, name, seen, now_ms=now_ms, fraction=fraction)]


def is_proceeding(outcome: Outcome, step: StepDefinition, flow: FlowDefinition) -> bool:
    """Whether a try with this outcome has done its step, if what it was to leave is there."""
    return judge(outcome, step, flow).verdict is StepVerdict.PROCEED


def _retry_at(step: StepState, verdict: StepVerdict | None, now_ms: int, fraction: float) -> int | None:
    definition = step.definition
    if verdict is not StepVerdict.RETRY or step.retry >= definition.max_retries:
        return None
    return now_ms + pause_ms(definition.pause, step.retry, fraction)


def carry_on(state: RunState, now_ms: int) -> tuple[list[RunRecord], RunState]:
    """Return the records that follow from a state, up to the first question, and the state after them.

    A question ends an append, because the inbox writes it together with the question.
    """
    records: list[RunRecord] = []
    while (found := decide(state, now_ms)).acts:
        for record in found.records:
            state = apply(state, record)
            records.append(record)
            if isinstance(record, Asked):
                return records, state
    return records, state


def attach(state: RunState, owner: str, by: str, now_ms: int) -> list[RunRecord]:
    """Return the records with which an owner takes a run over: what ran under another one was interrupted."""
    return [*interrupt(state, now_ms), RunAttached(at_ms=now_ms, owner=owner, by=by)]


def detach(state: RunState, reason: str, now_ms: int) -> list[RunRecord]:
    """Return the records of a run whose owner is gone."""
    return [*interrupt(state, now_ms), RunDetached(at_ms=now_ms, reason=reason)]


def interrupt(state: RunState, now_ms: int) -> list[RunRecord]:
    """Return the ends of the tries that nobody saw the end of."""
    seen = ObservedEnd(outcome=Outcome(kind=OutcomeKind.INTERRUPTED))
    return [
        end_of_try(state, name, seen, now_ms=now_ms, fraction=0.0)
        for name, step in state.steps.items()
        if step.status is StepStatus.RUNNING
    ]
