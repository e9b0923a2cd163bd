"""The route that lists sessions: which project each is in, what happened in it, and for whom it waits."""

from functools import partial
from typing import Literal

from msgspec import Struct

from lifebus_contract import LifecycleEvent, PressureLevel, ReceiptStatus
from lifebus_contract.fields import Identifier
from lifebus_contract.views import SessionHead, Wait
from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.http.operations.receipts import whole_session
from lifebus_transports.http.ports import KindOf
from lifebus_transports.messages.reads import SessionsQuery


class SessionsFilter(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One session of an adapter, or all of them without both; with `waiting`, those that wait for a person.

    Those of the broker's own workers are left out of the list unless they are asked for.
    """

    adapter: Identifier | None = None
    session: Identifier | None = None
    waiting: bool = False
    include_system_owned: bool = False


class WaitItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a session waits for a person to do (docs/waiting.md).

    `waitingFor` is ``permission``, ``input`` or ``idle``, `sinceMs` in milliseconds since 1970.  `kind` is a tool's
    name or the kind of a question; `nested` says that a sub-agent waits.
    """

    waiting_for: str
    since_ms: int
    kind: str | None
    frame_id: str | None
    nested: bool
    request_id: str | None


class SessionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that the ledger knows (docs/sessions.md).

    `sequence` is the number of its newest receipt; times are in milliseconds since 1970.  From `name` to `waiting` all
    is null where the broker keeps no state of sessions.
    """

    adapter_id: str
    session_id: str
    sequence: int
    receipts: int
    started_at_ms: int
    last_at_ms: int
    last_event: LifecycleEvent
    last_status: ReceiptStatus
    ended: bool
    open_frames: tuple[str, ...]
    name: str | None
    cwd: str | None
    git_branch: str | None
    title: str | None
    turns: int | None
    subagents: int | None
    compactions: int | None
    failures: int | None
    pressure: PressureLevel | None
    used_pct: int | None
    used_tokens: int | None
    waiting: tuple[WaitItem, ...] | None


class SessionsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The sessions of the ledger that were not deleted, in the order of their newest receipts."""

    status: Literal["ok"] = OK
    data: tuple[SessionItem, ...]


OPERATIONS = (
    Operation(
        name="sessions",
        method="GET",
        path="/api/sessions",
        summary="Lists the sessions of which there are receipts.",
        tag="receipts",
        query=SessionsFilter,
        answers={200: SessionsAnswer},
    ),
)


def served(kind_of: KindOf) -> Served:
    """Return what serves the operation; `kind_of` says which sessions are left out of the list."""
    return {"sessions": partial(_sessions, kind_of)}


async def _sessions(kind_of: KindOf, asked: RouteRequest) -> SessionsAnswer:
    query: SessionsFilter = asked.query
    wanted = SessionsQuery(session=await whole_session(asked.calls, query.adapter, query.session))
    hidden = {"deleted"} if query.include_system_owned or query.session else {"deleted", "system"}
    heads: list[SessionHead] = await asked.calls.call(asked.peer, "sessions", wanted)
    return SessionsAnswer(
        data=tuple(
            _item(one)
            for one in heads
            if kind_of(one.harness_session_id) not in hidden and (one.waiting or not query.waiting)
        )
    )


def _item(head: SessionHead) -> SessionItem:
    return SessionItem(
        adapter_id=head.adapter_id,
        session_id=head.harness_session_id,
        sequence=head.sequence,
        receipts=head.receipts,
        started_at_ms=head.started_at_epoch_s * 1_000,
        last_at_ms=head.last_at_epoch_s * 1_000,
        last_event=head.last_event,
        last_status=head.last_status,
        ended=head.ended,
        open_frames=head.open_frames,
        name=head.name,
        cwd=head.cwd,
        git_branch=head.git_branch,
        title=head.title,
        turns=head.turns,
        subagents=head.subagents,
        compactions=head.compactions,
        failures=head.failures,
        pressure=head.pressure,
        used_pct=head.used_pct,
        used_tokens=head.used_tokens,
        waiting=None if head.waiting is None else tuple(map(_wait, head.waiting)),
    )


def _wait(wait: Wait) -> WaitItem:
    return WaitItem(
        waiting_for=wait.waiting_for,
        since_ms=wait.since_ms,
        kind=wait.kind,
        frame_id=wait.frame_id,
        nested=wait.nested,
        request_id=wait.request,
    )
