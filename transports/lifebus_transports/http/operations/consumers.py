"""The routes of named consumers: how they stand, what they gave up, a new place for one; and of callback clients."""

from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from lifebus_contract import LifebusError, LifecycleEvent
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.fields import Count, Document, Identifier
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import GatewayPeer, OperatorPeer
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.consumers import ConsumersQuery, DeadLettersAnswer, DeadLettersQuery, ResetConsumer
from lifebus_transports.messages.workers import ClientInfo


class ConsumerPlace(Struct, frozen=True, kw_only=True):
    """A named consumer."""

    name: Identifier


class ResetBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Behind which position it begins again; without one, with what comes from now on."""

    after: Count | None = None


class ConsumerItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a named consumer stands.

    Everything up to `position` is settled; `lag` counts the positions from there to `head`.  `open` receipts are
    delivered and not settled; `dead` counts its dead letters; `lost` says that there is a gap which it has not
    acknowledged.
    """

    name: str
    client_id: str
    attached: bool
    fetching: bool
    position: int
    head: int
    lag: int
    open: int
    in_flight: int
    dead: int
    lost: bool


class ConsumersAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The named consumers."""

    status: Literal["ok"] = OK
    data: tuple[ConsumerItem, ...]


class ConsumerReset(Struct, frozen=True, kw_only=True, rename="camel"):
    """The consumer in its new place."""

    status: Literal["ok"] = OK
    consumer: ConsumerItem


class ConsumerNotFound(Struct, frozen=True, kw_only=True):
    """There is no such consumer."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_cursor"] = "no_cursor"
    name: str
    message: str


class ClientItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A callback client that is registered now; without `adapters` it takes part in the dispatches of all."""

    client_id: str
    kind: str
    events: tuple[LifecycleEvent, ...]
    adapters: tuple[str, ...]
    deadline_ms: int
    dispatched: int
    failed: int
    background: bool


class ClientsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """The callback clients."""

    status: Literal["ok"] = OK
    data: tuple[ClientItem, ...]


class LettersQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Those with a number above `after`."""

    after: Count = 0
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class LetterItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A receipt that is not tried any more; `receipt` is null where the ledger had dropped it.

    `epoch` is the history that `position` belongs to, `atMs` when it was given up, in milliseconds since 1970.
    """

    number: int
    at_ms: int
    epoch: str
    position: int
    tries: int
    receipt: msgspec.Raw | None


class LettersAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Dead letters of a consumer, the oldest first; `complete` says that there are no more."""

    status: Literal["ok"] = OK
    data: tuple[LetterItem, ...]
    complete: bool


OPERATIONS = (
    Operation(
        name="consumers",
        method="GET",
        path="/api/consumers",
        summary="Lists the named consumers and how far behind they are.",
        tag="consumers",
        answers={200: ConsumersAnswer},
    ),
    Operation(
        name="resetConsumer",
        method="POST",
        path="/api/consumers/{name}/reset",
        summary="Has a named consumer begin again at a position.",
        tag="consumers",
        place=ConsumerPlace,
        body=ResetBody,
        answers={200: ConsumerReset, 404: ConsumerNotFound, 409: ErrorBody},
    ),
    Operation(
        name="clients",
        method="GET",
        path="/api/clients",
        summary="Lists the callback clients that are registered now.",
        tag="consumers",
        answers={200: ClientsAnswer},
    ),
    Operation(
        name="deadLetters",
        method="GET",
        path="/api/consumers/{name}/dead-letters",
        summary="Lists the receipts that a named consumer did not settle, however often they were tried.",
        tag="consumers",
        place=ConsumerPlace,
        query=LettersQuery,
        answers={200: LettersAnswer, 404: ConsumerNotFound},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"consumers": _list, "resetConsumer": _reset, "clients": _clients, "deadLetters": _letters}


async def _list(asked: RouteRequest) -> ConsumersAnswer:
    found: list[ConsumerInfo] = await asked.calls.call(asked.peer, "cursors", ConsumersQuery())
    return ConsumersAnswer(data=tuple(map(_item, found)))


async def _clients(asked: RouteRequest) -> ClientsAnswer:
    found: list[ClientInfo] = await asked.calls.call(asked.peer, "clients", Nothing())
    return ClientsAnswer(
        data=tuple(
            ClientItem(
                client_id=one.client_id,
                kind=one.kind,
                events=one.events,
                adapters=one.adapters,
                deadline_ms=one.deadline_ms,
                dispatched=one.dispatched,
                failed=one.failed,
                background=one.background,
            )
            for one in found
        )
    )


async def _letters(asked: RouteRequest) -> LettersAnswer:
    query: LettersQuery = asked.query
    body = partial(DeadLettersQuery, after=query.after, limit=query.limit)
    found: DeadLettersAnswer = await _ask(asked, asked.peer, "letters", body)
    items = (
        LetterItem(
            number=one.number,
            at_ms=one.at_epoch_s * 1_000,
            epoch=one.epoch,
            position=one.position,
            tries=one.tries,
            receipt=None if one.receipt is None else msgspec.Raw(one.receipt),
        )
        for one in found.letters
    )
    return LettersAnswer(data=tuple(items), complete=found.complete)


async def _reset(asked: RouteRequest) -> ConsumerReset:
    body: ResetBody = asked.body
    # The token is the proof that the caller may do to consumers what their owner does.
    info: ConsumerInfo = await _ask(asked, OperatorPeer(), "reset", partial(ResetConsumer, after=body.after))
    return ConsumerReset(consumer=_item(info))


async def _ask(asked: RouteRequest, peer: GatewayPeer, verb: str, body: Callable[..., Document]) -> Any:
    """Return the answer to a verb about the consumer of the address.

    Raises:
        HttpRefusal: its name does not fit, or there is no such consumer.
    """
    name: str = asked.place.name
    try:
        wanted = body(cursor=name)
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the name does not fit", (str(fault)[:512],))) from None
    try:
        return await asked.calls.call(peer, verb, wanted)
    except LifebusError as fault:
        if fault.code != "no_cursor":
            raise
        raise HttpRefusal(RouteReply(404, ConsumerNotFound(name=name, message=fault.detail))) from None


def _item(info: ConsumerInfo) -> ConsumerItem:
    return ConsumerItem(
        name=info.cursor,
        client_id=info.client_id,
        attached=info.attached,
        fetching=info.fetching,
        position=info.position,
        head=info.head,
        lag=info.lag,
        open=info.open,
        in_flight=info.in_flight,
        dead=info.dead,
        lost=info.lost,
    )
