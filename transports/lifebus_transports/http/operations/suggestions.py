"""The routes of suggested requests: a job is queued, waited for, and says what it suggests (docs/transcripts.md).

They refuse as the other routes of a session do.
"""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import Identifier
from lifebus_contract.jobs import (
    CompletionSignal,
    EnqueueStatus,
    Job,
    Suggestion,
    SuggestionError,
    SuggestionStatus,
    SuggestionText,
)
from lifebus_contract.transcripts import TranscriptInfo
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.jobs import require_queue
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.operations.transcripts import UNKNOWN, SessionPlace, call_about, session_of
from lifebus_transports.messages.jobs import JobShow, JobWait
from lifebus_transports.messages.transcripts import (
    ShowSuggestion,
    SuggestedJob,
    SuggestionAnswer,
    SuggestRequest,
    UpsertSuggestion,
)

WAIT_MS: Final = 12_000
"""How long a suggestion is waited for, where a caller does not say."""

_ROUTE: Final = "/api/sessions/{sessionId}/suggested-request"


class SuggestionBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """What a suggestion is to be made with, and a draft that it may begin from."""

    model: Identifier | None = None
    effort: Identifier | None = None
    draft: Annotated[str, Meta(min_length=1, max_length=4_000)] | None = None


class WaitQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How long to wait for the suggestion, in milliseconds."""

    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = WAIT_MS


class SuggestionStanding(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a suggested request stands, as whoever suggests says it; other fields are left out."""

    request_key: Identifier
    status: SuggestionStatus
    suggestion: SuggestionText | None = None
    error: SuggestionError | None = None


class SuggestionQueued(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job suggests a request; `suggested_request_updated` tells of it under its key."""

    status: Literal["queued"] = "queued"
    job_id: str
    request_key: str
    session_id: str
    project_id: str
    dedupe: EnqueueStatus


class SuggestionReady(Struct, frozen=True, kw_only=True, rename="camel"):
    """What is suggested; with the status `fallback` the draft of the caller, because nothing else was."""

    status: Literal["ok", "fallback"]
    suggestion: str
    request_key: str
    job_id: str
    session_id: str


class NoSuggestion(Struct, frozen=True, kw_only=True, rename="camel"):
    """Nothing is suggested.

    `no_context`: nothing was said in the session, and there is no draft; `no_suggestion`: who should suggest failed;
    `job_conflict`: nobody suggests.
    """

    status: Literal["error", "no_context"]
    code: Literal["no_context", "no_suggestion", "job_conflict"]
    session_id: str
    message: str


class SuggestionUpserted(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a suggested request stands after the merge."""

    status: Literal["ok"] = OK
    session_id: str
    request_key: str
    entry: Suggestion


OPERATIONS = (
    Operation(
        name="suggestRequest",
        method="POST",
        path=f"{_ROUTE}/jobs",
        summary="Has extensions queue a job that suggests the next request.",
        tag="sessions",
        place=SessionPlace,
        body=SuggestionBody,
        body_last=True,
        answers={202: SuggestionQueued, 409: NoSuggestion, 429: ErrorBody, **UNKNOWN},
    ),
    Operation(
        name="suggestRequestAndWait",
        method="POST",
        path=_ROUTE,
        summary="Has extensions suggest the next request, and waits for it.",
        tag="sessions",
        place=SessionPlace,
        query=WaitQuery,
        body=SuggestionBody,
        body_last=True,
        answers={200: SuggestionReady, 202: SuggestionQueued, 409: NoSuggestion, 429: ErrorBody, **UNKNOWN},
    ),
    Operation(
        name="upsertSuggestion",
        method="POST",
        path=f"{_ROUTE}/upsert",
        summary="Merges how a suggested request stands.",
        tag="sessions",
        place=SessionPlace,
        body=SuggestionStanding,
        body_last=True,
        answers={200: SuggestionUpserted, **UNKNOWN},
    ),
)


def served(*, has_queue: bool) -> Served:
    """Return what serves each operation; without a queue nothing is suggested."""
    require = require_queue(has_queue=has_queue)
    return {
        "suggestRequest": partial(_suggest, require),
        "suggestRequestAndWait": partial(_suggest_and_wait, require),
        "upsertSuggestion": _upsert,
    }


async def _suggest(require: Callable[[], None], asked: RouteRequest) -> RouteReply:
    info, body = await _asked_for(require, asked)
    return RouteReply(202, (await _queue(asked, info.session_id, body))[0])


async def _suggest_and_wait(require: Callable[[], None], asked: RouteRequest) -> SuggestionReady | RouteReply:
    info, body = await _asked_for(require, asked)
    if body.draft is None and not info.entries:
        raise _nothing(info.session_id, "no_context", "nothing was said in this session yet, and there is no draft")
    queued, job = await _queue(asked, info.session_id, body)
    stands = await _wait(asked, queued, job, asked.query.wait_ms)
    if stands is None:
        return RouteReply(202, queued)
    ready = partial(SuggestionReady, request_key=queued.request_key, job_id=queued.job_id, session_id=queued.session_id)
    if stands.status is SuggestionStatus.COMPLETE:
        return ready(status="ok", suggestion=stands.suggestion or "")
    if body.draft is not None:
        return ready(status="fallback", suggestion=body.draft)
    raise _nothing(info.session_id, "no_suggestion", stands.error or "nothing was suggested")


async def _upsert(asked: RouteRequest) -> SuggestionUpserted:
    info = await session_of(asked)
    _require_users(info)
    body: SuggestionStanding = asked.require_body()
    wanted = UpsertSuggestion(
        session_id=info.session_id,
        request_key=body.request_key,
        status=body.status,
        suggestion=body.suggestion,
        error=body.error,
    )
    done: SuggestionAnswer = await call_about(asked, "suggestion_upsert", wanted)
    return SuggestionUpserted(session_id=info.session_id, request_key=body.request_key, entry=done.suggestion)


async def _asked_for(require: Callable[[], None], asked: RouteRequest) -> tuple[TranscriptInfo, SuggestionBody]:
    """Return the session of a request for a suggestion, and its body.

    Raises:
        HttpRefusal: 410, 404, 403, 503, 400, in this order.
    """
    info = await session_of(asked)
    _require_users(info)
    require()
    return info, asked.require_body()


def _require_users(info: TranscriptInfo) -> None:
    if info.system_owned:
        raise HttpRefusal(refuse(403, "system_session", "the session belongs to a worker of the broker"))


async def _queue(asked: RouteRequest, session_id: str, body: SuggestionBody) -> tuple[SuggestionQueued, Job]:
    """Have a job queued; return what says so, and the job.

    Raises:
        HttpRefusal: nobody suggests.
        LifebusError: another refusal.
    """
    wanted = SuggestRequest(session_id=session_id, model=body.model, effort=body.effort, draft=body.draft)
    try:
        found: SuggestedJob = await call_about(asked, "suggest_request", wanted)
    except LifebusError as fault:
        if fault.code != "no_suggestion":
            raise
        raise _nothing(session_id, "job_conflict", fault.detail) from None
    job: Job = await asked.calls.call(asked.peer, "job_show", JobShow(job_id=found.job_id))
    queued = SuggestionQueued(
        job_id=found.job_id,
        # A job that was queued before says what it suggests under the key that it was queued with.
        request_key=_key_of(job) or found.request_key,
        session_id=found.session_id,
        project_id=found.project_id,
        dedupe=found.status,
    )
    return queued, job


async def _wait(asked: RouteRequest, queued: SuggestionQueued, job: Job, wait_ms: int) -> Suggestion | None:
    """Return the suggestion once it is over, None where it is not in time.

    Raises:
        HttpRefusal: the session was deleted meanwhile.
        LifebusError: it cannot be read.
    """
    if _key_of(job) is None:
        # Nobody writes the suggestion of such a job for it: with the job everything is over.
        job = await asked.calls.call(asked.peer, "job_wait", JobWait(job_id=job.id, wait_ms=wait_ms))
        wait_ms = 0
    wanted = ShowSuggestion(session_id=queued.session_id, request_key=queued.request_key, wait_ms=wait_ms)
    try:
        stands: Suggestion = (await call_about(asked, "suggestion_show", wanted)).suggestion
    except LifebusError as fault:
        if fault.code != "no_suggested_request":
            raise
        stands = Suggestion(request_key=queued.request_key, status=SuggestionStatus.STREAMING)
    if stands.status.is_terminal:
        return stands
    if _key_of(job) is None and job.state.is_terminal:
        return Suggestion(request_key=queued.request_key, status=SuggestionStatus.ERROR, error=job.error)
    return None


def _key_of(job: Job) -> str | None:
    """Return the key of the suggested request that is written when a job ends, None where none is."""
    try:
        return msgspec.convert(job.payload.get("completionSignal"), CompletionSignal).request_key
    except msgspec.ValidationError:
        return None


def _nothing(session_id: str, kind: Literal["no_context", "no_suggestion", "job_conflict"], why: str) -> HttpRefusal:
    status: Literal["error", "no_context"] = "no_context" if kind == "no_context" else "error"
    return HttpRefusal(RouteReply(409, NoSuggestion(status=status, code=kind, session_id=session_id, message=why)))
