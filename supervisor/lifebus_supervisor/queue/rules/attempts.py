"""What follows from the end of an attempt, and from a restart.  Pure."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_contract.jobs import MAX_REASON, MAX_RESULT_BYTES, JobState
from lifebus_supervisor.queue.records import JobEnded, JobRecord, JobRequeued, JobStanding
from lifebus_supervisor.runtime.rules.retry_pause import pause_ms

TIMED_OUT: Final = "orchestrator job timeout"
CANCELED: Final = "cancel_requested"
NOT_ENDED: Final = "interrupt_timeout"
STOPPED: Final = "shutdown"
RECOVERED: Final = "recovered_from_running_state"
USED_UP: Final = "recovery_max_attempts_exceeded"
UNKNOWN_TYPE: Final = "recovery_unknown_job_type"
INVALID_PAYLOAD: Final = "recovery_invalid_payload"
NO_REASON: Final = "unknown orchestrator error"


class StopReason(StrEnum):
    """Why an attempt that runs is to end."""

    CANCELED = "canceled"
    TIME_LIMIT = "time_limit"
    SHUTDOWN = "shutdown"


class AttemptEnd(Struct, frozen=True, kw_only=True):
    """How an attempt ended: with a result, or with an error and whether another attempt may do better."""

    result: Any = None
    error: str | None = None
    retryable: bool = False


def after_attempt(
    job: JobStanding, end: AttemptEnd, stop: StopReason | None, *, forced: bool, now_ms: int, fraction: float
) -> tuple[JobRecord, ...]:
    """Return what is recorded when an attempt has ended.

    `stop` says why it was asked to end, `forced` that it did not within its grace; `fraction` is the drawn jitter.
    """
    if job.state is not JobState.RUNNING:
        return ()
    if job.cancel_requested_at_ms is not None:
        return (JobEnded(at_ms=now_ms, state=JobState.CANCELED, error=NOT_ENDED if forced else CANCELED),)
    # What was done is done, also where it was to be stopped: a finished job is never repeated.
    if end.error is None and not forced:
        return (_completed(end, now_ms),)
    if stop is StopReason.SHUTDOWN:
        return (JobRequeued(at_ms=now_ms, error=STOPPED, next_attempt_at_ms=now_ms, counted=False),)
    if stop is StopReason.TIME_LIMIT:
        end = AttemptEnd(error=TIMED_OUT, retryable=True)
    error = reason_of(end.error)
    if not end.retryable or job.attempts >= job.definition.max_attempts:
        return (_failed(error, now_ms),)
    pause = pause_ms(job.definition.pause, job.attempts - 1, fraction)
    return (JobRequeued(at_ms=now_ms, error=error, next_attempt_at_ms=now_ms + pause),)


def recovered(
    job: JobStanding, end: AttemptEnd | None, fault: str | None, *, now_ms: int, fraction: float
) -> tuple[JobRecord, ...]:
    """Return what is recorded of a job that the broker before left; nothing of one that is over.

    `end` is how its attempt ended where something outside of the broker still says so.  `fault` says why it cannot be
    done any more: its type is unknown, or its payload is none of that type.
    """
    if job.state is JobState.QUEUED:
        return () if fault is None else (_failed(fault, now_ms),)
    if job.state is not JobState.RUNNING:
        return ()
    if end is not None:
        return after_attempt(job, end, None, forced=False, now_ms=now_ms, fraction=fraction)
    if job.cancel_requested_at_ms is not None:
        return (JobEnded(at_ms=now_ms, state=JobState.CANCELED, error=CANCELED),)
    if fault is None and job.attempts >= job.definition.max_attempts:
        fault = USED_UP
    if fault is not None:
        return (_failed(fault, now_ms),)
    return (JobRequeued(at_ms=now_ms, error=RECOVERED, next_attempt_at_ms=now_ms),)


def reason_of(error: str | None) -> str:
    """Return an error as a job keeps it: bounded, and never empty."""
    text = (error or "").strip()[:MAX_REASON]
    return text or NO_REASON


def _failed(error: str | None, now_ms: int) -> JobEnded:
    return JobEnded(at_ms=now_ms, state=JobState.FAILED, error=reason_of(error))


def _completed(end: AttemptEnd, now_ms: int) -> JobEnded:
    fault = unfit_result(end.result)
    if fault is not None:
        return _failed(fault, now_ms)
    return JobEnded(at_ms=now_ms, state=JobState.COMPLETED, result=end.result)


def unfit_result(result: Any, encode: Callable[[Any], bytes] = msgspec.json.encode) -> str | None:
    """Return why a result, or a progress report, cannot be kept; None where it can."""
    try:
        size = len(encode(result))
    except (TypeError, ValueError, OverflowError, RecursionError) as fault:
        return reason_of(f"the result is not JSON: {fault}")
    return f"the result has {size} bytes, at most {MAX_RESULT_BYTES} are kept" if size > MAX_RESULT_BYTES else None
