"""What the tests of signals share: envelopes, an observer that sends them, and what a follower saw."""

import asyncio
from collections.abc import Sequence
from typing import TypeVar

import msgspec

import lifebus
from lifebus.signals import SignalReceived, Signals
from lifebus_adapters.app_server.reader import Observed, SignalSeen
from lifebus_transports.messages.signals import Observation, Observe, ObserveAnswer, ObservedSignal
from support.patience import PATIENCE_S

T = TypeVar("T", bound=SignalReceived | lifebus.Gap)

EVENT = "app_server.item.agent_message.delta"


def signal(thread: str = "t1", *, event: str = EVENT, size: int = 10, **fields: object) -> ObservedSignal:
    """Return a signal as an observer sends it."""
    envelope = {
        "source": "app_server",
        "signalType": "notification",
        "eventType": event,
        "method": "item/agentMessage/delta",
        "receivedAt": "2026-11-22T04:00:00.000Z",
        "context": {"threadId": thread or None, "turnId": None},
        "params": {"delta": "x" * size},
        "session": None,
        **fields,
    }
    return ObservedSignal(thread=thread, event_type=event, signal=msgspec.json.encode(envelope))


def as_sent(observed: Sequence[Observed]) -> list[ObservedSignal]:
    """Return the signals of what was read of an app-server, as an observer sends them."""
    return [
        ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal)
        for one in observed
        if isinstance(one, SignalSeen)
    ]


class Observer:
    """One run of an observer, which numbers what it sends."""

    def __init__(self, bus: lifebus.Bus, origin: str = "o1", *, adapter: str = "codex") -> None:
        self.next = 1
        self._bus, self._origin, self._adapter = bus, origin, adapter

    async def observe(self, *observations: Observation) -> int:
        """Send one batch and return through which number the broker has it."""
        answer = await self.send(self.next, observations)
        self.next += len(observations)
        return answer

    async def send(self, first: int, observations: Sequence[Observation]) -> int:
        """Send a batch with this first number, which may be one that was sent before."""
        body = Observe(
            client_id="test",
            adapter_id=self._adapter,
            origin=self._origin,
            first=first,
            observations=tuple(observations),
        )
        async with asyncio.timeout(PATIENCE_S):
            answer = await self._bus._connection.ask("observe", body, ObserveAnswer, timeout=PATIENCE_S)
        return answer.through


async def take_signals(signals: Signals[T], many: int) -> list[T]:
    """Return the next so many items."""
    async with asyncio.timeout(PATIENCE_S):
        return [await anext(signals) for _ in range(many)]


async def drain_signals(signals: Signals[T]) -> list[T]:
    """Return every item of a follower that ends."""
    async with asyncio.timeout(PATIENCE_S):
        return [item async for item in signals]


def places(items: Sequence[SignalReceived | lifebus.Gap]) -> dict[str, list[int | str]]:
    """Return what was seen of each thread: sequences, and the reasons of gaps."""
    found: dict[str, list[int | str]] = {}
    for item in items:
        what = item.reason if isinstance(item, lifebus.Gap) else item.sequence
        found.setdefault(item.thread or "", []).append(what)
    return found
