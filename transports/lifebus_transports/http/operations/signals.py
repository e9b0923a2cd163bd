"""The routes that read the signals of app-servers."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract.fields import Count, Identifier
from lifebus_transports.http.operations.operation import OK, Operation, RouteRequest, Served
from lifebus_transports.messages.signals import SignalBackfill, SignalPage, ThreadHeads, ThreadsQuery

_Thread = Annotated[str, Meta(max_length=256)]


class AdapterPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """The adapter of an app-server."""

    adapter_id: Identifier


class SignalsQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which signals: those of a thread after a number; the thread with no name is the process itself."""

    thread: _Thread = ""
    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=1024)] = 256
    epoch: Annotated[str, Meta(max_length=128)] | None = None


class SignalItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """One signal: its number in its thread, its event, its envelope."""

    sequence: int
    event_type: str
    signal: msgspec.Raw


class SignalsPage(Struct, frozen=True, kw_only=True, rename="camel"):
    """Signals in order, complete up to `next`; with `snapshotRequired` those up to `floor` are gone."""

    status: Literal["ok"] = OK
    epoch: str
    items: tuple[SignalItem, ...]
    next: int
    head: int
    floor: int
    complete: bool
    snapshot_required: bool
    deleted: bool


class ThreadStanding(Struct, frozen=True, kw_only=True, rename="camel"):
    """Where a thread stands: its newest number, and the last one that is no longer kept."""

    thread: str
    head: int
    floor: int


class ThreadsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The threads of an adapter."""

    status: Literal["ok"] = OK
    epoch: str
    data: tuple[ThreadStanding, ...]


OPERATIONS = (
    Operation(
        name="signals",
        method="GET",
        path="/api/signals/{adapterId}",
        summary="Returns a page of the signals of a thread.",
        tag="signals",
        place=AdapterPlace,
        query=SignalsQuery,
        answers={200: SignalsPage},
    ),
    Operation(
        name="threads",
        method="GET",
        path="/api/signals/{adapterId}/threads",
        summary="Lists the threads of an adapter.",
        tag="signals",
        place=AdapterPlace,
        answers={200: ThreadsAnswer},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"signals": _signals, "threads": _threads}


async def _signals(asked: RouteRequest) -> SignalsPage:
    query: SignalsQuery = asked.query
    page: SignalPage = await asked.calls.call(
        asked.peer,
        "signals",
        SignalBackfill(
            adapter_id=asked.place.adapter_id,
            thread=query.thread,
            epoch=query.epoch,
            after=query.after,
            limit=query.limit,
        ),
    )
    return SignalsPage(
        epoch=page.epoch,
        items=tuple(
            SignalItem(sequence=row.sequence, event_type=row.event_type, signal=msgspec.Raw(row.signal))
            for row in page.rows
        ),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        snapshot_required=page.snapshot_required,
        deleted=page.deleted,
    )


async def _threads(asked: RouteRequest) -> ThreadsAnswer:
    found: ThreadHeads = await asked.calls.call(asked.peer, "threads", ThreadsQuery(adapter_id=asked.place.adapter_id))
    return ThreadsAnswer(
        epoch=found.epoch,
        data=tuple(ThreadStanding(thread=one.thread, head=one.head, floor=one.floor) for one in found.threads),
    )
