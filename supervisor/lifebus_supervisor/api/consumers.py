"""The verbs of named consumers, and which connection consumes which name (docs/consuming.md).

Only one connection consumes a name: the newest one.  A connection that is silent for longer than its lease loses
it, and what it held is delivered again.
"""

from collections.abc import Awaitable, Callable, Collection, Hashable
from functools import partial
from typing import Any, Final

import structlog
from msgspec import Struct

from lifebus_broker.consumers.consumer import Consumer
from lifebus_broker.consumers.table import ConsumerTable
from lifebus_broker.routing.fan_out import Fanout
from lifebus_contract import StateConflict, TransportError
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.fields import Document
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers, closed_is_busy
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

_MAX_TURNED_AWAY: Final = 1024

_log = structlog.get_logger("lifebus.consumers")


class _ConsumerLease(Struct):
    """The connection that consumes a name, with the body of its `consume`, and the time of its last call."""

    peer: Hashable
    body: Consume
    seen: float


class Consumers:
    """Serves the verbs of named consumers.  `now` is the monotonic clock, in seconds."""

    def __init__(self, table: ConsumerTable, now: Callable[[], float]) -> None:
        self._table, self._now = table, now
        self._leases: dict[str, _ConsumerLease] = {}
        self._turned_away: dict[tuple[Hashable, str], str] = {}

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        served: dict[str, Callable[[Hashable, Any], Awaitable[object]]] = {
            "consume": self._consume,
            "fetch": self._fetch,
            "ack": self._ack,
            "nack": self._nack,
            "release": self._release,
            "cursors": self._list,
            "reset": self._reset,
            "evict": self._evict,
            "letters": self._dead_letters,
        }
        return {verb: partial(_serve, work) for verb, work in served.items()}

    async def open(self, fanout: Fanout) -> None:
        """Read the consumers from the journal, and have new receipts wake them.

        Raises:
            LifebusError: the journal cannot be read.
        """
        await self._table.load()
        fanout.listen(self._table.on_commit)

    async def skip_pruned(self) -> list[str]:
        """Move consumers that are behind past what was pruned; return the names that lost something by it.

        Raises:
            LifebusError: the ledger cannot be read now.
        """
        return await self._table.skip_pruned()

    def describe(self) -> tuple[ConsumerInfo, ...]:
        """Return every consumer."""
        return tuple(self._info(consumer) for consumer in self._table.all())

    def sweep(self) -> None:
        """Release what connections held that were silent for longer than their lease."""
        overdue = self._now() - LEASE_S
        for name in [name for name, lease in self._leases.items() if lease.seen < overdue]:
            self._drop(name, "silent")

    async def _consume(self, peer: Hashable, body: Consume) -> ConsumerInfo:
        name = body.cursor
        self._refuse_turned_away(peer, name)
        # A body that changed means other settings, which the table has to check and record.
        lease = self._leases.get(name)
        consumer = self._table.find(name)
        if consumer is None or lease is None or lease.peer != peer or lease.body != body:
            consumer = await self._attach(peer, body)
        self._leases[name].seen = self._now()
        return self._info(consumer)

    async def _attach(self, peer: Hashable, body: Consume) -> Consumer:
        """Make the connection the one that consumes."""
        after = body.after
        if after is None and body.since_epoch_s is not None:
            after = await self._table.position_at(body.since_epoch_s)
        consumer = await self._table.open(
            body.cursor, body.settings, client_id=body.client_id, epoch=body.epoch, after=after
        )
        # Read after the awaits above: another connection may have attached meanwhile.
        lease = self._leases.get(body.cursor)
        if lease is not None and lease.peer != peer:
            self._turn_away(lease.peer, body.cursor, "another connection consumes it now")
            self._drop(body.cursor, "replaced")
        self._leases[body.cursor] = _ConsumerLease(peer, body, self._now())
        _log.info("consumer_attached", cursor=body.cursor, client_id=body.client_id)
        return consumer

    async def _fetch(self, peer: Hashable, body: Fetch) -> FetchAnswer:
        consumer = self._held(peer, body.cursor)
        # The fetch may wait for longer than the lease; its answer renews that.
        fetched = await consumer.fetch(body.limit, body.wait_ms / 1000)
        self._touch(peer, body.cursor)
        return FetchAnswer(
            epoch=fetched.epoch,
            deliveries=tuple(
                Delivered(stored.position, stored.sequence, attempt, stored.receipt)
                for stored, attempt in fetched.items
            ),
            lost=fetched.gap,
        )

    async def _ack(self, peer: Hashable, body: Ack) -> AckAnswer:
        consumer = self._held(peer, body.cursor)
        return AckAnswer(settled=await consumer.acknowledge(body.epoch, body.positions, body.through))

    async def _nack(self, peer: Hashable, body: Nack) -> AckAnswer:
        delay = None if body.delay_ms is None else body.delay_ms / 1000
        return AckAnswer(settled=self._held(peer, body.cursor).nack(body.epoch, body.positions, delay))

    async def _release(self, peer: Hashable, body: Release) -> Nothing:
        # A connection that leaves in order may consume the name again later.
        self._turned_away.pop((peer, body.cursor), None)
        lease = self._leases.get(body.cursor)
        if lease is not None and lease.peer == peer:
            self._drop(body.cursor, "left", body.unseen)
        return Nothing()

    async def _list(self, _: Hashable, body: ConsumersQuery) -> tuple[ConsumerInfo, ...]:
        if body.cursor is not None:
            return (self._info(self._table.require(body.cursor)),)
        return self.describe()

    async def _reset(self, _: Hashable, body: ResetConsumer) -> ConsumerInfo:
        # 2**53 lies beyond every position, so that the table takes the head.
        return self._info(await self._table.reset(body.cursor, 2**53 if body.after is None else body.after))

    async def _evict(self, _: Hashable, body: EvictConsumer) -> Nothing:
        await self._table.evict(body.cursor)
        lease = self._leases.pop(body.cursor, None)
        if lease is not None:
            self._turn_away(lease.peer, body.cursor, "it was evicted")
        return Nothing()

    async def _dead_letters(self, _: Hashable, body: DeadLettersQuery) -> DeadLettersAnswer:
        letters, complete = await self._table.dead_letters(body.cursor, body.after, body.limit)
        return DeadLettersAnswer(letters=tuple(letters), complete=complete)

    def _held(self, peer: Hashable, name: str) -> Consumer:
        """Return the consumer, if this connection is the one that consumes it.

        Raises:
            StateConflict: another connection does, or it was evicted.
            TransportError: this connection does not consume it, or was silent for too long.
        """
        self._refuse_turned_away(peer, name)
        self._touch(peer, name)
        lease = self._leases.get(name)
        if lease is None or lease.peer != peer:
            raise TransportError(
                f"this connection does not consume `{name[:64]}`; ask `consume` first", code="detached"
            )
        return self._table.require(name)

    def _refuse_turned_away(self, peer: Hashable, name: str) -> None:
        reason = self._turned_away.get((peer, name))
        if reason is not None:
            raise StateConflict(f"consumer `{name[:64]}`: {reason}", code="replaced")

    def _touch(self, peer: Hashable, name: str) -> None:
        lease = self._leases.get(name)
        if lease is not None and lease.peer == peer:
            lease.seen = self._now()

    def _turn_away(self, peer: Hashable, name: str, reason: str) -> None:
        self._turned_away[peer, name] = reason
        # Bounded, because connections come and go for as long as the broker runs; the oldest is most likely gone.
        while len(self._turned_away) > _MAX_TURNED_AWAY:
            del self._turned_away[next(iter(self._turned_away))]

    def _drop(self, name: str, reason: str, unseen: Collection[int] = ()) -> None:
        del self._leases[name]
        consumer = self._table.find(name)
        if consumer is not None:
            consumer.release(unseen)
        _log.info("consumer_gone", cursor=name, why=reason)

    def _info(self, consumer: Consumer) -> ConsumerInfo:
        return consumer.describe(attached=consumer.name in self._leases)


async def _serve(work: Callable[[Hashable, Any], Awaitable[object]], call: Call, body: Document) -> object:
    with closed_is_busy():
        return await work(call.peer.identity, body)
