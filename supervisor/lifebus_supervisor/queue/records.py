"""What the journal keeps of a job, and the state that follows from it.  Pure.

Each job has a stream of its own.  Its first record is `JobQueued`, or `WholeJob` where older ones were dropped.
"""

from typing import Any, Final

import msgspec
from msgspec import Struct, structs

from lifebus_contract.fields import Metadata
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import Dedupe, JobPriority, JobState, RunningContext

STREAMS: Final = "job/"
"""What the names of the jobs' streams begin with."""


class JobDefinition(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What was queued, complete: what the caller left open is as its type has it.

    `digest` is that of the call, by which the same call is known when it comes again.
    """

    job_id: str
    type: str
    version: int
    project_id: str
    digest: str
    source_session_id: str | None = None
    priority: JobPriority = JobPriority.INTERACTIVE
    dedupe: Dedupe = Dedupe.NONE
    dedupe_key: str | None = None
    max_attempts: int
    time_limit_ms: int
    cancel_grace_ms: int
    pause: RetryPause
    not_before_ms: int | None = None


class WorkerAnswer(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How the turn of a worker ended: its status in the app-server's words, and what it said last.

    `cut` says that `text` is only the beginning, `error` why it failed, `retryable` that another turn may do better.
    """

    turn_id: str
    status: str
    text: str = ""
    cut: bool = False
    error: str = ""
    retryable: bool = False


class JobStanding(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a job stands; times are milliseconds since the epoch.

    `attempts` counts those that count against the limit, `tries` all that were ever begun.  It waits until
    `next_attempt_at_ms`, and no longer than `pause_ms`, however the clock is set.  `settled` says that its supplemental
    targets are as its end has them.  `host` is the observer at whose app-server a worker's turn runs, `answer` how that
    turn ended, as long as the attempt is not over.
    """

    definition: JobDefinition
    payload: Metadata
    state: JobState = JobState.QUEUED
    attempts: int = 0
    tries: int = 0
    result: Any = None
    error: str | None = None
    created_at_ms: int
    started_at_ms: int | None = None
    completed_at_ms: int | None = None
    cancel_requested_at_ms: int | None = None
    next_attempt_at_ms: int | None = None
    pause_ms: int | None = None
    last_attempt_at_ms: int | None = None
    context: RunningContext = RunningContext()
    host: str | None = None
    answer: WorkerAnswer | None = None
    settled: bool = False

    @property
    def job_id(self) -> str:
        """Its id."""
        return self.definition.job_id

    @property
    def project_id(self) -> str:
        """Its project."""
        return self.definition.project_id


class JobQueued(Struct, frozen=True, kw_only=True, tag="queued", tag_field="record"):
    """A job was queued."""

    at_ms: int
    definition: JobDefinition
    payload: Metadata


class JobStarted(Struct, frozen=True, kw_only=True, tag="started", tag_field="record"):
    """An attempt begins."""

    at_ms: int


class JobPlaced(Struct, frozen=True, kw_only=True, tag="placed", tag_field="record"):
    """It is known where it is being done."""

    at_ms: int
    context: RunningContext
    host: str | None = None


class JobAnswered(Struct, frozen=True, kw_only=True, tag="answered", tag_field="record"):
    """The worker's turn ended; the job is over once what it asked for is done."""

    at_ms: int
    answer: WorkerAnswer


class PayloadMerged(Struct, frozen=True, kw_only=True, tag="merged", tag_field="record"):
    """A duplicate came, and this is the payload from now on; an attempt that runs has the one before."""

    at_ms: int
    payload: Metadata


class JobRequeued(Struct, frozen=True, kw_only=True, tag="requeued", tag_field="record"):
    """The attempt ended and another one follows; `counted` is False where the job was not the reason."""

    at_ms: int
    error: str
    next_attempt_at_ms: int
    counted: bool = True


class CancelRequested(Struct, frozen=True, kw_only=True, tag="cancel_requested", tag_field="record"):
    """Somebody wants the running job to end."""

    at_ms: int


class JobEnded(Struct, frozen=True, kw_only=True, tag="ended", tag_field="record"):
    """The job is over."""

    at_ms: int
    state: JobState
    result: Any = None
    error: str | None = None


class JobRevived(Struct, frozen=True, kw_only=True, tag="revived", tag_field="record"):
    """Somebody wants a failed or canceled job tried again, with as many attempts as at first."""

    at_ms: int


class TargetsSettled(Struct, frozen=True, kw_only=True, tag="settled", tag_field="record"):
    """The supplemental targets are as the job's end has them."""

    at_ms: int


class WholeJob(Struct, frozen=True, kw_only=True, tag="whole", tag_field="record"):
    """The whole state, whatever was before."""

    standing: JobStanding


JobRecord = (
    JobQueued
    | JobStarted
    | JobPlaced
    | JobAnswered
    | PayloadMerged
    | JobRequeued
    | CancelRequested
    | JobEnded
    | JobRevived
    | TargetsSettled
    | WholeJob
)
"""What the body of a record holds, as JSON."""

_DECODER: Final[msgspec.json.Decoder[JobRecord]] = msgspec.json.Decoder(JobRecord)


class JobContradiction(Exception):
    """A record cannot follow those before it."""


def encode_record(record: JobRecord) -> bytes:
    """Return the body of a record."""
    return msgspec.json.encode(record)


def decode_record(body: bytes) -> JobRecord:
    """Return a record from its body.

    Raises:
        msgspec.DecodeError: it is none that this program knows.
    """
    return _DECODER.decode(body)


def stream_of(job_id: str) -> str:
    """Return the stream of a job."""
    return f"{STREAMS}{job_id}"


def apply(before: JobStanding | None, record: JobRecord) -> JobStanding:
    """Return how a job stands after one more record.

    Raises:
        JobContradiction: the record cannot follow.
    """
    if isinstance(record, WholeJob):
        return record.standing
    if isinstance(record, JobQueued) and before is None:
        return _first(record)
    if isinstance(record, JobQueued) or before is None:
        raise JobContradiction(f"a record `{type(record).__name__}` cannot stand there")
    if (before.state is JobState.RUNNING) is not _needs_running(record, before):
        raise JobContradiction(f"a record `{type(record).__name__}` cannot follow the state `{before.state.value}`")
    return _changed(before, record)


def _first(record: JobQueued) -> JobStanding:
    wait = record.definition.not_before_ms
    pause_ms = None if wait is None else max(0, wait - record.at_ms)
    return JobStanding(
        definition=record.definition,
        payload=record.payload,
        created_at_ms=record.at_ms,
        next_attempt_at_ms=wait if pause_ms else None,
        pause_ms=pause_ms or None,
    )


def _needs_running(record: JobRecord, before: JobStanding) -> bool:
    """Return whether a record belongs to a job that runs; of those that fit both, what the job is now."""
    if isinstance(record, JobRequeued | JobPlaced | JobAnswered | CancelRequested):
        return True
    if isinstance(record, JobStarted | JobRevived | TargetsSettled):
        return False
    return before.state is JobState.RUNNING


def _changed(before: JobStanding, record: JobRecord) -> JobStanding:
    if before.state.is_terminal is not isinstance(record, JobRevived | TargetsSettled):
        raise JobContradiction(f"a record `{type(record).__name__}` cannot follow the state `{before.state.value}`")
    match record:
        case JobStarted():
            return _started(before, record.at_ms)
        case JobRequeued():
            return _requeued(before, record)
        case JobEnded():
            return structs.replace(
                before,
                state=record.state,
                result=record.result,
                error=record.error,
                completed_at_ms=record.at_ms,
                next_attempt_at_ms=None,
                pause_ms=None,
                host=None,
                answer=None,
            )
        case JobRevived():
            return structs.replace(
                before,
                state=JobState.QUEUED,
                attempts=0,
                result=None,
                error=None,
                completed_at_ms=None,
                cancel_requested_at_ms=None,
                settled=False,
            )
        case _:
            return _noted(before, record)


def _started(before: JobStanding, at_ms: int) -> JobStanding:
    return structs.replace(
        before,
        state=JobState.RUNNING,
        attempts=before.attempts + 1,
        tries=before.tries + 1,
        started_at_ms=at_ms if before.started_at_ms is None else before.started_at_ms,
        last_attempt_at_ms=at_ms,
        result=None,
        error=None,
        next_attempt_at_ms=None,
        pause_ms=None,
        cancel_requested_at_ms=None,
        context=RunningContext(),
        host=None,
        answer=None,
    )


def _requeued(before: JobStanding, record: JobRequeued) -> JobStanding:
    pause_ms = max(0, record.next_attempt_at_ms - record.at_ms)
    return structs.replace(
        before,
        state=JobState.QUEUED,
        attempts=before.attempts if record.counted else before.attempts - 1,
        error=record.error,
        next_attempt_at_ms=record.next_attempt_at_ms if pause_ms else None,
        pause_ms=pause_ms or None,
        context=RunningContext(),
        host=None,
        answer=None,
    )


def _noted(before: JobStanding, record: JobRecord) -> JobStanding:
    """Return a job after a record that leaves its state as it is."""
    match record:
        case JobPlaced():
            return structs.replace(before, context=record.context, host=record.host)
        case JobAnswered():
            return structs.replace(before, answer=record.answer)
        case PayloadMerged():
            return structs.replace(before, payload=record.payload)
        case CancelRequested():
            return structs.replace(before, cancel_requested_at_ms=record.at_ms)
        case TargetsSettled():
            return structs.replace(before, settled=True)
        case _:
            raise JobContradiction(f"a record `{type(record).__name__}` cannot stand there")
