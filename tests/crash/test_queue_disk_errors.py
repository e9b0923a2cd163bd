"""A disk that is full, or fails, below a queue and transcripts: what was promised stays, no job is done twice.

The oracles are a file that the programs of jobs write on a sound disk, and what the client was answered.
"""

import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import lifebus
from integration.lifecycle.test_ledger import emit_until_refused
from lifebus_contract import LifebusError
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import NewJob
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from support.broker_process import BrokerProcess, broker_process, until
from support.clients.proxy_box import eventually
from support.crash.job_broker import JOBS, PROGRAM
from support.effort import effort
from support.integration.small_disk import fill, small_disk
from support.paths import TESTS
from support.patience import PATIENCE_S, TEST_S
from support.running import short_directory, until_answered

ROOM = 512 * 1024
SESSION = "s1"
THREAD = f"transcript/{SESSION}"
FAILING = TESTS / "support" / "crash" / "failing_broker.py"
MANY = 6
SURELY_MADE = 60
"""So many writes are made at least, however many records share a commit."""
COUNT = effort(2, 48)
FAIL_AT = (2, 45) if COUNT == 2 else range(1, 240, 240 // COUNT)


def job(name: str, project: str, folder: Path, program: str) -> NewJob:
    return NewJob(
        type="command",
        project_id=project,
        job_id=name,
        payload={"argv": ["sh", "-c", program], "cwd": str(folder)},
        max_attempts=100,
        pause=RetryPause(first_ms=0, longest_ms=0),
        time_limit_ms=600_000,
    )


def entry(number: int) -> TranscriptEntry:
    return TranscriptEntry(
        message_id=f"m{number}",
        turn_id="u",
        role=EntryRole.ASSISTANT,
        type="note",
        content=str(number),
        status=EntryStatus.COMPLETE,
    )


def world(folder: Path) -> list[str]:
    path = folder / "world"
    return path.read_text().splitlines() if path.exists() else []


async def contents(bus: lifebus.Bus) -> list[str]:
    return [one.content for one in await bus.transcripts.entries(SESSION)]


async def told(bus: lifebus.Bus) -> list[str]:
    """What the events said, every one of which is there."""
    said = [item async for item in bus.signals(adapter="lifebus", thread=THREAD, since="start", until_head=True)]
    assert [item.sequence for item in said] == list(range(1, len(said) + 1))
    return [item.envelope["payload"]["entry"]["content"] for item in said]


async def refusal_of(call: object) -> str | None:
    """Await a call; return the code with which it was refused."""
    try:
        await call  # type: ignore[misc]
    except LifebusError as fault:
        return fault.code
    return None


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small disk, which needs root")
async def test_a_queue_and_transcripts_stand_still_while_the_disk_is_full_and_go_on_by_themselves() -> None:
    with short_directory() as home, small_disk(home) as disk:
        settings = {"LIFEBUS_LEDGER_PATH": str(disk / "ledger.db")}
        project = home / "project"
        project.mkdir()
        os.mkfifo(project / "hold")
        program = "echo start $LIFEBUS_JOB_ID >> world; if [ -p hold ]; then read line < hold; rm hold; fi; echo end $LIFEBUS_JOB_ID >> world"  # fmt: skip  # noqa: E501
        async with (
            broker_process(home, **settings) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            await bus.emit(lifebus.make_request("session.started", "codex", session=SESSION))
            for name in ("a", "b"):
                await bus.jobs.enqueue(job(name, "p", project, program))
            for number in (1, 2):
                await bus.transcripts.upsert(SESSION, entry(number))
            eventually(lambda: world(project) == ["start a"])

            ballast = fill(disk, leave=ROOM)
            _, fault = await emit_until_refused(bus)
            assert fault.code == "disk_full"
            # The first job ends while its end cannot be recorded.
            (project / "hold").write_text("go on\n")
            eventually(lambda: "job_not_recorded" in broker.log)
            assert world(project) == ["start a", "end a"]
            assert (await bus.jobs.show("a")).state == "running"
            assert await refusal_of(bus.jobs.enqueue(job("c", "p", project, program))) == "disk_full"
            assert await refusal_of(bus.jobs.cancel("b")) == "disk_full"
            assert await refusal_of(bus.transcripts.upsert(SESSION, entry(3))) == "disk_full"
            assert await contents(bus) == ["1", "2"]
            assert {one.id: one.state for one in await bus.jobs.list()} == {"a": "running", "b": "queued"}

            ballast.unlink()
            for name in ("a", "b"):
                assert (await bus.jobs.wait(name)).state == "completed"
            await until_answered(bus.status, lambda status: status.ledger.writable)
            await bus.jobs.enqueue(job("c", "p", project, program))
            await bus.transcripts.upsert(SESSION, entry(3))
            assert (await bus.jobs.wait("c")).attempts == 1
        done = [f"{what} {name}" for name in ("a", "b", "c") for what in ("start", "end")]
        async with (
            broker_process(home, **settings) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            assert {one.id: one.state for one in await bus.jobs.list()} == dict.fromkeys("abc", "completed")
            assert await contents(bus) == await told(bus) == ["1", "2", "3"]
        assert world(project) == done


class Client:
    """Asks for jobs and entries until each was promised, over as many brokers as it takes."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.jobs: list[str] = []
        self.entries: list[str] = []

    async def ask(self, bus: lifebus.Bus) -> None:
        await bus.emit(lifebus.make_request("session.started", "codex", session=SESSION))
        for (name, project), number in zip([*JOBS.items()] + [("", "")] * (MANY - len(JOBS)), range(MANY), strict=True):
            if name and name not in self.jobs:
                await bus.jobs.enqueue(job(name, project, self.project, PROGRAM))
                self.jobs.append(name)
            if str(number) not in self.entries:
                await bus.transcripts.upsert(SESSION, entry(number))
                self.entries.append(str(number))
        for name in JOBS:
            assert (await bus.jobs.wait(name)).state == "completed"

    async def live(self, broker: BrokerProcess) -> bool:
        """Ask until all is done, True, or the broker has ended."""
        done = False

        async def watch() -> None:
            await until(lambda: not broker.alive, TEST_S)
            tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            async with lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
                # What a broker refuses that is about to end says nothing: it is asked for again.
                with suppress(LifebusError):
                    await self.ask(bus)
                    done = True
                if not done:
                    await anyio.sleep_forever()
            tasks.cancel_scope.cancel()
        return done


@pytest.mark.parametrize("number", FAIL_AT)
async def test_a_broker_whose_disk_fails_at_a_write_ends_and_the_next_one_has_what_was_promised(number: int) -> None:
    with short_directory() as home:
        client = Client(home / "project")
        client.project.mkdir()
        (client.project / "world").touch()
        async with broker_process(home, program=FAILING, FAIL_AT=str(number)) as broker:
            done = await client.live(broker)
            if not done:
                assert await broker.ended() != 0
                assert "ledger.failed" in broker.log
        assert not done or number > SURELY_MADE
        async with (
            broker_process(home) as broker,
            lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            listed = {one.id for one in await bus.jobs.list()}
            assert set(client.jobs) <= listed
            if client.entries:
                found = await contents(bus)
                assert found[: len(client.entries)] == client.entries
                assert found == await told(bus)
            await client.ask(bus)
            assert await contents(bus) == await told(bus) == [str(one) for one in range(MANY)]
            ends = Counter(line for line in world(client.project) if line.startswith("end"))
            assert ends == {f"end {name}": 1 for name in JOBS}
