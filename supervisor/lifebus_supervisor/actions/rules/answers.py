"""What a worker's job is to answer, and what its result is once its intents were done.  Pure."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_contract.actions.intents import ActionIntents, IntentResult
from lifebus_contract.extensions import ActionScope
from lifebus_contract.jobs import AgentInstruction, CommandPayload, ExpectResponse
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.actions.rules.intents import counts_of
from lifebus_supervisor.queue.records import JobDefinition

MAX_TEXT: Final = 12_000
"""Most characters of a worker's text that its job's result has."""

_MAX_INTENTS_BYTES: Final = 24_576


class WorkerJob(Struct, frozen=True, kw_only=True):
    """A worker's job: in whose name its intents are done, what its answer has to be, and to what they are locked."""

    job_id: str
    agent: str
    job_kind: str
    expects: ExpectResponse
    scope: ActionScope


def of_instruction(job_id: str, payload: AgentInstruction) -> WorkerJob:
    """Return the worker's job of an instruction."""
    return WorkerJob(
        job_id=job_id,
        agent=payload.agent,
        job_kind=payload.job_kind,
        expects=payload.expect_response,
        scope=ActionScope(
            project_id=payload.project_id, source_session_id=payload.source_session_id, turn_id=payload.turn_id
        ),
    )


def of_command(definition: JobDefinition, payload: Mapping[str, Any]) -> WorkerJob | None:
    """Return the worker's job of a command, None where it is a command alone."""
    worker = msgspec.convert(payload, CommandPayload).worker
    if worker is None:
        return None
    return WorkerJob(
        job_id=definition.job_id,
        agent=worker.agent,
        job_kind=worker.job_kind,
        expects=worker.expect_response,
        scope=ActionScope(
            project_id=definition.project_id,
            source_session_id=definition.source_session_id,
            turn_id=worker.turn_id,
        ),
    )


def result_of(batch: ActionIntents, results: Sequence[IntentResult]) -> dict[str, Any]:
    """Return the result of a job whose intents were done; payloads are left out where they are many."""
    whole = [msgspec.to_builtins(one) for one in batch.intents]
    if len(msgspec.json.encode(whole)) > _MAX_INTENTS_BYTES:
        whole = [{key: value for key, value in one.items() if key != "payload"} for one in whole]
    told = [msgspec.to_builtins(one) for one in results]
    if len(msgspec.json.encode(told)) > _MAX_INTENTS_BYTES:
        told = [{"actionType": one.action_type[:128], "status": one.status.value} for one in results]
    return {"status": "ok", "actionIntents": whole, "actionResults": told}


def output_entry(job: WorkerJob, results: Sequence[IntentResult], now_ms: int) -> TranscriptEntry | None:
    """Return the entry that tells what the intents came to, None where no turn is there to have it."""
    if job.scope.source_session_id is None or job.scope.turn_id is None:
        return None
    counts = counts_of(results)
    details = {"jobId": job.job_id, "agent": job.agent, "jobKind": job.job_kind, "statuses": counts}
    return TranscriptEntry(
        message_id=f"agent-job-output::{job.job_id}",
        turn_id=job.scope.turn_id,
        role=EntryRole.SYSTEM,
        type="agent.jobOutput",
        content=", ".join(f"{count} {status}" for status, count in counts.items()),
        status=EntryStatus.COMPLETE,
        details=msgspec.json.encode(details, order="sorted").decode(),
        completed_at=now_ms,
    )
