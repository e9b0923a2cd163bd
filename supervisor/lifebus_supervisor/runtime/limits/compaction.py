"""Whether the context of a step's session can be made smaller, and how its harness ended that was asked to.  Pure."""

from msgspec import Struct

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.compaction import CompactionReport, NoCompaction, SessionCompaction
from lifebus_contract import CapabilityRefused, StateConflict
from lifebus_contract.flows import HarnessPrompt, Outcome, OutcomeKind
from lifebus_contract.runs import CostRecord, StepStatus
from lifebus_supervisor.runtime.limits.run_limits import REPORT
from lifebus_supervisor.runtime.run_records import BROKER
from lifebus_supervisor.runtime.run_state import RunState, StepState, require_step


class CompactionJob(Struct, frozen=True, kw_only=True):
    """What is to be compacted: the session (adapter_id, harness_session_id) of a step, and how its harness does it."""

    prompt: HarnessPrompt
    session: tuple[str, str]
    compaction: SessionCompaction


def compaction_job(state: RunState, step_id: str) -> CompactionJob:
    """Return what is to be compacted for a step.

    Raises:
        InvalidRequest: ``no_step``.
        CapabilityRefused: ``compaction_unsupported``: it is a program, its harness has no such command, or a client
            runs the run, with its own variables.
        StateConflict: ``no_harness_session``: none is known of its tries; ``session_in_use``: a try runs that has it.
    """
    step = require_step(state, step_id)
    prompt, compaction = _able(step)
    if state.owner != BROKER:
        raise _unsupported(f"`{state.owner[:64]}` runs it: the broker does not have the variables of its harness")
    if step.status is StepStatus.RUNNING:
        detail = f"a try of `{step_id[:64]}` runs, and its harness takes no requests until it has ended"
        raise StateConflict(detail, code="session_in_use")
    session = next((one.session for one in reversed(step.tries) if one.session is not None), None)
    if session is None or session[0] != prompt.adapter_id or not _is_plain(session[1]):
        raise StateConflict(
            f"no session is known of `{step_id[:64]}`: nothing can be compacted", code="no_harness_session"
        )
    for name, other in state.steps.items():
        if other.status is StepStatus.RUNNING and _goes_on_from(other, session[1]):
            raise StateConflict(f"a try of `{name[:64]}` runs that goes on from the session", code="session_in_use")
    return CompactionJob(prompt=prompt, session=session, compaction=compaction)


def why_not_compacted(job: CompactionJob, outcome: Outcome, report: CompactionReport, tail: str) -> str:
    """Return why a session was not compacted; nothing where it was.  `tail` is what its harness wrote last."""
    if report.compacted and report.session_id == job.session[1]:
        return ""
    if report.compacted:
        return f"the harness has compacted another session, `{report.session_id or ''}`"
    if report.message:
        return report.message
    match outcome.kind:
        case OutcomeKind.TIMED_OUT:
            return "it was not done within its time limit"
        case OutcomeKind.EXITED:
            ended = f"the harness ended with {outcome.code} and did not compact"
        case _:
            ended = f"the harness did not compact: {outcome.detail or outcome.kind.value}"
    return f"{ended}: {tail}" if tail else ended


def costs_of_compaction(
    run_id: str, step_id: str, job: CompactionJob, report: CompactionReport, at_ms: int
) -> list[CostRecord]:
    """Return what the harness says that its summary took; one without a price has none yet."""
    # Sums of a prompt have keys of this kind, too: they may not be taken for one of those.
    key = f"{REPORT}{job.session[0]}:{job.session[1]}:compacted@{at_ms}"
    return [
        CostRecord(
            run_id=run_id,
            step_id=step_id,
            key=f"{key}:{use.model}"[:256],
            model=use.model,
            input_tokens=use.tokens.input_tokens,
            output_tokens=use.tokens.output_tokens,
            cache_read_tokens=use.tokens.cache_read_tokens,
            cache_write_tokens=use.tokens.cache_write_tokens,
        )
        for use in report.uses
        if use.tokens is not None and use.tokens.input_tokens + use.tokens.output_tokens
    ]


def _able(step: StepState) -> tuple[HarnessPrompt, SessionCompaction]:
    prompt = step.definition.prompt
    if prompt is None:
        raise _unsupported("the step is a program, and no harness of lifebus's knows its context")
    harness = ADAPTERS.get(prompt.adapter_id)
    if harness is None:  # the run was made by another version
        raise _unsupported(f"this version knows no harness `{prompt.adapter_id[:64]}`")
    compaction = harness.compaction
    if isinstance(compaction, NoCompaction):
        raise _unsupported(compaction.reason)
    return prompt, compaction


def _unsupported(reason: str) -> CapabilityRefused:
    return CapabilityRefused(
        f"{reason}; what it compacts by itself is `context.compacted`", code="compaction_unsupported"
    )


def _is_plain(session_id: str) -> bool:
    """Whether an id can stand in a command; harnesses say what theirs is in their output."""
    return session_id.isprintable() and not session_id.startswith("-")


def _goes_on_from(step: StepState, session_id: str) -> bool:
    prompt = step.definition.prompt
    return any(session_id in word for word in (() if prompt is None else prompt.arguments))
