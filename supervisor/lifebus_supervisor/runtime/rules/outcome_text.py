"""How a try ended, in words for people.  Pure."""

from typing import Final

from lifebus_contract.flows import Outcome, OutcomeKind, StepVerdict
from lifebus_supervisor.runtime.run_records import TryEnded
from lifebus_transports.signal_names import signal_name

_TEXTS: Final = {
    OutcomeKind.EXITED: "it ended with code {code}",
    OutcomeKind.SIGNALLED: "{signal} ended it",
    OutcomeKind.TIMED_OUT: "its time limit was over",
    OutcomeKind.CANNOT_START: "it could not be started",
    OutcomeKind.INTERRUPTED: "whoever ran it ended in the middle of it",
    OutcomeKind.ABORTED: "it was stopped",
    OutcomeKind.UNVERIFIED: "it ended well, but its work is not done",
}


def reason_of(record: TryEnded, retries: int) -> str:
    """Return why a step failed for good after so many retries, for people."""
    said = describe_outcome(record.outcome, record.label)
    if record.unknown_code:
        said += ", which no rule of the flow names"
    if record.verdict is StepVerdict.RETRY and retries:
        said += f"; tried {retries + 1} times"
    return said


def describe_outcome(outcome: Outcome, label: str | None = None) -> str:
    """Return how a try ended, for people."""
    name = signal_name(outcome.signal or 0)
    said = _TEXTS[outcome.kind].format(code=outcome.code, signal=name)
    if label:
        said += f" ({label})"
    # Of a signal the detail is often its name alone.
    return f"{said}: {outcome.detail}" if outcome.detail and outcome.detail != name else said
