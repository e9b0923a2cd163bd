"""The routes of the queue: one job, the jobs of a project, cancelling (docs/queue.md)."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import MAX_INTEGER
from lifebus_contract.jobs import Job, JobId, JobState, ProjectId
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, NoFields, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import OperatorPeer
from lifebus_transports.messages.jobs import JobCancel, JobListing, JobPage, JobShow, JobSummary, QueueingOrder


class JobPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job."""

    job_id: JobId


class ProjectPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A project, or ``session:ID`` for a session without one."""

    project_id: ProjectId


class JobsQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which jobs; `after` is the `next` of the page before."""

    state: JobState | None = None
    after: Annotated[str, Meta(max_length=160, pattern=r"^[0-9]{1,16}:.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=512)] = 128


class JobAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """One job, whole."""

    status: Literal["ok"] = OK
    job: Job


class JobOver(Struct, frozen=True, kw_only=True, rename="camel"):
    """The job was over before it could be cancelled."""

    status: Literal["already_terminal"] = "already_terminal"
    code: Literal["job_over"] = "job_over"
    job: Job


class JobNotFound(Struct, frozen=True, kw_only=True, rename="camel"):
    """There is no such job."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_job"] = "no_job"
    message: str
    job_id: str


class JobsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Jobs without payload and result, oldest first; `next` leads to those behind them, null where there are none."""

    status: Literal["ok"] = OK
    data: tuple[JobSummary, ...]
    next: str | None


OPERATIONS = (
    Operation(
        name="job",
        method="GET",
        path="/api/orchestrator/jobs/{jobId}",
        summary="Returns a job.",
        tag="jobs",
        place=JobPlace,
        answers={200: JobAnswer, 404: JobNotFound},
    ),
    Operation(
        name="cancelJob",
        method="POST",
        path="/api/orchestrator/jobs/{jobId}/cancel",
        summary="Cancels a job; one that runs has its grace.",
        tag="jobs",
        place=JobPlace,
        body=NoFields,
        answers={200: JobAnswer, 404: JobNotFound, 409: JobOver, 503: ErrorBody},
    ),
    Operation(
        name="allJobs",
        method="GET",
        path="/api/orchestrator/jobs",
        summary="Returns the jobs of all projects, oldest first.",
        tag="jobs",
        query=JobsQuery,
        answers={200: JobsAnswer},
    ),
    Operation(
        name="jobs",
        method="GET",
        path="/api/projects/{projectId}/orchestrator/jobs",
        summary="Returns the jobs of a project, oldest first.",
        tag="jobs",
        place=ProjectPlace,
        query=JobsQuery,
        answers={200: JobsAnswer},
    ),
)


def served(*, has_queue: bool) -> Served:
    """Return what serves each operation; without a queue nothing is cancelled."""
    return {
        "job": _show,
        "cancelJob": partial(_cancel, require_queue(has_queue=has_queue)),
        "jobs": _list_project,
        "allJobs": _list_all,
    }


def require_queue(*, has_queue: bool) -> Callable[[], None]:
    """Return what refuses where the queue is off."""

    def require() -> None:
        if not has_queue:
            raise HttpRefusal(refuse(503, "job_conflict", "the queue is off; `queue.enabled` turns it on"))

    return require


async def _show(asked: RouteRequest) -> JobAnswer:
    return JobAnswer(job=await _job(asked))


async def _job(asked: RouteRequest) -> Job:
    """Return the job that a request names.

    Raises:
        HttpRefusal: there is none.
    """
    job_id: str = asked.place.job_id
    try:
        found: Job = await asked.calls.call(asked.peer, "job_show", JobShow(job_id=job_id))
    except LifebusError as fault:
        if fault.code != "no_job":
            raise
        raise HttpRefusal(RouteReply(404, JobNotFound(message=fault.detail, job_id=job_id))) from None
    return found


async def _cancel(require: Callable[[], None], asked: RouteRequest) -> JobAnswer | RouteReply:
    job = await _job(asked)
    require()
    try:
        # The token is the proof that the caller may do to jobs what their owner does.
        job = await asked.calls.call(OperatorPeer(), "job_cancel", JobCancel(job_id=job.id))
    except LifebusError as fault:
        if fault.code != "job_over":
            raise
        # It may have ended after it was looked at: what is answered is how it ended.
        return RouteReply(409, JobOver(job=await _job(asked)))
    return JobAnswer(job=job)


async def _list_project(asked: RouteRequest) -> JobsAnswer:
    return await _list(asked, asked.place.project_id)


async def _list_all(asked: RouteRequest) -> JobsAnswer:
    return await _list(asked, None)


async def _list(asked: RouteRequest, project_id: str | None) -> JobsAnswer:
    query: JobsQuery = asked.query
    listing = JobListing(project_id=project_id, state=query.state, after=_place_of(query.after), limit=query.limit)
    page: JobPage = await asked.calls.call(asked.peer, "job_list", listing)
    return JobsAnswer(data=page.jobs, next=None if page.next is None else f"{page.next[0]}:{page.next[1]}")


def _place_of(text: str | None) -> QueueingOrder | None:
    """Return the place that a page ended with.

    Raises:
        HttpRefusal: it is none.
    """
    if text is None:
        return None
    number, _, job_id = text.partition(":")
    if int(number) > MAX_INTEGER:
        raise HttpRefusal(refuse(400, "invalid_request", "`after` is the `next` of a page"))
    return int(number), job_id
