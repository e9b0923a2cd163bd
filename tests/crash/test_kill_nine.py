"""Kill -9 of the broker in a loop, judged from outside: nothing acknowledged is lost, nothing doubled, no hole."""

import asyncio
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import anyio
import pytest

import lifebus
from lifebus_broker.snapshots.compactions.state_cache import boundary
from lifebus_contract import DeadlineExceeded, LifebusError, encode_json
from support.broker_process import BrokerProcess, broker_process, until
from support.crash.commit_ways import WAY, WAYS
from support.crash.ledger_file import History, Recorded
from support.crash.oracle import SESSIONS, Oracle
from support.effort import effort
from support.patience import PATIENCE_S
from support.running import short_directory, until_answered

RUNS = effort(1, 1)
"""Runs of each way to commit, which cores do side by side."""
CYCLES = effort(25, 500)
"""Kills of each run: so many acknowledgements as the first state cache takes."""
ACKS_A_CYCLE = (150, 1_150)
CHECK_EVERY = 5
ON_DISK = "/var/tmp" if Path("/var/tmp").is_dir() else None
"""Where syncs take the time that they take: brokers that start and die faster than followers join prove nothing."""
JOIN_S = 10.0
"""How long a follower tries to join: the next broker is there at once, and may be killed before it was joined."""
KEEP_MB = effort(12, 48)
SETTINGS: dict[str, Any] = {"LIFEBUS_RETENTION_KEEP_MB": str(KEEP_MB), "LIFEBUS_RETENTION_CHECK_S": "1"}
"""The ledger is pruned while the broker is killed, and never of what was not looked at before.

In 12 MB fit more receipts than are sent between two looks.  With half of that retention may overtake the test: size
leaves only the newest 1,024 receipts, and the write-ahead log counts with 4 MiB.  The long run leaves tombstones of
300,000 keys, which count as well: some 24 MB that no receipt can have.
"""


@dataclass
class Follower:
    """Follows through every restart and keeps the hash of what it saw."""

    session: str | None
    seen: list[bytes] = field(default_factory=list[bytes])
    expected: list[tuple[int, bytes]] = field(default_factory=list[tuple[int, bytes]])
    gaps: list[lifebus.Gap] = field(default_factory=list[lifebus.Gap])

    async def follow(self, runtime_dir: Path) -> None:
        """Follow to the end; joining again is safe, as the refusal says, where every broker was killed too early."""
        while True:
            try:
                await self._follow(runtime_dir)
            except LifebusError as fault:
                is_unanswered = isinstance(fault, DeadlineExceeded) or fault.code in {"no_stream", "no_broker"}
                if not is_unanswered or self.seen or self.gaps:
                    raise

    async def _follow(self, runtime_dir: Path) -> None:
        async with lifebus.connect("follower", runtime_dir=runtime_dir, timeout=JOIN_S, wait=True) as bus:
            session = ("codex", self.session) if self.session else None
            async for item in bus.receipts(session=session, since="start", gaps="yield"):
                if isinstance(item, lifebus.Gap):
                    self.gaps.append(item)
                else:
                    self.seen.append(sha256(encode_json(item)).digest())

    def expect(self, rows: list[Recorded]) -> None:
        """Remember what the ledger was found to hold."""
        mine = [row for row in rows if self.session in {None, row.content["harness_session_id"]}]
        self.expected += [(row.position, sha256(row.receipt).digest()) for row in mine]

    def is_done(self) -> bool:
        return bool(self.seen) and self.seen[-1] == self.expected[-1][1]

    def wanted(self) -> list[bytes]:
        """Return what it must have seen: everything but what it was told that it lost, for it was pruned."""
        assert {gap.reason for gap in self.gaps} <= {"pruned"}
        lost = [range(gap.after + 1, (gap.until or 0) + 1) for gap in self.gaps]
        return [receipt for position, receipt in self.expected if not any(position in one for one in lost)]


class Trial:
    """The broker's lives, its oracle and its followers, and what the ledger was seen to hold."""

    def __init__(self, directory: Path, seed: int, way: str) -> None:
        self.directory = directory
        self.oracle = Oracle(seed, directory / "book")
        self.history = History()
        self.followers = [Follower(None), Follower(SESSIONS[0])]
        self.faults: tuple[str, ...] | None = None
        self.settings = SETTINGS | {WAY: way}

    async def run(self, cycles: int) -> None:
        async with anyio.create_task_group() as tasks:
            number, pruned = 0, False
            # At least one kill falls between a commit and its acknowledgement, for as many lives as it takes.
            while number < cycles or not pruned or not self.oracle.replayed:
                async with broker_process(self.directory, **self.settings) as broker:
                    if number == 0:
                        for follower in self.followers:
                            tasks.start_soon(follower.follow, broker.runtime_dir)
                    # late, for as many lives as it takes: how much is sent in a life is drawn
                    if not pruned and number >= cycles * 7 // 8:
                        pruned = await self._pruned(broker)
                    await self._cycle(broker.runtime_dir, partial(broker.signal, signal.SIGKILL))
                if number % CHECK_EVERY == 0:
                    await asyncio.to_thread(self._read, broker.ledger_path)
                number += 1
            async with broker_process(self.directory, **self.settings) as broker:
                await asyncio.to_thread(self.oracle.settle, broker.runtime_dir)
                await asyncio.to_thread(self._read, broker.ledger_path)
                for follower in self.followers:
                    await until(follower.is_done)
                async with lifebus.connect("after", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                    self.faults = (await bus.verify()).faults
                    await self._cached(bus)
            tasks.cancel_scope.cancel()

    async def _pruned(self, broker: BrokerProcess) -> bool:
        """Let a broker live until it has dropped receipts, where its ledger is larger than the limit; tell whether."""
        async with lifebus.connect("onlooker", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            if broker.ledger_path.stat().st_size <= KEEP_MB << 20 and not (await bus.status()).ledger.floor:
                return False
            with anyio.fail_after(PATIENCE_S):
                await until_answered(bus.status, lambda status: status.ledger.floor)
            return True

    async def _cached(self, bus: lifebus.Bus) -> None:
        """Wait for a state cache: each life before may have been too short for one, and its boundary may be pruned."""
        with anyio.fail_after(PATIENCE_S):
            await until_answered(
                bus.status,
                lambda status: self.made("compactions") or status.ledger.floor >= boundary(status.ledger.head),
            )

    async def _cycle(self, runtime_dir: Path, kill: Callable[[], None]) -> None:
        wanted = self.oracle.random.randint(*ACKS_A_CYCLE)
        await asyncio.to_thread(self.oracle.send_until, runtime_dir, wanted, kill)

    def made(self, directory: str) -> int:
        """How many files the broker has written into a directory of its state."""
        return sum(path.is_file() for path in (self.directory / "state" / directory).rglob("*"))

    def _read(self, path: Path) -> None:
        """Compare the ledger with everything that is known."""
        rows = self.history.read(path, self.directory / "copy")
        self.oracle.judge(rows)
        assert self.oracle.missing() == []
        for follower in self.followers:
            follower.expect(rows)


@pytest.mark.slow
@pytest.mark.timeout(10 * PATIENCE_S)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", range(RUNS))
async def test_kills_lose_nothing_double_nothing_and_leave_no_hole(
    number: int, way: str, record_property: Callable[[str, object], None]
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32)) + number
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    with short_directory(ON_DISK) as directory:
        trial = Trial(directory, seed, way)
        try:
            await trial.run(CYCLES)
        finally:
            trial.oracle.close()
        snapshots = trial.made("snapshots")
    oracle = trial.oracle
    assert len(oracle.acked) == len(oracle.sent) == len(oracle.recovered)
    assert trial.faults == ()
    assert trial.history.floor > 0, "nothing was pruned"
    assert snapshots > 0
    for follower in trial.followers:
        assert follower.seen == follower.wanted()
    record_property("kills", CYCLES)
    record_property("acknowledged", len(oracle.acked))
    record_property("found again", oracle.replayed)
    record_property("pruned", trial.history.floor)
    record_property("lost", len(oracle.missing()))
