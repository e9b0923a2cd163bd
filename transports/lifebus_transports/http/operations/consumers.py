"""The routes of named consumers: how they stand, and a new place for one (docs/consuming.md)."""

from typing import Literal

from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.fields import Count, Identifier
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import OperatorPeer
from lifebus_transports.messages.consumers import ConsumersQuery, ResetConsumer


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
)


def served() -> Served:
    """Return what serves each operation."""
    return {"consumers": _list, "resetConsumer": _reset}


async def _list(asked: RouteRequest) -> ConsumersAnswer:
    found: list[ConsumerInfo] = await asked.calls.call(asked.peer, "cursors", ConsumersQuery())
    return ConsumersAnswer(data=tuple(map(_item, found)))


async def _reset(asked: RouteRequest) -> ConsumerReset:
    name: str = asked.place.name
    body: ResetBody = asked.body
    try:
        wanted = ResetConsumer(cursor=name, after=body.after)
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the name does not fit", (str(fault)[:512],))) from None
    try:
        # The token is the proof that the caller may do to consumers what their owner does.
        info: ConsumerInfo = await asked.calls.call(OperatorPeer(), "reset", wanted)
    except LifebusError as fault:
        if fault.code != "no_cursor":
            raise
        raise HttpRefusal(RouteReply(404, ConsumerNotFound(name=name, message=fault.detail))) from None
    return ConsumerReset(consumer=_item(info))


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
