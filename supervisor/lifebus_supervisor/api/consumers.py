"""The verbs of named consumers, and which connection consumes which name (docs/consuming.md).

Only one connection consumes a name: the newest one.  A connection that is silent for longer than its lease is taken
for gone, and what it held is handed out again.
"""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import structlog

from lifebus_broker.consumers.consumer import Consumer
from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.routing.fan_out import Fanout
from lifebus_contract import BrokerBusy, LifebusError, StateConflict, TransportError
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.fields import Document
from lifebus_supervisor.api.workers import LEASE_S
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.consumers import (
    Ack,
    AckAnswer,
    Consume,
    ConsumersQuery,
    DeadLettersAnswer,
    DeadLettersQuery,
    Delivered,
    EvictConsumer,
    Fetch,
    FetchAnswer,
    Nack,
    Release,
    ResetConsumer,
)
from lifebus_transports.zmq.requests import Caller

_MAX_TURNED_AWAY: Final = 1024

_log = structlog.get_logger("lifebus.consumers")

Later = Callable[[str, Callable[[Any], Awaitable[object]], Caller, Document], None]
"""`Service.later`: run what takes its time, and answer with what it returns."""


@dataclass(slots=True)
class _Lease:
    """The connection that consumes a name, on what wish, and when it was heard last."""

    peer: bytes
    wish: Consume
    seen: float


class Consumers:
    """Serves the verbs of named consumers.  `now` is the monotonic clock, in seconds."""

    def __init__(self, cursors: ConsumerTable, later: Later, now: Callable[[], float]) -> None:
        self._cursors, self._later, self._now = cursors, later, now
        self._leases: dict[str, _Lease] = {}
        self._turned_away: dict[tuple[bytes, str], str] = {}

    def verbs(self) -> dict[str, Callable[[Caller, Any], None]]:
        """Return what `Service.extend` takes."""
        served: dict[str, Callable[[bytes, Any], Awaitable[object]]] = {
            "consume": self._consume,
            "fetch": self._fetch,
            "ack": self._ack,
            "nack": self._nack,
            "release": self._release,
            "cursors": self._list,
            "reset": self._reset,
            "evict": self._evict,
            "letters": self._letters,
        }
        return {verb: partial(self._serve, work) for verb, work in served.items()}

    async def open(self, fanout: Fanout) -> None:
        """Read the consumers from the journal, and have new receipts wake them.

        Raises:
            LifebusError: the journal cannot be read.
        """
        await self._cursors.load()
        fanout.listen(self._cursors.on_commit)

    async def skip_pruned(self) -> list[str]:
        """Have those who are behind look at what was dropped; return the names that lost something by it.

        Raises:
            LifebusError: the ledger cannot be read now.
        """
        return await self._cursors.skip_pruned()

    def sweep(self) -> None:
        """Take back what those held who were silent for longer than their lease."""
        overdue = self._now() - LEASE_S
        for name in [name for name, lease in self._leases.items() if lease.seen < overdue]:
            self._drop(name, "silent")

    def _serve(self, work: Callable[[bytes, Any], Awaitable[object]], caller: Caller, body: Document) -> None:
        self._later("cursors", partial(_ask_again_later, partial(work, caller.peer)), caller, body)

    async def _consume(self, peer: bytes, wish: Consume) -> ConsumerInfo:
        name = wish.cursor
        why = self._turned_away.get((peer, name))
        if why is not None:
            raise StateConflict(f"cursor `{name[:64]}`: {why}", code="replaced")
        lease = self._leases.get(name)
        cursor = self._cursors.find(name)
        if cursor is None or lease is None or lease.peer != peer or lease.wish != wish:
            cursor = await self._attach(peer, wish)
        self._leases[name].seen = self._now()
        return self._info(cursor)

    async def _attach(self, peer: bytes, wish: Consume) -> Consumer:
        """Make the connection the one that consumes."""
        after = wish.after
        if after is None and wish.since_epoch_s is not None:
            after = await self._cursors.position_at(wish.since_epoch_s)
        cursor = await self._cursors.open(
            wish.cursor, wish.settings, client_id=wish.client_id, epoch=wish.epoch, after=after
        )
        lease = self._leases.get(wish.cursor)
        if lease is not None and lease.peer != peer:
            self._turn_away(lease.peer, wish.cursor, "another connection consumes it now")
            self._drop(wish.cursor, "replaced")
        self._leases[wish.cursor] = _Lease(peer, wish, self._now())
        _log.info("consumer_attached", cursor=wish.cursor, client_id=wish.client_id)
        return cursor

    async def _fetch(self, peer: bytes, body: Fetch) -> FetchAnswer:
        cursor = self._held(peer, body.cursor)
        dealt = await cursor.fetch(body.limit, body.wait_ms / 1000)
        self._touch(peer, body.cursor)
        return FetchAnswer(
            epoch=dealt.epoch,
            deliveries=tuple(
                Delivered(row.position, row.sequence, attempt, row.receipt) for row, attempt in dealt.items
            ),
            lost=dealt.gap,
        )

    async def _ack(self, peer: bytes, body: Ack) -> AckAnswer:
        cursor = self._held(peer, body.cursor)
        return AckAnswer(settled=await cursor.acknowledge(body.epoch, body.positions, body.through))

    async def _nack(self, peer: bytes, body: Nack) -> AckAnswer:
        delay = None if body.delay_ms is None else body.delay_ms / 1000
        return AckAnswer(settled=self._held(peer, body.cursor).nack(body.epoch, body.positions, delay))

    async def _release(self, peer: bytes, body: Release) -> Nothing:
        self._turned_away.pop((peer, body.cursor), None)
        lease = self._leases.get(body.cursor)
        if lease is not None and lease.peer == peer:
            self._drop(body.cursor, "left", body.unseen)
        return Nothing()

    async def _list(self, _: bytes, body: ConsumersQuery) -> tuple[ConsumerInfo, ...]:
        if body.cursor is not None:
            return (self._info(self._cursors.require(body.cursor)),)
        return tuple(self._info(cursor) for cursor in self._cursors.all())

    async def _reset(self, _: bytes, body: ResetConsumer) -> ConsumerInfo:
        return self._info(await self._cursors.reset(body.cursor, 2**53 if body.after is None else body.after))

    async def _evict(self, _: bytes, body: EvictConsumer) -> Nothing:
        await self._cursors.evict(body.cursor)
        lease = self._leases.pop(body.cursor, None)
        if lease is not None:
            self._turn_away(lease.peer, body.cursor, "it was evicted")
        return Nothing()

    async def _letters(self, _: bytes, body: DeadLettersQuery) -> DeadLettersAnswer:
        letters, complete = await self._cursors.dead_letters(body.cursor, body.after, body.limit)
        return DeadLettersAnswer(letters=tuple(letters), complete=complete)

    def _held(self, peer: bytes, name: str) -> Consumer:
        """Return the consumer, if this connection is the one that consumes it.

        Raises:
            StateConflict: another connection does, or it was evicted.
            TransportError: this connection has not said so, or was silent for too long.
        """
        why = self._turned_away.get((peer, name))
        if why is not None:
            raise StateConflict(f"cursor `{name[:64]}`: {why}", code="replaced")
        self._touch(peer, name)
        lease = self._leases.get(name)
        if lease is None or lease.peer != peer:
            raise TransportError(
                f"this connection does not consume `{name[:64]}`; ask `consume` first", code="detached"
            )
        return self._cursors.require(name)

    def _touch(self, peer: bytes, name: str) -> None:
        lease = self._leases.get(name)
        if lease is not None and lease.peer == peer:
            lease.seen = self._now()

    def _turn_away(self, peer: bytes, name: str, why: str) -> None:
        self._turned_away[peer, name] = why
        while len(self._turned_away) > _MAX_TURNED_AWAY:
            del self._turned_away[next(iter(self._turned_away))]

    def _drop(self, name: str, why: str, unseen: Collection[int] = ()) -> None:
        del self._leases[name]
        cursor = self._cursors.find(name)
        if cursor is not None:
            cursor.release(unseen)
        _log.info("consumer_gone", cursor=name, why=why)

    def _info(self, cursor: Consumer) -> ConsumerInfo:
        return cursor.describe(attached=cursor.name in self._leases)


async def _ask_again_later(work: Callable[[Any], Awaitable[object]], body: Document) -> object:
    """Serve; a ledger that closes is a broker that stops, and the next one may be asked again."""
    try:
        return await work(body)
    except LifebusError as fault:
        if fault.code == "closed":
            raise BrokerBusy("the broker is stopping; try again", code="busy") from None
        raise
