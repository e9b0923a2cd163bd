"""Kill -9 of a broker and of the web clients that follow everything there is over one connection each.

The oracle is the ledger's file, read as a database by plain SQL; a client has every record of it once and in order.
"""

import contextlib
import json
import os
import random
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import anyio
import msgpack
import pytest

import lifebus
from lifebus_contract import LifebusError
from lifebus_contract.jobs import NewJob
from support.broker_process import BrokerProcess, broker_process, until
from support.effort import effort
from support.integration.observing import Observer, signal
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transcripts.boxes import entry
from support.transports.written_follower import WrittenFollower

CYCLES = effort(4, 150)
WRITES_A_CYCLE = (20, 80)
LONGEST_S = 0.01
KINDS = ("socket", "batch", "events")
SESSIONS = ("t1", "t2")
SETTINGS = {
    "LIFEBUS_GATEWAY_ENABLED": "true",
    "LIFEBUS_TICKS_ENABLED": "false",
    "LIFEBUS_TELEMETRY_ENABLED": "false",
}

Records: TypeAlias = dict[str, list[Any]]
"""The records of each topic, in their order."""


class Writer(Protocol):
    """Records something again and again; what has an unknown fate is tried again."""

    async def write(self, bus: lifebus.Bus) -> None: ...


class Receipts:
    def __init__(self) -> None:
        self.answered: list[str] = []
        self._pending: Any = None

    async def write(self, bus: lifebus.Bus) -> None:
        self._pending = self._pending or lifebus.make_request("session.started", "codex", session="s")
        made = await bus.emit(self._pending)
        self.answered += [receipt.receipt_id for receipt in made.receipts]
        self._pending = None


class Told:
    """What an app-server says, in two threads by turns."""

    def __init__(self) -> None:
        self.next = 1

    async def write(self, bus: lifebus.Bus) -> None:
        observer = Observer(bus)
        observer.next = self.next
        await observer.observe(signal(SESSIONS[self.next % 2], params={"number": self.next}))
        self.next = observer.next


class Entries:
    def __init__(self) -> None:
        self._next = 0

    async def write(self, bus: lifebus.Bus) -> None:
        await bus.transcripts.upsert(SESSIONS[self._next % 2], entry("m", content=str(self._next), status="streaming"))
        self._next += 1


class Jobs:
    """Jobs that wait for ever and are cancelled, and now and then one that is done."""

    def __init__(self) -> None:
        self._next = 0

    async def write(self, bus: lifebus.Bus) -> None:
        name, is_done = f"j{self._next}", self._next % 16 == 0
        payload = {"argv": ["true"], "cwd": "/"}
        later = None if is_done else 2**52
        await bus.jobs.enqueue(
            NewJob(type="command", project_id="p", payload=payload, job_id=name, not_before_ms=later)
        )
        if not is_done:
            with contextlib.suppress(LifebusError):  # it was cancelled before the broker was killed
                await bus.jobs.cancel(name)
        self._next += 1


def recorded(ledger: Path) -> Records:
    """What the ledger holds, by topics."""
    found: Records = {}
    with closing(sqlite3.connect(f"file:{ledger}?mode=ro", uri=True)) as database:
        for position, receipt in database.execute("SELECT position, receipt FROM rows ORDER BY position"):
            found.setdefault("receipts", []).append([position, json.loads(receipt)])
        signals = "SELECT stream, number, body FROM notes JOIN note_streams USING (id) WHERE stream LIKE 'signal/%'"
        for stream, number, body in database.execute(f"{signals} ORDER BY stream, number"):
            _, adapter, thread = stream.split("/", 2)
            said = json.loads(msgpack.unpackb(body)[1])
            if adapter == "lifebus":
                found.setdefault(thread, []).append([said["type"], said["threadId"], said["payload"]])
            else:
                found.setdefault(f"signals/{adapter}/{thread}", []).append([number, said])
    return found


def received(frames: Sequence[dict[str, Any]]) -> Records:
    """What a client was sent, by topics."""
    found: Records = {}
    for frame in frames:
        if frame["type"] in {"ready", "cursor", "behind", "caught_up"}:
            continue
        topic, payload = frame["topic"], frame["payload"]
        if topic == "receipts":
            record = [payload["position"], payload["receipt"]]
        elif topic.startswith("signals/"):
            record = [payload["sequence"], payload["signal"]]
        else:
            record = [frame["type"], frame["threadId"], payload]
        found.setdefault(topic, []).append(record)
    return found


def how_many(records: Records) -> dict[str, int]:
    return {topic: len(of_topic) for topic, of_topic in records.items()}


async def write_amid_kills(
    broker: BrokerProcess,
    writers: Sequence[Writer],
    followers: Sequence[WrittenFollower],
    writes: int,
    chance: random.Random,
) -> None:
    """Let everybody write; kill a client or two on the way, and the broker some moments after so many writes."""
    kills = {chance.randrange(writes): chance.choice(followers) for _ in range(2)}
    enough, done = anyio.Event(), 0

    async def write(bus: lifebus.Bus, writer: Writer) -> None:
        nonlocal done
        with contextlib.suppress(LifebusError):  # the broker was killed
            while True:
                await writer.write(bus)
                done += 1
                if done in kills:
                    follower = kills[done]
                    follower.kill()
                    follower.start()
                if done >= writes:
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
        # Its port may soon be somebody else's.
        (broker.runtime_dir / "gateway.json").unlink()
        tasks.cancel_scope.cancel()


async def kill_again_and_again(
    directory: Path, receipts: Receipts, followers: Sequence[WrittenFollower], chance: random.Random
) -> Records:
    """Return what the ledger holds once every client has as much."""
    told = Told()
    writers: tuple[Writer, ...] = (receipts, told, Entries(), Jobs())
    for number in range(CYCLES):
        async with broker_process(directory, **SETTINGS) as broker:
            for one in followers:
                one.start()
            if number == 0:
                async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                    await told.write(bus)
                    await told.write(bus)  # so that both sessions are known
                # A client that has had nothing before the last broker would begin there, and not go on.
                for one in followers:
                    await until(lambda one=one: bool(received(one.frames())))  # type: ignore[misc]
            await write_amid_kills(broker, writers, followers, chance.randint(*WRITES_A_CYCLE), chance)
    async with (
        broker_process(directory, **SETTINGS) as broker,
        lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
    ):
        for writer in writers:
            await writer.write(bus)
        for job in await bus.jobs.list():
            await bus.jobs.wait(job.id)
        expected = recorded(broker.ledger_path)
        for one in followers:
            await until(lambda one=one: how_many(received(one.frames())) == how_many(expected))  # type: ignore[misc]
    return expected


@pytest.mark.slow
async def test_kills_of_brokers_and_clients_lose_nothing_of_everything_and_double_nothing(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance, receipts = random.Random(seed), Receipts()
    with short_directory() as directory, ExitStack() as kills:
        followers = [WrittenFollower(directory / "run", directory / f"{kind}.frames", kind) for kind in KINDS]
        for one in followers:
            kills.callback(one.kill)
        expected = await kill_again_and_again(directory, receipts, followers, chance)
        frames = {one.file.stem: one.frames() for one in followers}
    # What was answered is there.
    assert [receipt["receipt_id"] for _, receipt in expected["receipts"]] == receipts.answered
    for of_client in frames.values():
        assert received(of_client) == expected
        resumes = [frame["payload"]["resume"] for frame in of_client if frame["type"] == "ready"]
        assert resumes[0] == "none"
        assert set(resumes[1:]) == {"complete"}
    record_property("kills of brokers and clients", CYCLES + sum(one.kills for one in followers))
    record_property("records", sum(how_many(expected).values()))
