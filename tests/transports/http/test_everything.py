"""What is followed without a topic: receipts, signals, queue and transcripts, over one connection with one place."""

import json
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import anyio
import hypothesis.strategies as st
import pytest
from hypothesis import given

import lifebus
from lifebus_broker.signals.order_positions import KeptPositions
from lifebus_broker.state.sealed import SealedInMemory
from lifebus_contract import LifebusError
from lifebus_contract.jobs import NewJob
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.http.following import order_log
from lifebus_transports.http.following import stream as streams
from lifebus_transports.http.following.order import SignalLine, SignalOrder, ThreadRange
from lifebus_transports.http.following.order_log import OrderLog
from support.integration.observing import signal
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus
from support.transcripts.boxes import entry
from support.transports.gateway import Address, emit, next_frame, running_gateway

EVERYTHING = ["receipts", "signals", "queue", "transcripts"]


def job(job_id: str) -> NewJob:
    # It waits for ever, so that it has one event.
    return NewJob(
        type="command", project_id="p", payload={"argv": ["true"], "cwd": "/"}, job_id=job_id, not_before_ms=2**52
    )


async def happen(daemon: Daemon, bus: lifebus.Bus, name: str, number: int) -> None:
    """One record of each of the four."""
    await emit(bus, name)
    await daemon.signals.record("o", number, "codex", [signal(name)])
    await sessions_of(daemon).queue.enqueue(job(f"{name}-{number}"))
    await sessions_of(daemon).transcripts.store.upsert(name, entry(f"m{number}"))


async def follow(address: Address, count: int, last: str = "", query: str = "?from=oldest") -> tuple[Any, list[Any]]:
    """The first frame, and so many more."""
    async with address.socket(f"{query}&lastEventId={last}" if last else query) as socket:
        return (await next_frame(socket))["payload"], [await next_frame(socket) for _ in range(count)]


def seen(frames: Sequence[Any]) -> list[tuple[str, str]]:
    """Each frame as its topic and its type."""
    return sorted((frame["topic"], frame["type"]) for frame in frames)


ONE_OF_EACH = [
    ("queue/p", "orchestrator_job_queued"),
    ("receipts", "receipt"),
    ("signals/codex/s1", "app_server.item.agent_message.delta"),
    ("transcript/s1", "transcript_updated"),
]


async def test_everything_comes_over_one_connection_and_every_id_leads_on() -> None:
    async with running_gateway(whole=True) as (daemon, address), connected(daemon) as bus:
        async with address.socket() as socket:
            ready = (await next_frame(socket))["payload"]
            assert ([one["topic"] for one in ready["topics"]], ready["resume"]) == (EVERYTHING, "none")
            await happen(daemon, bus, "s1", 1)
            live = [await next_frame(socket) for _ in range(4)]
        assert seen(live) == ONE_OF_EACH
        await happen(daemon, bus, "s1", 2)
        for at, frame in enumerate(live):
            ready, rest = await follow(address, 7 - at, frame["id"], "?batch=false")
            assert (ready["resume"], ready["missing"]) == ("complete", [])
            assert seen([*live[: at + 1], *rest]) == sorted(ONE_OF_EACH * 2)
            assert rest[-1]["id"].count("~") == frame["id"].count("~")
        ids = [frame["id"] for frame in (await follow(address, 8))[1]]
        assert len(set(ids)) == 8


async def test_the_place_in_everything_is_good_after_a_restart(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, whole=True) as (daemon, address), connected(daemon) as bus:
        await happen(daemon, bus, "s1", 1)
        await happen(daemon, bus, "s2", 2)
        _, frames = await follow(address, 8)
    async with running_gateway(tmp_path, whole=True) as (daemon, address), connected(daemon) as bus:
        await happen(daemon, bus, "s1", 3)
        for at in (3, 7):
            ready, more = await follow(address, 11 - at, frames[at]["id"])
            assert (ready["resume"], ready["missing"]) == ("complete", [])
            assert seen([*frames[: at + 1], *more]) == sorted([*seen(frames), *ONE_OF_EACH])
            whole = [json.dumps([one["topic"], one["payload"]]) for one in (*frames[: at + 1], *more)]
            assert len(set(whole)) == 12


async def test_what_came_while_there_was_no_gateway_comes_behind_what_came_before(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, whole=True) as (daemon, address), connected(daemon) as bus:
        await happen(daemon, bus, "s1", 1)
        _, frames = await follow(address, 4)
    async with running_bus(whole=True, directory=tmp_path) as daemon, connected(daemon) as bus:
        await happen(daemon, bus, "s1", 2)
    async with running_gateway(tmp_path, whole=True) as (_, address):
        ready, more = await follow(address, 4, frames[-1]["id"])
        assert (ready["resume"], seen(more)) == ("complete", ONE_OF_EACH)


async def test_what_a_thread_has_lost_between_others_is_told_at_once_and_in_its_place() -> None:
    async with running_gateway(whole=True) as (daemon, address), connected(daemon) as bus:
        begin = (await follow(address, 0, query="?topic=signals"))[0]
        assert begin["topics"] == [{"topic": "signals", "after": 0, "head": 0}]
        for number, thread in enumerate(("a", "b", "a", "c"), 1):
            await daemon.signals.record("o", number, "codex", [signal(thread)])
        await daemon.signals.drop_through("codex", "a", 1)
        await daemon.signals.forget("codex", "b")
        async with address.socket("?topic=signals&from=oldest") as socket:
            first = (await next_frame(socket))["id"]
        ready, frames = await follow(address, 4, first, "?topic=signals")
        lost = [("signals/codex/a", 0, 1, "pruned"), ("signals/codex/b", 0, 1, "deleted")]
        named = [(one["topic"], one["after"], one["through"], one["reason"]) for one in ready["missing"]]
        assert (ready["resume"], named) == ("incomplete", lost)
        gaps = [frame["payload"] for frame in frames if frame["type"] == "gap"]
        assert [(one["topic"], one["after"], one["through"], one["reason"]) for one in gaps] == lost
        assert [frame.get("topic", "gap") for frame in frames] == [
            "gap",
            "gap",
            "signals/codex/a",
            "signals/codex/c",
        ]
        # Who was behind what is lost misses nothing.
        ready, _ = await follow(address, 2, frames[1]["id"], "?topic=signals")
        assert (ready["resume"], ready["missing"]) == ("complete", [])
        await emit(bus, "s1")


async def test_the_transcript_of_a_worker_is_for_who_follows_exactly_that() -> None:
    async with running_gateway(whole=True) as (daemon, address):
        await daemon.signals.record("o", 1, "codex", [signal("s1"), signal("s2")])
        await sessions_of(daemon).transcripts.marks.mark_system("s1", 1)
        await sessions_of(daemon).transcripts.store.upsert("s1", entry())
        await sessions_of(daemon).transcripts.store.upsert("s2", entry())
        _, (frame,) = await follow(address, 1, query="?topic=transcripts&from=oldest")
        assert frame["topic"] == "transcript/s2"
        _, (frame,) = await follow(address, 1, query="?topic=transcript/s1&from=oldest")
        assert frame["topic"] == "transcript/s1"


async def test_the_place_moves_on_past_what_comes_behind_the_last_one_that_is_wanted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.05)
    async with (
        running_gateway(whole=True) as (daemon, address),
        connected(daemon) as bus,
        address.client() as client,
        client.stream("GET", "/api/events?adapter=codex&session=b") as answer,
    ):
        lines = answer.aiter_lines()
        await emit(bus, "b")
        assert "receipt" in await next_of(lines, '"type":"receipt"')
        # Whatever wakes the others wakes nobody here.
        for number in (2, 3):
            await emit(bus, "a")
            assert f"~{number}" in await next_of(lines, '"type":"cursor"')
            idle = [await next_of(lines, ": here", '"type":"cursor"') for _ in range(3)]
            assert not [one for one in idle if "cursor" in one]


async def next_of(lines: AsyncIterator[str], *wanted: str) -> str:
    """The next line that holds one of some texts."""
    with anyio.fail_after(PATIENCE_S):
        return await anext(line async for line in lines if any(one in line for one in wanted))


async def test_filters_leave_the_receipts_that_they_choose() -> None:
    async with running_gateway(whole=True) as (_, address):
        ready, _ = await follow(address, 0, query="?adapter=codex")
        assert [one["topic"] for one in ready["topics"]] == ["receipts"]
        for wrong in ("?topic=signals/", "?topic=queue/", "?topic=transcript", "?topic=transcripts/s"):
            async with address.client() as client:
                assert (await client.get(f"/api/events{wrong}")).status_code == 400, wrong


@given(
    added=st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 3)), max_size=40),
    keep=st.integers(1, 50),
    data=st.data(),
)
def test_a_line_gives_back_what_was_added_from_every_place(added: list[tuple[str, int]], keep: int, data: Any) -> None:
    line, model, heads = SignalLine(keep), list[tuple[str, int]](), dict[str, int]()
    for thread, many in added:
        first = heads.get(thread, 0) + 1
        heads[thread] = first + many - 1
        line.add(ThreadRange("x", thread, first, heads[thread], len(model)))
        model += [(thread, number) for number in range(first, first + many)]
    assert line.head == len(model)
    place = data.draw(st.integers(line.floor, line.head))
    found = list(line.after(place))
    assert [(one.thread, number) for one in found for number in range(one.first, one.last + 1)] == model[place:]
    assert [one.end for one in found[:-1]] == [one.before for one in found[1:]]


class Kept:
    """A journal in memory; with `fault`, nothing can be written."""

    def __init__(self) -> None:
        self.epoch = "e"
        self.records: dict[int, bytes] = {}
        self.fault = False
        self._numbers = count(1)

    async def load(self) -> list[tuple[int, bytes]]:
        return list(self.records.items())

    async def append(self, body: bytes) -> int:
        if self.fault:
            self.fault = False
            raise LifebusError("the disk is full", code="disk_full")
        number = next(self._numbers)
        self.records[number] = body
        return number

    async def drop(self, through: int) -> None:
        for number in [one for one in self.records if one <= through]:
            del self.records[number]


async def ordered(kept: Kept, *notes: tuple[str, str, int], most: int = 1_000) -> SignalOrder:
    """The order of a gateway that begins with what is kept, notes these, and is killed."""
    order = SignalOrder(KeptPositions(SealedInMemory()))
    log = OrderLog(order, kept, lambda _: None, max_records=most)
    await log.load()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(log.run)
        for adapter, thread, last in notes:
            log.note(adapter, thread, last)
            with anyio.fail_after(PATIENCE_S):
                while order.kept.get((adapter, thread)) < last:
                    await anyio.lowlevel.checkpoint()
        tasks.cancel_scope.cancel()
    return order


def places(order: SignalOrder) -> list[tuple[str, int, int]]:
    """Every signal of app-servers with its place, from the floor on."""
    line = order.line("signals")
    return [
        (one.thread, number, one.before + number - one.first + 1)
        for one in line.after(line.floor)
        for number in range(one.first, one.last + 1)
    ]


async def test_an_order_is_the_same_for_the_next_broker_and_a_full_disk_delays_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(order_log, "_PAUSE_S", 0.0)
    kept = Kept()
    kept.fault = True
    first = await ordered(kept, ("codex", "a", 2), ("lifebus", "queue/p", 1), ("codex", "b", 1), ("codex", "a", 3))
    again = await ordered(kept, ("codex", "b", 2))
    assert places(first) == [("a", 1, 1), ("a", 2, 2), ("b", 1, 3), ("a", 3, 4)]
    assert places(again) == [*places(first), ("b", 2, 5)]
    kept.epoch = "another history of the signals"
    assert places(await ordered(kept, ("codex", "a", 1))) == [("a", 1, 1)]
    assert len(kept.records) == 1


async def test_an_order_that_is_shortened_gives_no_place_twice() -> None:
    kept = Kept()
    notes = [("codex", thread, number) for number in range(1, 21) for thread in "ab"]
    first = await ordered(kept, ("codex", "quiet", 1), *notes, most=8)
    again = await ordered(kept, ("codex", "quiet", 1), ("codex", "quiet", 2))
    assert len(kept.records) < 14
    assert again.line("signals").floor > 0
    assert places(again)[-1] == ("quiet", 2, 42)
    assert places(again)[:-1] == places(first)[-len(places(again)) + 1 :]


def test_what_was_recorded_before_it_was_told_of_is_in_the_order() -> None:
    order = SignalOrder(KeptPositions(SealedInMemory()))
    order.note("codex", "t", 5, floor=2)
    order.note("codex", "t", 4)
    order.note("codex", "t", 8)
    order.note("lifebus", "queue/p", 1)
    taken = order.take(10)
    assert [(one.thread, one.first, one.last, one.before) for one in taken] == [
        ("t", 3, 5, 0),
        ("t", 6, 8, 3),
        ("queue/p", 1, 1, 0),
    ]
    assert order.line("signals").head == 0  # nobody sees it before it is kept
    assert order.add(taken) == {"signals", "queue"}
    assert order.line("signals").head == 6
