"""Kill -9 of a broker that web clients follow: what was answered reaches each of them, once and in order.

The oracle is what the writers were answered, and what plain sockets read; nothing of the gateway's code is asked.
"""

import asyncio
import contextlib
import os
import random
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_contract import LifebusError
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from support.broker_process import BrokerProcess, broker_process
from support.effort import effort
from support.integration.observing import Observer, signal
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transports.cut_clients import CutClient, CutEvents, CutSocket
from support.transports.gateway import Address

CYCLES = effort(4, 150)
WRITES_A_CYCLE = (10, 80)
LONGEST_S = 0.01
SESSION = "t1"
TOPICS = f"topic=receipts&topic=transcript/{SESSION}&from=oldest"
LAST = "last"
SETTINGS = {
    "LIFEBUS_GATEWAY_ENABLED": "true",
    "LIFEBUS_TICKS_ENABLED": "false",
    "LIFEBUS_TELEMETRY_ENABLED": "false",
}


class Receipts:
    """Records receipts one by one; one of unknown fate is sent again, under its key."""

    def __init__(self) -> None:
        self.answered: list[str] = []
        self._pending: Any = None

    async def write(self, bus: lifebus.Bus, session: str = "s") -> None:
        self._pending = self._pending or lifebus.make_request("session.started", "codex", session=session)
        made = await bus.emit(self._pending)
        self.answered += [receipt.receipt_id for receipt in made.receipts]
        self._pending = None


class Entries:
    """Changes one entry again and again; a change of unknown fate is made again, which changes nothing then."""

    def __init__(self) -> None:
        self.answered: list[str] = []

    async def write(self, bus: lifebus.Bus, content: str | None = None) -> None:
        entry = TranscriptEntry(
            message_id="m",
            turn_id="t",
            role=EntryRole.USER,
            type="note",
            content=content or f"{len(self.answered)}",
            status=EntryStatus.STREAMING,
        )
        await bus.transcripts.upsert(SESSION, entry)
        self.answered.append(entry.content)


class Follower:
    """A web client that is cut now and then, and goes on with its last id whatever happens to the broker."""

    def __init__(self, kind: type[CutClient], chance: random.Random) -> None:
        self.address: Address | None = None
        """Where the broker is, while it is anywhere: its old port may be somebody else's."""
        self.receipts: list[tuple[int, str]] = []
        self.contents: list[str] = []
        self.resumes: list[str] = []
        self._kind, self._chance = kind, chance
        self._last: str | None = None
        self._ends = 0
        self._stop = threading.Event()

    def follow(self) -> None:
        """Follow until the last record of both topics came."""
        while self._ends < 2 and not self._stop.is_set():
            address = self.address
            if address is None:
                self._stop.wait(0.005)
                continue
            with contextlib.suppress(OSError):  # the broker was killed
                self._follow_once(address)

    def stop(self) -> None:
        self._stop.set()

    def _follow_once(self, address: Address) -> None:
        last = {} if self._last is None else {"Last-Event-ID": self._last}
        path = "/api/stream" if self._kind is CutSocket else "/api/events"
        client = self._kind(address.port, f"{path}?{TOPICS}", {**address.bearer, **last})  # type: ignore[call-arg]
        with contextlib.closing(client):
            until = self._chance.choice([self._chance.randint(1, 3_000), 100_000])
            while not client.ended and client.taken < until and self._ends < 2 and not self._stop.is_set():
                for frame in client.read_exactly(min(1_000, until - client.taken), 0.5):
                    self._take(frame)

    def _take(self, frame: dict[str, Any]) -> None:
        payload = frame.get("payload", {})
        if frame["type"] == "ready":
            self.resumes.append(payload["resume"])
        elif frame["type"] == "receipt":
            self.receipts.append((payload["position"], payload["receipt"]["receipt_id"]))
            self._ends += frame["threadId"] == LAST
        elif frame["type"] == "transcript_updated":
            self.contents.append(payload["entry"]["content"])
            self._ends += payload["entry"]["content"] == LAST
        else:
            assert frame["type"] == "cursor", frame
        self._last = frame["id"]


async def kill_amid_writes(
    broker: BrokerProcess, writers: Sequence[Receipts | Entries], writes: int, chance: random.Random
) -> None:
    """Let everybody write until so much is answered, and then, within some moments, kill."""
    enough = anyio.Event()

    async def write(bus: lifebus.Bus, writer: Receipts | Entries) -> None:
        nonlocal writes
        with contextlib.suppress(LifebusError):  # the broker was killed
            while True:
                await writer.write(bus)
                writes -= 1
                if writes <= 0:
                    enough.set()

    async with (
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        anyio.create_task_group() as tasks,
    ):
        for writer in writers:
            tasks.start_soon(write, bus, writer)
        await enough.wait()
        with anyio.move_on_after(chance.uniform(0, LONGEST_S)):
            await anyio.sleep_forever()
        await broker.kill()
        tasks.cancel_scope.cancel()


@asynccontextmanager
async def followed_broker(directory: Path, followers: Sequence[Follower]) -> AsyncIterator[BrokerProcess]:
    """A broker whose followers know where it is, until it is gone."""
    async with broker_process(directory, **SETTINGS) as broker:
        for one in followers:
            one.address = Address.of(broker.runtime_dir)
        yield broker
        for one in followers:
            one.address = None


async def kill_again_and_again(
    directory: Path, receipts: Receipts, entries: Entries, followers: Sequence[Follower], chance: random.Random
) -> None:
    following = [asyncio.create_task(asyncio.to_thread(one.follow)) for one in followers]
    for number in range(CYCLES):
        async with followed_broker(directory, followers) as broker:
            if number == 0:
                async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                    await Observer(bus).observe(signal(SESSION))  # so that the session is known
            await kill_amid_writes(broker, (receipts, entries), chance.randint(*WRITES_A_CYCLE), chance)
    async with (
        followed_broker(directory, followers) as broker,
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
    ):
        for writer in (receipts, entries):
            await writer.write(bus)
            await writer.write(bus, LAST)
        with anyio.fail_after(PATIENCE_S):
            await asyncio.gather(*following)


@pytest.mark.slow
async def test_kills_lose_nothing_that_was_answered_for_web_clients_and_double_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    receipts, entries = Receipts(), Entries()
    with short_directory() as directory:
        followers = [Follower(kind, random.Random(chance.random())) for kind in (CutSocket, CutEvents)]
        try:
            await kill_again_and_again(directory, receipts, entries, followers, chance)
        finally:
            for one in followers:
                one.stop()
    for one in followers:
        # Dense numbers, each with the receipt that was answered under it.
        assert one.receipts == list(enumerate(receipts.answered, 1))
        assert one.contents == entries.answered
        assert one.resumes[0] == "none"
        assert set(one.resumes[1:]) <= {"complete"}
    record_property("kills", CYCLES)
    record_property("receipts and changes", len(receipts.answered) + len(entries.answered))
    record_property("connections", sum(len(one.resumes) for one in followers))
