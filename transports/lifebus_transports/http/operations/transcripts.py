"""The routes of a session: its transcript, and an entry that is merged into it.

What is wrong with a session is said before what is wrong with a body: 410, 403, 404, 503, 400 (docs/gateway.md,
"Sessions").
"""

from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import Count, Identifier
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry, TranscriptInfo, TranscriptPage
from lifebus_transports.http.operations.errors import HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.messages.transcripts import (
    ShowSuggestion,
    ShowTranscript,
    SuggestRequest,
    TranscriptInfos,
    TranscriptsQuery,
    UpsertedEntry,
    UpsertEntry,
    UpsertSuggestion,
)


class SessionPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session of an app-server: the id of its thread."""

    session_id: Annotated[str, Meta(min_length=1, max_length=200)]


class TranscriptQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which entries: those behind a sequence; `next` of a page is the one to go on behind."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class TranscriptsFilter(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which transcripts: those behind a session; those of the broker's own workers where they are asked for."""

    after: Identifier | None = None
    limit: Annotated[int, Meta(ge=1, le=256)] = 64
    include_system_owned: bool = False


class TranscriptsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """How transcripts stand, by session id; `next` is the one to go on behind."""

    status: Literal["ok"] = OK
    data: tuple[TranscriptInfo, ...]
    next: str | None


class EntryBody(Struct, frozen=True, kw_only=True, rename="camel"):
    """An entry to be merged into the one of its message id; other fields are left out.  Times are milliseconds."""

    message_id: Identifier
    turn_id: Identifier
    role: EntryRole
    type: Identifier
    content: str
    status: EntryStatus
    details: str | None = None
    started_at: Count | None = None
    completed_at: Count | None = None


class SessionThread(Struct, frozen=True, kw_only=True, rename="camel"):
    """The thread of an app-server whose session this is."""

    id: str


class SessionAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session and its transcript; an event of the transcript behind number `through` is not in it yet."""

    status: Literal["ok"] = OK
    session: TranscriptInfo
    thread: SessionThread
    transcript: tuple[TranscriptEntry, ...]
    next: int | None
    through: int


class UpsertAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The entry as it is after the merge."""

    status: Literal["ok"] = OK
    session_id: str
    entry: TranscriptEntry


class SessionDeleted(Struct, frozen=True, kw_only=True, rename="camel"):
    """The session was deleted, at that time."""

    status: Literal["deleted"] = "deleted"
    code: Literal["session_deleted"] = "session_deleted"
    session_id: str
    message: str
    deleted_at: str | None


class SessionNotFound(Struct, frozen=True, kw_only=True, rename="camel"):
    """Nobody has heard of the session."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_session"] = "no_session"
    session_id: str
    message: str


UNKNOWN: Final = {404: SessionNotFound, 410: SessionDeleted}
"""What every route of a session may answer."""

OPERATIONS = (
    Operation(
        name="transcripts",
        method="GET",
        path="/api/transcripts",
        summary="Lists the transcripts that are kept.",
        tag="sessions",
        query=TranscriptsFilter,
        answers={200: TranscriptsAnswer},
    ),
    Operation(
        name="session",
        method="GET",
        path="/api/sessions/{sessionId}",
        summary="Returns a session and a page of its transcript.",
        tag="sessions",
        place=SessionPlace,
        query=TranscriptQuery,
        answers={200: SessionAnswer, **UNKNOWN},
    ),
    Operation(
        name="upsertEntry",
        method="POST",
        path="/api/sessions/{sessionId}/transcript/upsert",
        summary="Merges an entry into the transcript by its message id.",
        tag="sessions",
        place=SessionPlace,
        body=EntryBody,
        body_last=True,
        answers={200: UpsertAnswer, **UNKNOWN},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"transcripts": _list, "session": _show, "upsertEntry": _upsert}


async def _list(asked: RouteRequest) -> TranscriptsAnswer:
    query: TranscriptsFilter = asked.query
    wanted = TranscriptsQuery(after=query.after, limit=query.limit, system_owned=query.include_system_owned)
    found: TranscriptInfos = await asked.calls.call(asked.peer, "transcript_list", wanted)
    return TranscriptsAnswer(data=found.transcripts, next=found.next)


async def _show(asked: RouteRequest) -> SessionAnswer:
    query: TranscriptQuery = asked.query
    info = await session_of(asked)
    page: TranscriptPage = await asked.calls.call(
        asked.peer,
        "transcript_show",
        ShowTranscript(session_id=info.session_id, after=query.after, limit=query.limit),
    )
    return SessionAnswer(
        session=page.info,
        thread=SessionThread(id=info.session_id),
        transcript=tuple(one.entry for one in page.entries),
        next=page.next,
        through=page.through,
    )


async def _upsert(asked: RouteRequest) -> UpsertAnswer:
    session_id = (await session_of(asked)).session_id
    body: EntryBody = asked.require_body()
    try:
        entry = TranscriptEntry(**{name: getattr(body, name) for name in body.__struct_fields__})
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the body does not fit", (str(fault)[:512],))) from None
    done: UpsertedEntry = await call_about(asked, "transcript_upsert", UpsertEntry(session_id=session_id, entry=entry))
    return UpsertAnswer(session_id=session_id, entry=done.entry)


async def session_of(asked: RouteRequest) -> TranscriptInfo:
    """Return the session that a request names.

    Raises:
        HttpRefusal: 410, it was deleted; 404, nobody has heard of it.
    """
    session_id: str = asked.place.session_id
    try:
        found: TranscriptInfos = await asked.calls.call(
            asked.peer, "transcript_list", TranscriptsQuery(session_id=session_id, deleted=True, system_owned=True)
        )
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the address does not fit", (str(fault)[:512],))) from None
    except LifebusError as fault:
        if fault.code == "no_session":
            raise _not_found(session_id, fault) from None
        raise
    info = found.transcripts[0]
    if info.deleted_at is not None:
        raise _deleted(session_id, info.deleted_at)
    return info


async def call_about(
    asked: RouteRequest, verb: str, body: UpsertEntry | SuggestRequest | UpsertSuggestion | ShowSuggestion
) -> Any:
    """Call a verb about a session, which may be deleted meanwhile.

    Raises:
        HttpRefusal: it was.
        LifebusError: another refusal.
    """
    try:
        return await asked.calls.call(asked.peer, verb, body)
    except LifebusError as fault:
        if fault.code == "session_deleted":
            # Asked once more, for the time of the deletion.
            await session_of(asked)
        elif fault.code == "no_session":
            raise _not_found(body.session_id, fault) from None
        raise


def _deleted(session_id: str, deleted_at_ms: int) -> HttpRefusal:
    at = datetime.fromtimestamp(deleted_at_ms / 1_000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    message = "the session was deleted"
    return HttpRefusal(RouteReply(410, SessionDeleted(session_id=session_id, message=message, deleted_at=at)))


def _not_found(session_id: str, fault: LifebusError) -> HttpRefusal:
    return HttpRefusal(RouteReply(404, SessionNotFound(session_id=session_id, message=fault.detail)))
