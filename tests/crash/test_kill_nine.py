"""Kill -9 of the broker in a loop, judged from outside: nothing acknowledged is lost, nothing doubled, no hole."""

import asyncio
import os
import random
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import anyio
import pytest

import lifebus
from broker_process import BrokerProcess, broker_process, until
from crash.ledger_file import Recorded, read_ledger
from lifebus_contract import CallbackRequest, LifebusError, Receipt, encode_json
from running import short_directory

CYCLES = 50
ACKS_A_CYCLE = (50, 650)
SESSIONS = ("s1", "s2", "s3", "s4", "s5")
SINGLES_A_SESSION = 6
BATCH = 24
CHECK_EVERY = 10


@dataclass
class Lane:
    """Sends one message after the other; what it does not know the fate of, it sends again."""

    session: str
    size: int
    pending: list[CallbackRequest] = field(default_factory=list[CallbackRequest])


class Oracle:
    """Knows what was sent and what was acknowledged, and when to kill."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.sent: dict[str, CallbackRequest] = {}
        self.acked: dict[str, bytes] = {}
        self.replayed = 0
        self.lanes = [Lane(session, size) for session in SESSIONS for size in (BATCH, *[1] * SINGLES_A_SESSION)]
        self._wanted = 0
        self._enough = anyio.Event()

    async def cycle(self, broker: BrokerProcess) -> None:
        """Send until a number of acknowledgements has come, and then, within some milliseconds, kill."""
        self._wanted, self._enough = self.random.randint(*ACKS_A_CYCLE), anyio.Event()
        async with connected(broker) as bus, anyio.create_task_group() as tasks:
            for lane in self.lanes:
                tasks.start_soon(self._run, bus, lane)
            await self._enough.wait()
            with anyio.move_on_after(self.random.uniform(0, 0.004)):
                await anyio.sleep_forever()
            await broker.kill()
            tasks.cancel_scope.cancel()

    async def settle(self, broker: BrokerProcess) -> None:
        """Learn the fate of everything that was sent."""
        async with connected(broker) as bus, anyio.create_task_group() as tasks:
            for lane in self.lanes:
                tasks.start_soon(self._send, bus, lane)

    async def _run(self, bus: lifebus.Bus, lane: Lane) -> None:
        with suppress(LifebusError):  # the broker was killed
            while True:
                await self._send(bus, lane)

    async def _send(self, bus: lifebus.Bus, lane: Lane) -> None:
        lane.pending = lane.pending or [self._fresh(lane.session) for _ in range(lane.size)]
        if lane.size == 1:
            results = [await bus.emit(lane.pending[0])]
        else:
            results = await bus.emit(lane.pending)
        for request, result in zip(lane.pending, results, strict=True):
            assert result.refusal is None
            self._note(str(request.idempotency_key), result)
        lane.pending = []

    def _fresh(self, session: str) -> CallbackRequest:
        request = lifebus.make_request(
            "session.started", "codex", session=session, idempotency_key=f"k{len(self.sent) + 1:06}"
        )
        self.sent[str(request.idempotency_key)] = request
        return request

    def _note(self, key: str, result: lifebus.Emitted) -> None:
        assert key not in self.acked
        (receipt,) = result.receipts
        self.acked[key] = encode_json(receipt)
        self.replayed += result.replayed
        self._wanted -= 1
        if self._wanted <= 0:
            self._enough.set()

    def judge(self, rows: list[Recorded]) -> None:
        """Everything acknowledged was recovered as acknowledged; everything recovered was sent, as it is there."""
        recovered = {row.content["idempotency_key"]: row for row in rows}
        assert self.acked.keys() <= recovered.keys() <= self.sent.keys()
        for key, receipt in self.acked.items():
            assert recovered[key].receipt == receipt
        for key, row in recovered.items():
            assert row.content["event_id"] == self.sent[key].event_id
            assert row.content["harness_session_id"] == self.sent[key].harness_session_id


class Follower:
    """Follows through every restart and keeps what it saw."""

    def __init__(self, session: str | None) -> None:
        self.session = session
        self.seen: list[Receipt] = []
        self.gaps: list[lifebus.Gap] = []

    async def follow(self, broker: BrokerProcess) -> None:
        async with lifebus.connect("follower", runtime_dir=broker.runtime_dir, timeout=1.0) as bus:
            session = ("codex", self.session) if self.session else None
            async for item in bus.receipts(session=session, since="start"):
                if isinstance(item, lifebus.Gap):
                    self.gaps.append(item)
                else:
                    self.seen.append(item)

    def has_seen(self, count: int) -> bool:
        return len(self.seen) + len(self.gaps) >= count

    def expected(self, rows: list[Recorded]) -> list[bytes]:
        mine = [row for row in rows if self.session in {None, row.content["harness_session_id"]}]
        return [row.receipt for row in mine]


def connected(broker: BrokerProcess) -> AbstractAsyncContextManager[lifebus.Bus]:
    return lifebus.connect("oracle", runtime_dir=broker.runtime_dir, timeout=20.0)


async def kill_again_and_again(directory: Path, oracle: Oracle, followers: list[Follower]) -> list[Recorded]:
    async with anyio.create_task_group() as tasks:
        for number in range(CYCLES):
            async with broker_process(directory) as broker:
                if number == 0:
                    for follower in followers:
                        tasks.start_soon(follower.follow, broker)
                await oracle.cycle(broker)
            if number % CHECK_EVERY == 0:
                oracle.judge(await asyncio.to_thread(read_ledger, broker.ledger_path, directory / "copy"))
        async with broker_process(directory) as broker:
            await oracle.settle(broker)
            rows = await asyncio.to_thread(read_ledger, broker.ledger_path, directory / "copy")
            for follower in followers:
                await until(partial(follower.has_seen, len(follower.expected(rows))))
        tasks.cancel_scope.cancel()
    return rows


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_fifty_kills_lose_nothing_double_nothing_and_leave_no_hole() -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    oracle, followers = Oracle(seed), [Follower(None), Follower(SESSIONS[0])]
    with short_directory() as directory:
        rows = await kill_again_and_again(directory, oracle, followers)
    oracle.judge(rows)
    assert oracle.acked.keys() == oracle.sent.keys()
    assert oracle.replayed > 0, "no kill ever fell between a commit and its acknowledgement"
    for follower in followers:
        assert follower.gaps == []
        assert [encode_json(receipt) for receipt in follower.seen] == follower.expected(rows)
    print(f"{len(oracle.acked)} acknowledged, {oracle.replayed} of them found again after a kill")  # noqa: T201
