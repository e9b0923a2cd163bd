"""Bodies of the verbs of the queue (docs/queue.md).  Pure."""

from typing import Annotated

from msgspec import Meta

from lifebus_contract.fields import Count, Document, Identifier, Label
from lifebus_contract.jobs import JobId, JobPriority, JobState, NewJob, ProjectId

QueueingOrder = tuple[Count, JobId]
"""The place of a job among all: when it was queued, in milliseconds since the epoch, and its id."""


class JobEnqueue(Document, frozen=True, kw_only=True):
    """`job_enqueue`: queue a job; one with a `jobId` is not queued twice."""

    job: NewJob


class JobListing(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`job_list`: jobs in the order in which they were queued, behind the place `after`."""

    project_id: ProjectId | None = None
    state: JobState | None = None
    after: QueueingOrder | None = None
    limit: Annotated[int, Meta(ge=1, le=512)] = 128


class JobSummary(Document, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """A job as a list has it: without its payload and its result."""

    id: JobId
    type: Identifier
    project_id: ProjectId
    source_session_id: Identifier | None = None
    priority: JobPriority
    state: JobState
    error: str | None = None
    attempts: Count
    max_attempts: Count
    created_at: str
    completed_at: str | None = None
    next_attempt_at: str | None = None


class JobPage(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `job_list`; `next` is the place to go on behind, null where there are no more."""

    jobs: tuple[JobSummary, ...] = ()
    next: QueueingOrder | None = None


class JobShow(Document, frozen=True, kw_only=True):
    """`job_show`: one job, whole."""

    job_id: JobId


class JobWait(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`job_wait`: one job as soon as it is over, or after `wait_ms` as it is then."""

    job_id: JobId
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class JobCancel(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`job_cancel`: cancel a job; one that runs has its grace."""

    job_id: JobId
    reason: Label = "api_cancel"


class JobRetry(Document, frozen=True, kw_only=True):
    """`job_retry`: queue a failed or canceled job again."""

    job_id: JobId


class JobDrain(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`job_drain`: begin no further job, and wait `wait_ms` for those that run; without `drains`, go on.

    With `cancel`, those that run are asked to end, and wait for their next turn.
    """

    drains: bool = True
    cancel: bool = False
    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class QueueStatus(Document, frozen=True, kw_only=True):
    """The answer to `job_drain`: whether the queue is drained, and how many jobs run and wait."""

    drains: bool
    running: Count
    queued: Count
