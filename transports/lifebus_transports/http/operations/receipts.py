"""The route that reads receipts, page by page."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract import InvalidRequest, LifecycleEvent, ReceiptStatus
from lifebus_contract.fields import Count, Identifier
from lifebus_contract.views import SessionHead
from lifebus_transports.http.following.frames import ReceiptPayload
from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.http.ports import Calls, GatewayPeer
from lifebus_transports.messages.reads import Backfill, BackfillPage, SessionsQuery

_SHOWN: Final = 8
"""Most sessions that a refusal lists."""


class ReceiptsQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which receipts: those after a position, at most so many; `session` is a short name, or an id of an `adapter`.

    `failed` chooses what tells of a failure, `waiting` what says that a session waits for a person or does not any
    more; with `canaries` off those of `lifebus hooks test` are left out.
    """

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256
    epoch: Annotated[str, Meta(max_length=128)] | None = None
    adapter: Identifier | None = None
    session: Identifier | None = None
    event: LifecycleEvent | None = None
    status: ReceiptStatus | None = None
    failed: bool = False
    waiting: bool = False
    canaries: bool = True


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
)


def served() -> Served:
    """Return what serves each operation."""
    return {"receipts": _receipts}


async def whole_session(calls: Calls, adapter: str | None, session: str | None) -> tuple[str, str] | None:
    """Return a session's whole name, None where none is given: of a short name, or of an id that one session has.

    Raises:
        InvalidRequest: no session is called so, or several are.
    """
    if session is None or (adapter is not None and "#" not in session):
        return None if session is None or adapter is None else (adapter, session)
    heads: list[SessionHead] = await calls.call(GatewayPeer(), "sessions", SessionsQuery(forgotten=True))
    near = [one for one in heads if adapter in (None, one.adapter_id)]
    found = [one for one in near if one.name == session] or [one for one in near if one.harness_session_id == session]
    if len(found) == 1:
        return found[0].adapter_id, found[0].harness_session_id
    if found:
        choices = ", ".join(f"{one.name} ({one.adapter_id})" for one in found[-_SHOWN:])
        detail = f"`{session[:64]}` is the id of {len(found)} sessions: {choices}; name the `adapter`, too"
        raise InvalidRequest(detail, code="missing", field="adapter")
    if adapter is not None:  # an id of the harness may look like a short name
        return adapter, session
    detail = f"no session is called `{session[:64]}`; /api/sessions lists them; one that is to come needs its `adapter`"
    raise InvalidRequest(detail, code="no_session", field="session")


async def _receipts(asked: RouteRequest) -> ReceiptsPage:
    query: ReceiptsQuery = asked.query
    session = await whole_session(asked.calls, query.adapter, query.session)
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
            failed=query.failed,
            waiting=query.waiting,
            canaries=query.canaries,
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
