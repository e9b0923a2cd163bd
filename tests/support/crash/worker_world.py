"""A broker, an app-server behind a proxy, and its client, of which any may be killed; others are begun in their place.

What the app-server wrote down itself is the oracle, and the ledger as SQL has it: neither knows of the queue's code.
"""

import asyncio
import contextlib
import json
import random
import sqlite3
import sys
from collections import Counter, defaultdict
from collections.abc import AsyncGenerator, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgpack
import psutil

import lifebus
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import Job, NewJob
from support.broker_process import BrokerProcess, start_broker, until
from support.clients.proxy_box import ProxyBox
from support.integration.steering import SERVER
from support.paths import SUPPORT
from support.patience import PATIENCE_S

PROJECTS: Final = 3
_MOST_ATTEMPTS: Final = 100
_PAUSE: Final = RetryPause(first_ms=10, longest_ms=500, jitter_percent=0)
"""Attempts go on for most of a minute: so long a busy machine may take to begin a client, over several kills."""
_SETTINGS: Final = {
    "LIFEBUS_QUEUE_CONCURRENCY": str(PROJECTS),
    "LIFEBUS_QUEUE_KEEP": "10000",
    "LIFEBUS_TICKS_ENABLED": "false",
    "LIFEBUS_TELEMETRY_ENABLED": "false",
}
_LONGEST_S: Final = 0.3
_MOST_OBSERVERS: Final = 4
TERMINAL: Final = {"completed", "failed", "canceled"}


def is_observer(words: list[str]) -> bool:
    """Whether these are the words of an observer."""
    return "lifebus.observer" in words


@dataclass
class WorkerWorld:
    """All processes in one directory.  `queued` are the jobs that a broker has acknowledged."""

    base: Path
    chance: random.Random
    queued: list[str] = field(default_factory=list[str])
    _clients: int = 0
    _observers: int = 0

    def __post_init__(self) -> None:
        self.box = ProxyBox(self.base, kind="run")
        self.kept = self.base / "kept"
        self.broker: BrokerProcess | None = None
        self.client: asyncio.subprocess.Process | None = None

    async def go_on(self) -> None:
        """Begin what is not there."""
        if self.broker is None or not self.broker.alive:
            if self.broker is not None:
                self.broker.close()
            self.broker = start_broker(self.base, program=SUPPORT / "crash/hurried_broker.py", **_SETTINGS)
            assert await self.broker.ready(), self.broker.log
        if self.client is None or self.client.returncode is not None:
            assert self.client is None or self.client.returncode in {0, -9}, "the client was told of a worker"
            self._clients, self._observers = self._clients + 1, 0
            server = (sys.executable, "-I", "-S", "-u", str(SERVER), str(self.kept), f"s{self._clients}-")
            words = [sys.executable, str(SUPPORT / "crash/worker_client.py"), *self.box.words(server)]
            self.client = await asyncio.create_subprocess_exec(*words, env=self.box.env)

    async def go_on_a_little(self) -> None:
        """Return at a random moment soon."""
        await asyncio.sleep(self.chance.random() * _LONGEST_S)

    async def kill(self, whom: str) -> None:
        """Kill one of them, and wait until those that do not live without it are gone."""
        assert self.broker is not None
        assert self.client is not None
        if whom == "broker":
            await self.broker.kill()
            return
        if whom == "observer":
            # A proxy begins no fifth observer: then nobody would take orders.
            self._observers += 1
            whom = "client" if self._observers == _MOST_OBSERVERS else whom
        if whom == "client":
            with contextlib.suppress(ProcessLookupError):
                self.client.kill()
        else:
            await until(lambda: self._kill_all(whom))
        if whom != "observer":
            await asyncio.wait_for(self.client.wait(), PATIENCE_S)

    def _kill_all(self, whom: str) -> bool:
        """Kill all processes of a kind; return whether there was one: it may not have begun yet."""
        found = [*self._found(whom)]
        for process in found:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        return bool(found)

    def _found(self, whom: str) -> Iterator[psutil.Process]:
        """Yield the processes of a kind below the client; what a client that was killed has left ends by itself."""
        assert self.client is not None
        try:
            below = psutil.Process(self.client.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return
        for process in below:
            try:
                words = process.cmdline()
            except psutil.NoSuchProcess:
                continue
            kind = "observer" if is_observer(words) else "proxy" if "lifebus" in words else "server"
            # One that has just been forked shows the client's words.
            is_client = any(word.endswith("worker_client.py") for word in words)
            if kind == whom and not is_client and (whom != "server" or str(SERVER) in words):
                yield process

    async def queue(self, count: int) -> None:
        """Queue jobs, each until a broker has acknowledged it."""
        async with lifebus.connect("test", runtime_dir=self.base / "run", timeout=PATIENCE_S) as bus:
            for _ in range(count):
                name = f"j{len(self.queued)}"
                await bus.jobs.enqueue(self._job(name))
                self.queued.append(name)

    def _job(self, name: str) -> NewJob:
        project = f"p{len(self.queued) % PROJECTS}"
        payload = {
            "agent": "reviewer",
            "jobKind": name,
            "projectId": project,
            "sourceSessionId": "t1",
            "threadId": "t1",
            "turnId": "u1",
            "instructionText": f"take {self.chance.randrange(250)} {name}",
            "expectResponse": "assistant_text",
        }
        return NewJob(
            type="agent_instruction",
            project_id=project,
            job_id=name,
            payload=payload,
            max_attempts=_MOST_ATTEMPTS,
            pause=_PAUSE,
        )

    async def open_jobs(self) -> int:
        """Return how many jobs wait or run."""
        async with lifebus.connect("test", runtime_dir=self.base / "run", timeout=PATIENCE_S) as bus:
            return sum(one.state.value not in TERMINAL for one in await bus.jobs.list())

    async def ended(self) -> dict[str, Job]:
        """Return every job once it is over; whatever had to be restarted meanwhile is."""
        found: dict[str, Job] = {}
        async with lifebus.connect("test", runtime_dir=self.base / "run", timeout=PATIENCE_S) as bus:
            for name in self.queued:
                found[name] = await bus.jobs.wait(name)
        return found

    async def close(self) -> None:
        """End everything in order; nothing is left."""
        assert self.broker is not None
        assert self.client is not None
        assert await self.broker.terminate() == 0, self.broker.log
        self.client.kill()
        await self.client.wait()
        await until(lambda: not self.box.processes())

    def clear(self) -> None:
        """End whatever is left, where a test has failed."""
        if self.broker is not None:
            self.broker.close()
        for process in self.box.processes():
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def turns(self) -> dict[str, list[tuple[str, str]]]:
        """Return what app-servers wrote down of each job: what, and in which turn."""
        found: dict[str, list[tuple[str, str]]] = defaultdict(list)
        file = Path(f"{self.kept}.turns")
        for line in file.read_text().splitlines() if file.exists() else ():
            what, name, turn = line.split(" ")
            found[name].append((what, turn))
        return found

    def begun(self) -> int:
        """Return how many turns of workers were begun up to now."""
        return sum(what == "begin" for told in self.turns().values() for what, _ in told)

    def is_idle(self) -> bool:
        """Whether no turn runs at the app-server that is there."""
        mine = [one for told in self.turns().values() for one in told if one[1].startswith(f"s{self._clients}-")]
        begun = {turn for what, turn in mine if what == "begin"}
        return begun == {turn for what, turn in mine if what in {"ending", "interrupted"}}


def check(world: WorkerWorld, jobs: dict[str, Job]) -> Counter[str]:
    """Hold what the app-servers wrote down, and the ledger, to what the queue promises; return how jobs ended."""
    told = world.turns()
    records, events = ledger_of(world.base / "state/ledger.db")
    assert set(records) >= set(world.queued), "a job is lost"
    ends: Counter[str] = Counter()
    for name in world.queued:
        whats = [what for what, _ in told.get(name, ())]
        assert whats.count("end") <= 1, f"{name} was done twice: {told[name]}"
        state, error = jobs[name].state.value, jobs[name].error or ""
        ended = [one for one in records[name] if one["record"] == "ended"]
        assert [one["state"] for one in ended] == [state], (name, ended)
        assert records[name][-1]["record"] in {"ended", "settled"}, (name, records[name][-1])
        over = [one for one in events[name] if one in TERMINAL]
        assert over == [state] == events[name][-1:], (name, events[name])
        if state == "completed":
            assert "ending" in whats, f"{name} was never done"
            assert jobs[name].result["outputText"] == name
        else:
            assert (state, error.split(":")[0]) == ("failed", "outcome_unknown"), (name, state, error)
        ends[state] += 1
    return ends


def ledger_of(file: Path) -> tuple[dict[str, list[dict[str, Any]]], dict[str, list[str]]]:
    """Return the records of each job, and the states that its events tell, as plain SQL finds them."""
    records: dict[str, list[dict[str, Any]]] = defaultdict(list)
    events: dict[str, list[str]] = defaultdict(list)
    decode: Callable[[bytes], Any] = msgpack.unpackb
    with contextlib.closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True)) as ledger:
        found = ledger.execute(
            "SELECT stream, body FROM notes JOIN note_streams USING (id) ORDER BY note_streams.id, number"
        )
        for stream, body in found:
            if stream.startswith("job/"):
                records[stream.removeprefix("job/")].append(json.loads(body))
            elif stream.startswith("signal/lifebus/queue/"):
                payload = json.loads(decode(body)[1])["payload"]
                events[payload["jobId"]].append(payload["state"])
    return records, events


@contextlib.asynccontextmanager
async def worker_world(base: Path, chance: random.Random) -> AsyncGenerator[WorkerWorld]:
    """All of it, running; nothing is left where the test fails."""
    world = WorkerWorld(base, chance)
    try:
        await world.go_on()
        yield world
    finally:
        world.clear()
