"""A broker as a process of its own, which records what it is asked to, and the model of what it recorded."""

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import httpx

import lifebus
from lifebus.client import Emitted
from lifebus_contract import LifebusError
from lifebus_contract.jobs import NewJob
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_transports.messages.signals import ObservedSignal, ThreadHeads, ThreadsQuery
from support.broker_process import BrokerProcess, start_broker
from support.integration.observing import EVENT, Observer, signal
from support.paths import TESTS
from support.patience import PATIENCE_S
from support.transports.gateway import Address
from support.transports.stream_model import Line, World

T = TypeVar("T")

SESSIONS = ("a", "b", "c")
THREADS = ("t1", "t2")
TOPICS = (
    "receipts",
    *(f"{kind}{thread}" for kind in ("signals/codex/", "transcript/", "queue/session:") for thread in THREADS),
)
"""Everything that is recorded."""

_PROGRAM = TESTS / "support/transports/impatient_gateway.py"
_DELETED = "app_server.thread.deleted"
_BATCH = 7  # of large signals; a message has a bound


class FollowedBroker:
    """The broker and its model.  `slow_ms` is how long its gateway waits for a client that does not read."""

    def __init__(self, slow_ms: int) -> None:
        self.slow_ms = slow_ms
        self.world = World({})
        self.directory = Path(tempfile.mkdtemp(prefix="lb-"))
        self._runner = asyncio.Runner()
        self._serial = 0
        self._sequences: dict[str, int] = {}
        self._broker: BrokerProcess | None = None
        self.start()
        self._begin_history()

    # The process

    @property
    def process(self) -> BrokerProcess:
        assert self._broker is not None
        return self._broker

    def start(self) -> None:
        """Start it, again."""
        if self._broker is not None:
            self._broker.close()
        self._broker = start_broker(
            self.directory,
            program=_PROGRAM,
            LIFEBUS_GATEWAY_ENABLED="true",
            LIFEBUS_GATEWAY_COMPRESSION="true",
            LIFEBUS_GATEWAY_SEND_TIMEOUT_MS=str(self.slow_ms),
            LIFEBUS_SIGNALS_KEEP_MB="1",
            LIFEBUS_TICKS_ENABLED="false",
            LIFEBUS_TELEMETRY_ENABLED="false",
        )
        assert self._runner.run(self._broker.ready()), self._broker.log
        self.address = Address.of(self._broker.runtime_dir)

    def end(self, *, kill: bool = False) -> None:
        """End it, as an operator or as the kernel does."""
        if kill:
            self._runner.run(self.process.kill())
        else:
            assert self._runner.run(self.process.terminate()) == 0

    def close(self) -> None:
        """Make sure that nothing of it is left."""
        self.process.close()
        self._runner.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def ticket(self) -> str:
        """A ticket for one stream."""
        url, headers = f"{self.address.url}/api/tickets", self.address.bearer
        return str(httpx.post(url, headers=headers, json={}, timeout=PATIENCE_S).json()["ticket"])

    # What it records

    def receipts(self, session: str, count: int) -> None:
        """Record receipts of a session."""
        requests = _receipts_of(session, count)
        self._note_receipts(self._on_the_bus(lambda bus: bus.emit(requests)))

    def receipts_amid_a_kill(self, session: str, count: int, answered: int) -> None:
        """Record receipts, kill the broker once some of them are answered, and have the next one record the rest."""
        requests = _receipts_of(session, count)
        self._on_the_bus(lambda bus: self._kill_amid(bus, requests, answered))
        self.start()
        # Whether it was recorded or not: by its key it is recorded once.
        self._note_receipts(self._on_the_bus(lambda bus: bus.emit(requests)))

    def signals(self, thread: str, count: int, size: int = 10) -> None:
        """Record signals of a thread; of one that is deleted there are none."""
        line = self.world.lines[f"signals/codex/{thread}"]
        if line.reason == "deleted":
            return
        new = list[ObservedSignal]()
        for _ in range(count):
            number = self._next()
            new.append(signal(thread, params={"number": number, "delta": "x" * size}))
            line.records.append((thread, line.head + 1, EVENT, number))
        self._observe(new)

    def delete(self, thread: str) -> None:
        """Have a thread be deleted: nothing of it is kept."""
        line = self.world.lines[f"signals/codex/{thread}"]
        if line.reason == "deleted":
            return
        number = self._next()
        line.records.append((thread, line.head + 1, _DELETED, number))
        self._observe([signal(thread, event=_DELETED, method="thread/deleted", params={"number": number})])
        for topic in (f"signals/codex/{thread}", f"transcript/{thread}"):
            line = self.world.lines[topic]
            line.floor, line.reason, line.look = line.head, "deleted", None

    def entries(self, thread: str, message_id: str, count: int) -> None:
        """Change an entry of a transcript; a thread that is deleted has none."""
        line = self.world.lines[f"transcript/{thread}"]
        if line.reason == "deleted":
            return
        texts = [f"{self._next()}\n\u2028\r" for _ in range(count)]

        async def upsert(bus: lifebus.Bus) -> None:
            for text in texts:
                entry = TranscriptEntry(
                    message_id=message_id,
                    turn_id="t",
                    role=EntryRole.USER,
                    type="note",
                    content=text,
                    status=EntryStatus.STREAMING,
                )
                await bus.transcripts.upsert(thread, entry)

        self._on_the_bus(upsert)
        line.records += [(thread, message_id, text) for text in texts]

    def job(self, thread: str) -> None:
        """Have a job be done."""
        job_id, project = f"j{self._next()}", f"session:{thread}"
        new = NewJob(type="command", project_id=project, payload={"argv": ["true"], "cwd": "/"}, job_id=job_id)

        async def have_it_done(bus: lifebus.Bus) -> None:
            await bus.jobs.enqueue(new)
            await bus.jobs.wait(job_id)

        self._on_the_bus(have_it_done)
        self.world.lines[f"queue/{project}"].records += [(it, job_id) for it in ("queued", "started", "completed")]

    # What it loses

    def prune(self, through: int) -> None:
        """Drop receipts up to a position."""
        answer = self._on_the_bus(lambda bus: bus.ledger.prune(through))
        self.world.lines["receipts"].floor = answer.floor
        assert answer.floor == through

    def replace_ledger(self) -> None:
        """Begin anew with an empty ledger."""
        self.end()
        shutil.rmtree(self.process.ledger_path.parent)
        self.start()
        self._begin_history()

    def _begin_history(self) -> None:
        """Each thread is known by a first signal; nothing else is recorded yet."""
        self.world.lines = {topic: Line() for topic in TOPICS}
        self.world.history += 1
        self._sequences.clear()
        for thread in THREADS:
            self.world.lines[f"signals/codex/{thread}"].look = lambda thread=thread: self._floor_of(thread)
            self.signals(thread, 1)

    def _floor_of(self, thread: str) -> int:
        """Up to which number the signals of a thread are gone, asked for beside the gateway."""
        asked = ThreadsQuery(adapter_id="codex", thread=thread)
        found = self._on_the_bus(lambda bus: bus._connection.ask("threads", asked, ThreadHeads, timeout=PATIENCE_S))
        return found.threads[0].floor

    def _note_receipts(self, emitted: Sequence[Emitted]) -> None:
        line = self.world.lines["receipts"]
        for made in sorted(emitted, key=lambda one: one.positions):
            assert made.refusal is None
            for receipt, position in zip(made.receipts, made.positions, strict=True):
                assert position == line.head + 1
                session = str(receipt.harness_session_id)
                self._sequences[session] = self._sequences.get(session, 0) + 1
                sequence, name = self._sequences[session], receipt.event.value
                line.records.append((session, position, sequence, receipt.receipt_id, name))

    async def _kill_amid(self, bus: lifebus.Bus, requests: Sequence[Any], answered: int) -> None:
        waiting = [asyncio.ensure_future(bus.emit(request)) for request in requests]
        for one in waiting[:answered]:
            await one
        await self.process.kill()
        for one in waiting:
            one.cancel()
        found = await asyncio.gather(*waiting, return_exceptions=True)
        assert all(isinstance(one, Emitted | LifebusError | asyncio.CancelledError) for one in found), found

    def _observe(self, new: Sequence[ObservedSignal]) -> None:
        async def observe(bus: lifebus.Bus) -> None:
            observer = Observer(bus, f"o{self._next()}")
            for start in range(0, len(new), _BATCH):
                await observer.observe(*new[start : start + _BATCH])

        self._on_the_bus(observe)

    def _on_the_bus(self, do: Callable[[lifebus.Bus], Awaitable[T]]) -> T:
        async def connected() -> T:
            async with lifebus.connect("test", runtime_dir=self.process.runtime_dir, timeout=PATIENCE_S) as bus:
                return await do(bus)

        return self._runner.run(connected())

    def _next(self) -> int:
        self._serial += 1
        return self._serial


def _receipts_of(session: str, count: int) -> list[Any]:
    return [lifebus.make_request("session.started", "codex", session=session) for _ in range(count)]
