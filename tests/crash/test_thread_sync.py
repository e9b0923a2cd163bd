"""The thread-sync example holds every receipt exactly once and every session in order, whenever it is killed."""

import json
import os
import random
import runpy
import subprocess
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import lifebus
from support.broker_process import BrokerProcess, broker_process, until
from support.crash.ledger_file import read_ledger
from support.fork_server import Forked, fork_server
from support.paths import EXAMPLES, SUPPORT
from support.patience import PATIENCE_S
from support.running import short_directory

EXAMPLE = EXAMPLES / "thread_sync.py"
SESSIONS = ("s1", "s2", "s3")
STEPS = (1, 2, 3, 4, 5, 6, 8, 9, 11)
"""Six steps are one batch: two of the write, two of the fsync, two of the acknowledgement."""
BATCH = 9


class Play:
    """The example on a stage: who feeds it, how much, and the file that it writes."""

    def __init__(self, directory: Path) -> None:
        self.directory, self.file = directory, directory / "mirror.jsonl"
        self.chance = random.Random(4)
        self.fed = 0

    async def feed(self, broker: BrokerProcess) -> None:
        """Record receipts of the mirrored sessions and of another one."""
        sessions = [self.chance.choice([*SESSIONS, "other"]) for _ in range(BATCH)]
        async with lifebus.connect("feeder", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
            await bus.emit([lifebus.make_request("session.started", "codex", session=one) for one in sessions])
        self.fed += len(sessions) - sessions.count("other")

    def held(self) -> int:
        """How many whole lines the file has."""
        return self.file.read_bytes().count(b"\n") if self.file.exists() else 0

    async def feed_until_dead(self, broker: BrokerProcess, child: Forked, most: int = 99) -> None:
        """Feed it a little at a time until it has killed itself."""
        for _ in range(most):
            await self.feed(broker)
            await until(lambda: child.poll() is not None or self.held() >= self.fed)
            if child.poll() is not None:
                assert child.returncode == -9, (child.stderr.read() if child.stderr else b"").decode()
                return

    def judge(self, broker: BrokerProcess) -> None:
        """Compare the file with the ledger, read by plain SQL: all of it, once, in order."""
        rows = read_ledger(broker.ledger_path, self.directory / "copy")
        wanted = {row.position: row.content for row in rows if row.content["harness_session_id"] in SESSIONS}
        lines = [json.loads(line) for line in self.file.read_bytes().splitlines()]
        assert len(lines) == len(wanted) == self.fed
        assert {line["position"]: line["receipt"] for line in lines} == wanted
        for session in SESSIONS:
            mine = [line["receipt"]["sequence"] for line in lines if line["receipt"]["harness_session_id"] == session]
            assert mine == list(range(1, len(mine) + 1))


@contextmanager
def publisher(broker: BrokerProcess, file: Path, step: int) -> Iterator[Forked]:
    """The example as a child that dies at a step, gone at the end of the block."""
    dying = str(SUPPORT / "crash/dying_publisher.py")
    names = [f"codex/{session}" for session in SESSIONS]
    child = fork_server().start(
        "support.fork_server:script",
        [dying, str(EXAMPLE), str(step), str(file), *names],
        environment=os.environ | {"LIFEBUS_RUNTIME_DIR": str(broker.runtime_dir)},
        stderr=subprocess.PIPE,
    )
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


async def test_the_mirror_is_exact_at_whatever_step_it_is_killed() -> None:
    with short_directory() as directory:
        play = Play(directory)
        async with broker_process(directory) as broker:
            for step in STEPS:
                with publisher(broker, play.file, step) as child:
                    await play.feed_until_dead(broker, child)
            with publisher(broker, play.file, 0):
                await until(lambda: play.held() >= play.fed)
            play.judge(broker)


async def test_the_mirror_is_exact_when_the_broker_is_killed_under_it_as_well() -> None:
    with short_directory() as directory:
        play = Play(directory)
        async with AsyncExitStack() as children:
            for step in (0, 8, 15):
                async with broker_process(directory) as broker:
                    child = children.enter_context(publisher(broker, play.file, step))
                    await play.feed_until_dead(broker, child, most=2)
                    await play.feed(broker)
                    await broker.kill()
                async with broker_process(directory) as broker:
                    if step:
                        await play.feed_until_dead(broker, child)
                    else:
                        await play.feed(broker)
                        await until(lambda: play.held() >= play.fed)
                        child.kill()
            async with broker_process(directory) as broker:
                children.enter_context(publisher(broker, play.file, 0))
                await until(lambda: play.held() >= play.fed)
                play.judge(broker)


def test_a_line_that_was_torn_anywhere_is_written_again(tmp_path: Path) -> None:
    mirror: Any = runpy.run_path(str(EXAMPLE))["Mirror"]
    receipt = b'{"adapter_id":"codex","harness_session_id":"s1","sequence":%d}'
    lines = b"".join(b'{"position":%d,"receipt":%s}\n' % (n, receipt % n) for n in (1, 2))
    for length in range(len(lines)):
        file = tmp_path / f"{length}.jsonl"
        file.write_bytes(lines[:length])
        found = mirror(file)
        whole = lines[:length].count(b"\n")
        assert file.read_bytes() == b"".join(lines.splitlines(keepends=True)[:whole])
        assert found.newest == ({("codex", "s1"): (whole, whole)} if whole else {})
        os.close(found.file)
