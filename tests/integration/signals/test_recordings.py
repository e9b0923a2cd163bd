"""Recordings of the real app-server through the whole bus: what its reader saw is what followers get, once."""

from pathlib import Path

import msgspec
import pytest

from lifebus.observer.stream import AppServerStream
from lifebus.signals import SignalReceived
from lifebus_adapters.app_server.reader import SignalSeen
from lifebus_transports.messages.signals import Observation, ObservedExit, ObservedFact, ObservedSignal
from support.adapters.app_server_recordings import RECORDINGS, chunks_of, feed
from support.integration.observing import Observer, drain_signals, places
from support.running import connected, running_bus


def observations(recording: Path) -> list[Observation]:
    """Return what an observer of this app-server reports, to its end."""
    reader = AppServerStream()
    seen = [*feed(reader, chunks_of(recording)), *reader.close({"exit_code": 0})]
    reported: list[Observation] = [
        ObservedSignal(thread=one.thread or "", event_type=one.event_type, signal=one.signal)
        if isinstance(one, SignalSeen)
        else ObservedFact(fact=msgspec.to_builtins(one.fact))
        for one in seen
    ]
    return [*reported, ObservedExit(exit_code=0)]


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda path: path.stem)
async def test_a_recording_reaches_followers_as_its_reader_saw_it_however_often_it_is_sent(recording: Path) -> None:
    reported = observations(recording)
    wanted: dict[str, list[bytes]] = {}
    for one in reported:
        if isinstance(one, ObservedSignal):
            wanted.setdefault(one.thread, []).append(one.signal)
    async with running_bus() as daemon, connected(daemon) as bus:
        observer = Observer(bus)
        for first in range(1, len(reported) + 1, 7):
            batch = reported[first - 1 : first + 6]
            await observer.send(first, batch)
            await observer.send(first, batch)
        head = daemon.bus.ledger.head
        assert await observer.send(1, reported) == len(reported)
        seen = await drain_signals(bus.signals(since="start", until_head=True))
        assert daemon.bus.ledger.head == head
        assert bool(head) == any(isinstance(one, ObservedFact) for one in reported)
    assert places(seen) == {thread: list(range(1, len(signals) + 1)) for thread, signals in wanted.items()}
    for thread, signals in wanted.items():
        raw = [one.raw for one in seen if isinstance(one, SignalReceived) and one.thread == thread]
        assert raw == signals
