"""What the tests of following and recording share: emit, take, compare, lose."""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any, TypeVar

import lifebus
from lifebus.client import Emitted
from lifebus_broker.ports import Query
from lifebus_contract import CallbackRequest, Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.zmq.receipts import ReceiptPublisher
from support.patience import PATIENCE_S

T = TypeVar("T", bound=Receipt | lifebus.Gap)


def frame(session: str | None = "s1", *, adapter: str = "codex", **fields: Any) -> CallbackRequest:
    """Return a request that no default client wants, with fresh ids."""
    return lifebus.make_request("session.started", adapter, session=session, **fields)


async def emit(bus: lifebus.Bus, *sessions: str) -> list[Emitted]:
    """Record one fact a session named, in one call."""
    return await bus.emit([frame(session) for session in sessions])


async def take(subscription: lifebus.Subscription[T], many: int) -> list[T]:
    """Return the next so many items; fewer within the deadline fail the test."""
    found: list[T] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < many:
                found.append(await anext(subscription))
    assert len(found) == many
    return found


async def drain(subscription: lifebus.Subscription[T]) -> list[T]:
    """Return every item of a subscription that ends."""
    async with asyncio.timeout(PATIENCE_S):
        return [item async for item in subscription]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until a condition holds, within the deadline."""
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110  what is waited for raises no event
            await asyncio.sleep(0.001)


async def joined(*subscriptions: lifebus.Subscription[Receipt | lifebus.Gap]) -> None:
    """Wait until subscriptions that are being read have joined: then they know their place."""
    await until(lambda: all(one.cursor is not None for one in subscriptions))


async def recorded(daemon: Daemon, session: tuple[str, str] | None = None) -> list[Receipt]:
    """Return what the ledger holds."""
    stored: list[Receipt] = []
    query = Query(after=daemon.bus.ledger.status().floor, session=session)
    while True:
        page = await daemon.bus.ledger.read(query)
        stored.extend(decode_receipt(one.receipt) for one in page.stored)
        if page.complete:
            return stored
        query = Query(after=page.next, session=session)


def ids(items: Sequence[Receipt | lifebus.Gap]) -> list[str]:
    """Return the receipt ids; a gap stands as its reason."""
    return [item.reason if isinstance(item, lifebus.Gap) else item.receipt_id for item in items]


def lose_every(publisher: ReceiptPublisher, nth: int, *, beacons: bool = False) -> None:
    """Let a door lose every nth message of each kind; markers and, unless asked for, beacons pass."""
    send, numbers = publisher._send, defaultdict[bytes, Iterator[int]](lambda: count(1))
    losable = (b"a/", b"r/", b"s/", b"h/", b"hs/") if beacons else (b"a/", b"r/", b"s/")

    def lossy(topic: bytes, epoch: str, body: bytes) -> None:
        if not topic.startswith(losable) or next(numbers[topic.split(b"/")[0]]) % nth:
            send(topic, epoch, body)

    publisher._send = lossy  # type: ignore[method-assign]  # a door that loses is the point
