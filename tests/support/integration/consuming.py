"""What the tests of named consumers share: emit, take deliveries, look at a cursor."""

import asyncio
import contextlib
from collections.abc import Iterable

import lifebus
from lifebus import Deliveries, Delivery
from lifebus_contract.consumers import ConsumerInfo
from support.patience import PATIENCE_S


async def emitted(bus: lifebus.Bus, count: int, *, sessions: int = 1, adapter: str = "codex") -> None:
    """Record `count` receipts, going round the sessions s0, s1 …"""
    await bus.emit(
        [lifebus.make_request("session.started", adapter, session=f"s{number % sessions}") for number in range(count)]
    )


async def take(deliveries: Deliveries[Delivery | lifebus.Gap], count: int) -> list[Delivery]:
    """Return the next so many deliveries; a gap, or fewer within the deadline, fails the test."""
    found: list[Delivery] = []
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while len(found) < count:
                item = await anext(deliveries)
                assert isinstance(item, Delivery), item
                found.append(item)
    assert len(found) == count
    return found


async def take_gap(deliveries: Deliveries[Delivery | lifebus.Gap]) -> lifebus.Gap:
    """Return the next item, which is a gap."""
    async with asyncio.timeout(PATIENCE_S):
        item = await anext(deliveries)
    assert isinstance(item, lifebus.Gap), item
    return item


async def nothing_comes(deliveries: Deliveries[Delivery | lifebus.Gap]) -> None:
    """Wait a moment in which no delivery comes."""
    try:
        async with asyncio.timeout(0.15):
            item = await anext(deliveries)
    except TimeoutError:
        return
    raise AssertionError(item)


async def standing(bus: lifebus.Bus, name: str = "n") -> ConsumerInfo:
    """Return how a cursor stands."""
    (info,) = await bus.cursors.standing(name)
    return info


def places(deliveries: Iterable[Delivery]) -> list[tuple[int, int]]:
    """Return position and attempt of each."""
    return [(one.position, one.attempt) for one in deliveries]
