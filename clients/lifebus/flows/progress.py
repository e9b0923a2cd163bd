"""What has changed of a run, and what a person is told of it.  Pure."""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct

from lifebus.flows.durations import duration_text
from lifebus_contract.flows import FlowDefinition, Outcome, OutcomeKind, StepDefinition, StepVerdict
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, StepStatus, TryInfo
from lifebus_transports.signal_names import signal_name

_STATUS_WORDS: Final = {
    RunStatus.RUNNING: "running",
    RunStatus.WAITING: "waiting for a person",
    RunStatus.INTERRUPTED: "interrupted: nobody runs it",
    RunStatus.COMPLETED: "completed",
    RunStatus.FAILED: "failed",
    RunStatus.ABORTED: "aborted",
}
_OUTCOMES: Final = {
    OutcomeKind.TIMED_OUT: "its time limit was over",
    OutcomeKind.CANNOT_START: "did not start",
    OutcomeKind.UNVERIFIED: "it ended well, but its work is not done",
    OutcomeKind.INTERRUPTED: "interrupted",
    OutcomeKind.ABORTED: "stopped, because the run was aborted",
}


class Change(Struct, frozen=True, kw_only=True):
    """Something that happened: to a step, or with None to the run; `question_id` names a question to a person."""

    step_id: str | None = None
    text: str
    status: StepStatus | RunStatus
    question_id: str | None = None


def changes(before: RunInfo | None, after: RunInfo, flow: FlowDefinition) -> Iterator[Change]:
    """Yield what has happened between two looks at a run, in the order of its steps."""
    old = {one.step_id: one for one in before.steps} if before is not None else {}
    # Said even where the tries of before and after it came and went unseen.
    if before is not None and after.interruptions > before.interruptions and after.status is not RunStatus.INTERRUPTED:
        text = "was interrupted; a try that had not ended runs again"
        yield Change(text=text, status=RunStatus.INTERRUPTED)
    definitions = {one.step_id: one for one in flow.steps}
    for step in after.steps:
        known = old.get(step.step_id) or StepInfo(step_id=step.step_id)
        yield from _step_changes(known, step, definitions)
    # That it runs goes without saying, unless it did not.
    stood = RunStatus.RUNNING if before is None else before.status
    if stood is not after.status:
        yield Change(text=status_text(after), status=after.status)


def status_text(run: RunInfo) -> str:
    """Return how a run stands, with why and how long it took where it is over."""
    words, took = _STATUS_WORDS[run.status], ""
    if run.ended_at_ms is not None:
        took = f" after {duration_text(run.ended_at_ms - run.started_at_ms)}"
    if not run.reason or run.status is RunStatus.COMPLETED:
        return words + took
    # "aborted by ann" says it all.
    return run.reason + took if run.reason.startswith(f"{words} ") else f"{words}{took}: {run.reason}"


def _step_changes(before: StepInfo, after: StepInfo, flow: Mapping[str, StepDefinition]) -> Iterator[Change]:
    """Yield what has happened to one step; of tries that came and went unseen only the newest is told."""
    name, definition = after.step_id, flow.get(after.step_id)
    seen = before.tries[-1] if before.tries else None
    newest = after.tries[-1] if after.tries else None
    if newest is not None and (seen is None or seen.number != newest.number) and newest.outcome is None:
        yield Change(step_id=name, text=try_text(newest, definition), status=after.status)
    ended = newest is not None and newest.outcome is not None
    if newest is not None and ended and (seen is None or seen.number != newest.number or seen.outcome is None):
        yield Change(step_id=name, text=end_text(after, newest, definition), status=after.status)
    elif before.status is not after.status and after.status not in {StepStatus.RUNNING, StepStatus.ASKING}:
        yield Change(step_id=name, text=after.status.value.replace("_", " "), status=after.status)
    if after.question_id is not None and after.question_id != before.question_id:
        text = f"waits for a person: {after.question_id}"
        yield Change(step_id=name, text=text, status=StepStatus.ASKING, question_id=after.question_id)


def try_text(one: TryInfo, definition: StepDefinition | None) -> str:
    """Return which try it is."""
    most = None if definition is None else definition.max_retries + 1
    series = f", series {one.series}" if one.series > 1 else ""
    return f"try {one.retry + 1}{f' of {most}' if most else ''}{series}"


def end_text(step: StepInfo, one: TryInfo, definition: StepDefinition | None) -> str:
    """Return how a try ended, and what follows."""
    took = "" if one.ended_at_ms is None else f" after {duration_text(max(0, one.ended_at_ms - one.started_at_ms))}"
    if one.outcome is None or one.verdict is StepVerdict.PROCEED:
        return f"done{took}"
    how = f"{try_text(one, definition)}: {outcome_text(one.outcome, one.label)}{took}"
    if one.outcome.kind is OutcomeKind.INTERRUPTED:
        return f"{how}; it runs again"
    if step.status is StepStatus.BACKING_OFF and step.retry_at_ms is not None:
        pause = max(0, step.retry_at_ms - (one.ended_at_ms or step.retry_at_ms))
        return f"{how}; tried again in {duration_text(pause)}"
    return how


def outcome_text(outcome: Outcome, label: str | None = None) -> str:
    """Return how a try ended, in words."""
    if outcome.kind is OutcomeKind.EXITED:
        what = f"code {outcome.code}"
    elif outcome.kind is OutcomeKind.SIGNALLED:
        what = signal_name(outcome.signal or 0)
    else:
        what = _OUTCOMES[outcome.kind]
    # Of a signal the detail is often its name alone.
    detail = "" if outcome.detail in {None, "", what} else f": {outcome.detail}"
    return what + (f" ({label})" if label else "") + detail
