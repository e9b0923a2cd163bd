"""The job type `agent_instruction`: what its payload has to be, and what its turns come to.  Pure."""

from hashlib import sha256
from typing import Final

import msgspec

from lifebus_contract.fields import Metadata
from lifebus_contract.jobs import AgentInstruction, Dedupe, NewJob
from lifebus_supervisor.queue.ports import JobRunner, JobType
from lifebus_supervisor.queue.records import JobDefinition, JobStanding, WorkerAnswer
from lifebus_supervisor.queue.rules.attempts import AttemptEnd

INSTRUCTION: Final = "agent_instruction"

MAX_TEXT: Final = 60_000
"""Most characters of an instruction, together with what its worker is told once."""

MAX_TEXT_BYTES: Final = 120_000
"""Most bytes of the same as JSON: it goes to the app-server as a part of one line."""

OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""What the error of a job begins with whose turn may have come to its end, unseen: it is not tried again by itself."""

_LEAST_TIME_MS: Final = 180_000
_GRACE_MS: Final = 5_000


def instruction_type(runner: JobRunner, time_limit_ms: int) -> JobType:
    """Return the type; an attempt may take three minutes, or `time_limit_ms` where that is more."""
    return JobType(
        name=INSTRUCTION,
        runner=runner,
        check=fault_of,
        dedupe=Dedupe.SINGLE_FLIGHT,
        dedupe_key=_dedupe_key,
        time_limit_ms=max(time_limit_ms, _LEAST_TIME_MS),
        cancel_grace_ms=_GRACE_MS,
    )


def fault_of(payload: Metadata) -> str | None:
    """Return why a payload is no instruction, None where it is one."""
    try:
        found = msgspec.convert(payload, AgentInstruction)
    except msgspec.ValidationError as fault:
        return str(fault)
    text = text_of(found, with_bootstrap=True)
    if len(text) > MAX_TEXT or len(msgspec.json.encode(text)) > MAX_TEXT_BYTES:
        return f"`instructionText` has more than {MAX_TEXT} characters, or {MAX_TEXT_BYTES} bytes as JSON"
    names = (found.agent, found.job_kind, found.source_session_id, found.thread_id, found.turn_id, found.project_id)
    if not all(map(str.isprintable, names)):
        return "a name cannot be printed"
    return None


def misplaced(definition: JobDefinition, payload: AgentInstruction) -> str | None:
    """Return why a job may not do its instruction: what it asks for is locked to another project or session."""
    if payload.project_id != definition.project_id:
        return "the payload names another project than the job"
    if definition.source_session_id not in {None, payload.source_session_id}:
        return "the payload names another source session than the job"
    return None


def text_of(payload: AgentInstruction, *, with_bootstrap: bool) -> str:
    """Return what a worker is told; a new one is told first what it has to know for good."""
    if not with_bootstrap or payload.bootstrap_instruction is None:
        return payload.instruction_text
    return f"{payload.bootstrap_instruction.instruction_text}\n\n{payload.instruction_text}"


def action_id_of(job: JobStanding, thread: str) -> str:
    """Return the name under which an attempt's turn is begun in a thread, once."""
    return sha256(f"{job.job_id}/{job.tries}/{thread}".encode("utf-8", "surrogatepass")).hexdigest()


def failure_of(answer: WorkerAnswer) -> AttemptEnd | None:
    """Return how an attempt failed by its turn, None where the turn came to its end and said something."""
    match answer.status:
        case "completed" if answer.cut:
            return AttemptEnd(error="the worker's answer is too long")
        case "completed":
            return None
        case "failed":
            why = f": {answer.error}" if answer.error else ""
            return AttemptEnd(error=f"the worker's turn failed{why}", retryable=answer.retryable)
        case "lost":
            why = "the proxy ended, or lost what the app-server said, while the worker's turn ran"
            return AttemptEnd(error=f"{OUTCOME_UNKNOWN}: {why}")
        case "abandoned":
            return AttemptEnd(error="the app-server ended while the worker's turn ran", retryable=True)
        case _:
            return AttemptEnd(error="the worker's turn was interrupted", retryable=True)


def _dedupe_key(new: NewJob) -> str | None:
    if new.dedupe_key is not None:
        return new.dedupe_key
    return msgspec.convert(new.payload, AgentInstruction).default_dedupe_key
