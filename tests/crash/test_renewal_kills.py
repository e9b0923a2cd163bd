"""A broker that is killed at every point of a renewal: the client outside sees one use, and nobody sees the token."""

import asyncio
import json
import os
import random
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

from lifebus_admin.inspection import receipts_of_file
from lifebus_supervisor.renewal.store import open_store
from lifebus_transports.messages.reads import Backfill
from support.broker_process import BrokerProcess, broker_process, until
from support.clients.hook_box import PATIENT_COMMAND
from support.paths import SUPPORT
from support.renewal_client import MARK, ClientLog, configuration
from support.running import short_directory

PROGRAM = SUPPORT / "crash/patient_broker.py"
KILLS = 4
MOMENTS = [f"{step}-{moment}" for step in ("recommend", "prepare", "consume") for moment in ("asked", "done")]


class Renewal:
    """One renewal through as many brokers as it takes."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.log = ClientLog(directory / "book")
        self.log.directory.mkdir()
        self.shown = b""
        self.turns = 0
        (directory / "config.toml").write_text(configuration(self.log.directory))

    @property
    def states(self) -> list[str]:
        return [one.state.value for one in open_store(self.directory / "state").records()[0]]

    async def go_on(self, broker: BrokerProcess) -> None:
        """Do what is missing until the token is used or the broker is dead."""

        def over(wanted: set[str]) -> Callable[[], bool]:
            return lambda: not broker.alive or bool(wanted & set(self.states))

        if self.states in ([], ["preparing"]):
            # Another stop is that of another turn: one whose end is on record does not end again.
            self.turns += 1
            await self.hook("UserPromptSubmit", "s1")
            await self.hook("Stop", "s1")
            await until(over({"pending", "consumed"}))
        if broker.alive and self.states == ["pending"]:
            await self.hook("SessionStart", "s2")
            await until(over({"consumed"}))
        elif broker.alive:
            await until(over({"consumed"}))

    async def hook(self, name: str, session: str) -> None:
        """Call the real hook, as Codex does; what it shows is kept."""
        payload = {"hook_event_name": name, "session_id": session, "turn_id": f"t{self.turns}", "cwd": "/"}
        payload |= {"source": "startup"} if name == "SessionStart" else {}
        run = await asyncio.to_thread(
            subprocess.run,
            [*PATIENT_COMMAND, "codex"],
            input=json.dumps(payload).encode(),
            capture_output=True,
            env={
                "LIFEBUS_RUNTIME_DIR": str(self.directory / "run"),
                "LIFEBUS_STATE_DIR": str(self.directory / "state"),
            },
            check=True,
        )
        self.shown += run.stdout + run.stderr

    async def until_used(self, kill_after: Callable[[], float | None] = lambda: None) -> int:
        """Start brokers until the token is used; return how many it took.  `kill_after` says when one is killed."""
        for number in range(1, KILLS + 3):
            async with broker_process(
                self.directory, program=PROGRAM, LIFEBUS_CONFIG=str(self.directory / "config.toml")
            ) as broker:
                async with anyio.create_task_group() as tasks:
                    if (seconds := kill_after()) is not None:
                        tasks.start_soon(_kill, broker, seconds)
                    await self.go_on(broker)
                    tasks.cancel_scope.cancel()
                # A kill that was under way may be seen only now.
                await until(lambda: not broker.alive or len(self.kinds()) == 2)
                self.shown += broker.log.encode()
                if broker.alive:
                    return number
        raise AssertionError(self.log.lines)

    def kinds(self) -> list[tuple[str, str]]:
        """Return the payload receipts of the ledger, each with its id."""
        receipts = receipts_of_file(self.directory / "state" / "ledger.db", Backfill())
        found = [one for receipt in receipts for one in json.loads(receipt)["payload_receipts"]]
        return [(one["payload_kind"], one["payload_id"]) for one in found]

    def judge(self) -> None:
        """One token was used, once, in one order; no receipt is missing or double; nothing shows the token."""
        lines = self.log.lines
        assert [line for line in lines if "refused" in line] == []
        used = [line["used"] for line in lines if "used" in line]
        prepared = {line["prepared"] for line in lines if "prepared" in line}
        assert len(used) == 1
        assert prepared == set(used)
        assert sorted(self.kinds()) == [("renewal.continuation", used[0]), ("renewal.reset_prepare", used[0])]
        written = [path for path in (self.directory / "state").rglob("*") if path.is_file()]
        assert not any(MARK.encode() in path.read_bytes() for path in written)
        assert MARK.encode() not in self.shown


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_kill_at_a_point_of_the_renewal_loses_no_token_and_uses_none_twice(moment: str) -> None:
    with short_directory() as directory:
        renewal = Renewal(directory)
        (renewal.log.directory / f"kill-{moment}").touch()
        assert await renewal.until_used() == 2
        assert [line["moment"] for line in renewal.log.lines if "killed" in line] == [moment.split("-")[1]]
        renewal.judge()


async def _kill(broker: BrokerProcess, seconds: float) -> None:
    with anyio.move_on_after(seconds):
        await anyio.sleep_forever()
    broker.signal(signal.SIGKILL)


async def test_kills_at_any_time_lose_no_token_and_use_none_twice() -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    kills = iter([chance.uniform(0, 0.6) for _ in range(KILLS)])
    with short_directory() as directory:
        renewal = Renewal(directory)
        await renewal.until_used(lambda: next(kills, None))
        renewal.judge()
