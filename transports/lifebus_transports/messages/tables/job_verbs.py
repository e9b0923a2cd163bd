"""The verbs of the queue (docs/queue.md).  Pure."""

from typing import Final

from lifebus_contract.jobs import Enqueued, Job
from lifebus_transports.messages.jobs import (
    JobCancel,
    JobDrain,
    JobEnqueue,
    JobListing,
    JobPage,
    JobRetry,
    JobShow,
    JobWait,
    QueueStatus,
)
from lifebus_transports.messages.verb_types import JOB_WAITS, JOBS, Access, Repeat, Verb

TABLE: Final = (
    Verb(
        name="job_enqueue",
        summary="Queues a job, durably, and once where it has an id.",
        body=JobEnqueue,
        answer=Enqueued,
        access=Access.OPERATOR,
        pool=JOBS,
        # Safe with a `jobId`, which the client library always gives.
        repeat=Repeat.NEVER,
    ),
    Verb(name="job_list", summary="Returns a page of the jobs.", body=JobListing, answer=JobPage, pool=JOBS),
    Verb(name="job_show", summary="Returns a job.", body=JobShow, answer=Job, pool=JOBS),
    Verb(
        name="job_wait",
        summary="Returns a job as soon as it is over.",
        body=JobWait,
        answer=Job,
        pool=JOB_WAITS,
        wait_key="wait_ms",
    ),
    Verb(
        name="job_cancel",
        summary="Cancels a job.",
        body=JobCancel,
        answer=Job,
        access=Access.OPERATOR,
        pool=JOBS,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="job_retry",
        summary="Queues a failed or canceled job again.",
        body=JobRetry,
        answer=Job,
        access=Access.OPERATOR,
        pool=JOBS,
        repeat=Repeat.NEVER,
    ),
    Verb(
        name="job_drain",
        summary="Has no further job begin, or has jobs begin again.",
        body=JobDrain,
        answer=QueueStatus,
        access=Access.OPERATOR,
        pool=JOB_WAITS,
        wait_key="wait_ms",
    ),
)
"""Their part of the table of verbs."""
