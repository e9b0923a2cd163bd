"""The routes that read receipts and sessions, page by page."""

from functools import partial
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract import InvalidRequest, LifecycleEvent, ReceiptStatus
from lifebus_contract.fields import Count, Identifier
from lifebus_contract.views import SessionHead
from lifebus_transports.http.following.frames import ReceiptPayload
from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.http.ports import KindOf
from lifebus_transports.messages.reads import Backfill, BackfillPage, SessionsQuery


class ReceiptsQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which receipts: those after a position, at most so many; `session` goes with `adapter`."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256
    epoch: Annotated[str, Meta(max_length=128)] | None = None
    adapter: Identifier | None = None
    session: Identifier | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None


class ReceiptsPage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Receipts in order, complete up to `next`.

    With `snapshotRequired`, receipts up to `floor` are gone, or `epoch` is another history: nothing is silently left
    out.  `complete` says that `next` is the newest there is.
    """

    status: Literal["ok"] = OK
    epoch: str
    items: tuple[ReceiptPayload, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool


class SessionsFilter(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """One session of an adapter, or all of them without both.

    Those of the broker's own workers are left out of the list unless they are asked for.
    """

    adapter: Identifier | None = None
    session: Identifier | None = None
    include_system_owned: bool = False


class SessionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A session that the ledger knows: the number of its newest receipt, and how it stands."""

    adapter_id: str
    session_id: str
    sequence: int
    last_event: str
    ended: bool


class SessionsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The sessions of the ledger that were not deleted."""

    status: Literal["ok"] = OK
    data: tuple[SessionItem, ...]


OPERATIONS = (
    Operation(
        name="receipts",
        method="GET",
        path="/api/receipts",
        summary="Returns a page of recorded receipts.",
        tag="receipts",
        query=ReceiptsQuery,
        answers={200: ReceiptsPage},
    ),
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
    """Return what serves each operation; `kind_of` says which sessions are left out of the list."""
    return {"receipts": _receipts, "sessions": partial(_sessions, kind_of)}


def session_pair(adapter: str | None, session: str | None) -> tuple[str, str] | None:
    """Return a session's whole name, None where none is given.

    Raises:
        InvalidRequest: the adapter is missing.
    """
    if session is None:
        return None
    if adapter is None:
        raise InvalidRequest("`session` is a session of an adapter: name that, too", code="missing", field="adapter")
    return adapter, session


async def _receipts(asked: RouteRequest) -> ReceiptsPage:
    query: ReceiptsQuery = asked.query
    session = session_pair(query.adapter, query.session)
    page: BackfillPage = await asked.calls.call(
        asked.peer,
        "backfill",
        Backfill(
            epoch=query.epoch,
            after=query.after,
            limit=query.limit,
            adapter_id=query.adapter,
            session=session,
            event=query.event,
            status=query.status,
        ),
    )
    return ReceiptsPage(
        epoch=page.epoch,
        items=tuple(
            ReceiptPayload(position=row.position, sequence=row.sequence, receipt=msgspec.Raw(row.receipt))
            for row in page.rows
        ),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        snapshot_required=page.snapshot_required,
    )


async def _sessions(kind_of: KindOf, asked: RouteRequest) -> SessionsAnswer:
    query: SessionsFilter = asked.query
    wanted = SessionsQuery(session=session_pair(query.adapter, query.session))
    hidden = {"deleted"} if query.include_system_owned or query.session else {"deleted", "system"}
    heads: list[SessionHead] = await asked.calls.call(asked.peer, "sessions", wanted)
    return SessionsAnswer(
        data=tuple(
            SessionItem(
                adapter_id=one.adapter_id,
                session_id=one.harness_session_id,
                sequence=one.sequence,
                last_event=one.last_event,
                ended=one.ended,
            )
            for one in heads
            if kind_of(one.harness_session_id) not in hidden
        )
    )
