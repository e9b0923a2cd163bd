"""Streams of the gateway: whatever carries them, every record comes once, in order, from where a client was."""

import json
from collections.abc import Sequence
from contextlib import AsyncExitStack, nullcontext
from types import SimpleNamespace
from typing import Any

import anyio
import httpx
import msgspec
import pytest
from websockets.asyncio.client import ClientConnection
from websockets.exceptions import ConnectionClosed

import lifebus
from lifebus_contract.jobs import NewJob, SuggestionStatus
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.http.events import EventResponse
from lifebus_transports.http.following import pages
from lifebus_transports.http.following import stream as streams
from lifebus_transports.http.following.frames import PongFrame
from support.broker_process import until
from support.integration.observing import EVENT, signal
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.gateway import Address, emit, next_frame, plain_connection, running_gateway, sequences_of


def positions(frames: Sequence[Any]) -> list[int]:
    return [frame["payload"]["position"] for frame in frames if frame["type"] == "receipt"]


async def take(socket: ClientConnection, count: int) -> list[Any]:
    return [await next_frame(socket) for _ in range(count)]


async def test_receipts_come_over_both_kinds_of_streams_in_the_same_frames() -> None:
    async with (
        running_gateway() as (daemon, address),
        connected(daemon) as bus,
        address.socket() as socket,
        address.events() as events,
    ):
        ready = await next_frame(socket)
        assert (ready["type"], ready["payload"]["resume"]) == ("ready", "none")
        assert await anext(events) == ready
        await emit(bus, "s1", 2)
        async with address.client() as client:
            page = (await client.get("/api/receipts")).json()
        for recorded in page["items"]:
            frame = await next_frame(socket)
            assert await anext(events) == frame
            assert (frame["type"], frame["threadId"], frame["topic"]) == ("receipt", "s1", "receipts")
            assert frame["payload"] == recorded
        assert [one["position"] for one in page["items"]] == [1, 2]


@pytest.mark.parametrize("kind", ["socket", "events"])
async def test_a_client_that_comes_back_continues_exactly_where_it_was(kind: str) -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1", 3)
        last, seen = None, list[int]()
        for more in (0, 2, 1):
            await emit(bus, "s1", more)
            ready, frames = await follow(kind, address, last, until=daemon.bus.ledger.head)
            assert ready["payload"]["resume"] == ("none" if last is None else "complete")
            assert ready["payload"]["missing"] == []
            seen += positions(frames)
            last = frames[-1]["id"]
        assert seen == [1, 2, 3, 4, 5, 6]


async def follow(kind: str, address: Address, last: str | None, until: int) -> tuple[Any, list[Any]]:
    """Follow receipts up to a position."""
    frames: list[Any] = []
    if kind == "events":
        async with address.events("?from=oldest", last) as events:
            ready = await anext(events)
            while until not in positions(frames):
                frames.append(await anext(events))
        return ready, frames
    query = "?from=oldest" + ("" if last is None else f"&lastEventId={last}")
    async with address.socket(query) as socket:
        ready = await next_frame(socket)
        while until not in positions(frames):
            frames.append(await next_frame(socket))
    return ready, frames


async def test_a_client_is_told_what_was_pruned_while_it_was_away() -> None:
    async with running_gateway(retention=RetentionSettings(keep_days=0)) as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1", 5)
        _, frames = await follow("socket", address, None, until=2)
        last = next(frame["id"] for frame in frames if positions([frame]) == [2])
        await daemon.bus.ledger.prune(4, b"{}")
        async with address.socket(f"?lastEventId={last}") as socket:
            ready = await next_frame(socket)
            assert ready["payload"]["resume"] == "incomplete"
            assert ready["payload"]["missing"] == [{"topic": "receipts", "after": 2, "through": 4, "reason": "pruned"}]
            assert positions([await next_frame(socket)]) == [5]


async def test_what_goes_while_a_stream_is_open_and_before_it_was_sent_is_a_gap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    released, real = anyio.Event(), pages.Pages.read

    async def held(self: Any, topic: Any, after: int) -> Any:
        await released.wait()
        return await real(self, topic, after)

    monkeypatch.setattr(pages.Pages, "read", held)
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        async with (
            address.socket("?topic=signals/codex/t1&topic=receipts") as socket,
            address.events("?topic=receipts") as events,
        ):
            for first in (await next_frame(socket), await anext(events)):
                assert (first["type"], first["payload"]["resume"]) == ("ready", "none")
            await emit(bus, "s1", 5)
            await bus.ledger.prune(4)
            await daemon.signals.record("o", 1, "codex", [signal(), signal()])
            await daemon.signals.forget("codex", "t1")
            released.set()
            pruned = {"topic": "receipts", "after": 0, "through": 4, "reason": "pruned"}
            deleted = {"topic": "signals/codex/t1", "after": 0, "through": 2, "reason": "deleted"}
            frames = [await next_frame(socket)]
            while frames[-1]["type"] != "receipt":
                frames.append(await next_frame(socket))
            assert [one["payload"] for one in frames if one["type"] == "gap"] == [deleted, pruned]
            assert positions(frames) == [5]
            assert (await anext(events))["payload"] == pruned
            assert positions([await anext(events)]) == [5]
        # The id of a gap leads on behind it.
        last = next(one["id"] for one in frames if one["type"] == "gap" and one["payload"] == pruned)
        async with address.socket(f"?topic=signals/codex/t1&topic=receipts&lastEventId={last}") as socket:
            assert (await next_frame(socket))["payload"]["resume"] == "complete"
            assert positions([await next_frame(socket)]) == [5]


async def test_a_client_of_another_history_is_told_that_its_number_says_nothing_here() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1", 2)
        _, frames = await follow("socket", address, None, until=2)
        digest, _, rest = frames[-1]["id"].split("~", 2)
        async with address.socket(f"?lastEventId={digest}~{'0' * 32}~{rest}") as socket:
            ready = await next_frame(socket)
            assert [one["reason"] for one in ready["payload"]["missing"]] == ["other_history"]
            # Everything that this history has follows.
            assert positions(await take(socket, 2)) == [1, 2]


async def test_a_last_id_of_other_topics_is_refused() -> None:
    async with running_gateway() as (_, address), address.client() as client:
        async with address.socket() as socket:
            last = (await next_frame(socket))["id"]
        for wrong in (last, "x", last.replace("~0", "~0.0"), last + "9" * 20, "~~~"):
            answer = await client.get("/api/events", params={"topic": "queue/p", "lastEventId": wrong})
            assert (answer.status_code, answer.json()["code"]) == (400, "invalid_request")


async def test_filters_choose_receipts_and_the_place_moves_on_past_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "KEEP_ALIVE_S", 0.05)
    query = "?adapter=codex&session=b&from=oldest"
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.socket(query) as socket:
        assert (await next_frame(socket))["type"] == "ready"
        for session in ("a", "b", "a"):
            await emit(bus, session)
        frames = [await next_frame(socket)]
        while frames[-1]["type"] != "cursor" or not frames[-1]["id"].endswith("~3"):
            frames.append(await next_frame(socket))
        assert [frame["threadId"] for frame in frames if frame["type"] == "receipt"] == ["b"]
        assert positions(frames) == [2]


async def test_several_topics_come_over_one_connection_and_each_continues() -> None:
    topics = f"?topic=receipts&topic=signals/codex/{signal().thread}&from=oldest"
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1")
        await daemon.signals.record("o", 1, "codex", [signal()])
        async with address.socket(topics) as socket:
            await next_frame(socket)
            frames = await take(socket, 2)
        assert {frame["type"] for frame in frames} == {"receipt", EVENT}
        await daemon.signals.record("o", 2, "codex", [signal()])
        async with address.socket(f"{topics}&lastEventId={frames[-1]['id']}") as socket:
            assert (await next_frame(socket))["payload"]["resume"] == "complete"
            frame = await next_frame(socket)
            assert (frame["type"], frame["payload"]["sequence"]) == (EVENT, 2)
            assert frame["payload"]["signal"]["eventType"] == EVENT


async def test_a_topic_with_much_to_send_does_not_hold_up_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "ROWS", 4)
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1", 13)
        await daemon.signals.record("o", 1, "codex", [signal()] * 5)
        async with address.socket(f"?topic=receipts&topic=signals/codex/{signal().thread}&from=oldest") as socket:
            await next_frame(socket)
            frames = await take(socket, 18)
    kinds = "".join("r" if frame["type"] == "receipt" else "s" for frame in frames)
    assert kinds == "rrrr" + "ssss" + "rrrr" + "s" + "rrrrr"
    assert positions(frames) == list(range(1, 14))


async def test_a_session_is_followed_with_its_transcript_and_its_jobs() -> None:
    entry = TranscriptEntry(
        message_id="m", turn_id="t", role=EntryRole.USER, type="note", content="hi\nyou", status=EntryStatus.STREAMING
    )
    async with running_gateway(whole=True) as (daemon, address), address.socket("?threadId=s1") as socket:
        assert (await next_frame(socket))["payload"]["resume"] == "none"
        await daemon.signals.record("o", 1, "codex", [signal("s1"), signal("s2")])
        assert (await next_frame(socket))["topic"] == "signals/codex/s1"
        for status in (EntryStatus.STREAMING, EntryStatus.COMPLETE):
            changed = msgspec.structs.replace(entry, status=status, details=status)
            await sessions_of(daemon).transcripts.store.upsert("s1", changed)
        deltas = await take(socket, 2)
        assert [(one["type"], one["topic"], one["threadId"]) for one in deltas] == [
            ("transcript_updated", "transcript/s1", "s1")
        ] * 2
        assert [one["payload"]["entry"]["status"] for one in deltas] == ["streaming", "complete"]
        payload = {"argv": ["true"], "cwd": "/"}
        new = NewJob(type="command", project_id="session:s1", payload=payload, job_id="j", source_session_id="s1")
        await sessions_of(daemon).queue.enqueue(new)
        jobs = await take(socket, 3)
        assert [one["type"].removeprefix("orchestrator_job_") for one in jobs] == ["queued", "started", "completed"]
        assert {(one["topic"], one["threadId"], one["payload"]["jobId"]) for one in jobs} == {
            ("queue/session:s1", "s1", "j")
        }
        # Each of the ids leads on from its place, whatever kind of event it came with.
        async with address.events("?threadId=s1", deltas[0]["id"]) as events:
            assert (await anext(events))["payload"]["resume"] == "complete"
            rest = [await anext(events) for _ in range(4)]
        assert sorted(one["type"] for one in rest) == sorted(one["type"] for one in (deltas[1], *jobs))


async def test_a_session_whose_id_is_as_long_as_can_be_is_followed_under_the_project_it_has() -> None:
    thread = "t" * 200
    async with running_gateway(whole=True) as (daemon, address), address.socket(f"?threadId={thread}") as socket:
        await next_frame(socket)
        await daemon.signals.record("o", 1, "codex", [signal(thread)])
        assert (await next_frame(socket))["topic"] == f"signals/codex/{thread}"
        await sessions_of(daemon).transcripts.suggestions.upsert(thread, "k", SuggestionStatus.STREAMING)
        told = await next_frame(socket)
        assert (told["type"], told["threadId"]) == ("suggested_request_updated", thread)


async def test_a_client_of_a_socket_may_change_what_it_follows() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.socket() as socket:
        await next_frame(socket)
        await socket.send('{"type":"ping"}')
        assert (await next_frame(socket))["type"] == "pong"
        await socket.send('{"type":"subscribe","threadId":"t"}')
        ready = await next_frame(socket)
        assert ready["threadId"] == "t"
        assert [one["topic"] for one in ready["payload"]["topics"]] == [
            "signals/codex/t",
            "transcript/t",
            "queue/session:t",
        ]
        await emit(bus, "s1")  # is not followed any more
        await socket.send('{"type":"unsubscribe"}')
        for wrong in ("{", "[]", '{"type":"shout"}', '{"type":"subscribe","topics":["nothing"]}', b"\x00"):
            await socket.send(wrong)
            assert (await next_frame(socket))["type"] == "error"
        await socket.send('{"type":"subscribe","topics":["receipts"]}')
        assert (await next_frame(socket))["payload"]["topics"] == [{"topic": "receipts", "after": 1, "head": 1}]


async def test_a_client_of_a_socket_may_begin_with_the_oldest_record_of_what_it_follows_next() -> None:
    async with running_gateway() as (daemon, address), address.socket() as socket:
        await next_frame(socket)
        await daemon.signals.record("o", 1, "codex", [signal("t1"), signal("t1")])
        for beginning, after in ((',"from":"oldest"', 0), ("", 2), (',"from":"now"', 2)):
            await socket.send('{"type":"subscribe","topics":["signals/codex/t1"]' + beginning + "}")
            ready = await next_frame(socket)
            assert [one["after"] for one in ready["payload"]["topics"]] == [after]
            if not after:
                assert [one["payload"]["sequence"] for one in await take(socket, 2)] == [1, 2]
        await socket.send('{"type":"subscribe","from":"yesterday"}')
        assert (await next_frame(socket))["type"] == "error"
        # Where nothing is said, what the address said counts.
        async with address.socket("?from=oldest&topic=queue/p") as other:
            await next_frame(other)
            await other.send('{"type":"subscribe","topics":["signals/codex/t1"]}')
            assert (await next_frame(other))["payload"]["topics"][0]["after"] == 0


async def test_a_batch_holds_a_frame_in_each_line() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus:
        await emit(bus, "s1", 3)
        async with address.socket("?from=oldest&batch=true") as socket:
            await next_frame(socket)
            message = str(await socket.recv())
            assert positions([json.loads(line) for line in message.splitlines()]) == [1, 2, 3]


@pytest.mark.parametrize("kind", ["socket", "events"])
async def test_a_client_that_does_not_read_is_let_go_and_loses_nothing(kind: str) -> None:
    topic = "?topic=signals/codex/t1&from=oldest"
    path = "/api/stream" if kind == "socket" else "/api/events"
    async with running_gateway(send_timeout_ms=100) as (daemon, address):
        with plain_connection(address, path + topic, upgrade=kind == "socket"), anyio.fail_after(PATIENCE_S):
            number = 0
            # More than the buffers of both sides, of which nobody reads anything.
            while not daemon.gateway.ended_slow:
                number += 1
                await daemon.signals.record("o", number, "codex", [signal(size=60_000)])
        # Nothing of what waited for it stays: its connection is gone, too.
        await until(lambda: daemon.gateway.streams == 0)
        assert await sequences_of(address, topic, number) == list(range(1, number + 1))


async def test_a_client_that_does_not_read_the_last_record_there_is_counts_as_one_that_does_not_read() -> None:
    idle: Any = SimpleNamespace(following=nullcontext, read=anyio.sleep_forever)
    following: Any = SimpleNamespace(counters=GatewayCounters(), send_s=0.01, closing=anyio.Event())
    sent, aborted = list[Any](), list[bool]()

    async def send(message: Any) -> None:
        if sent and sent[-1]["type"] == "http.response.body":  # the buffers are full, and the next piece waits
            await anyio.sleep_forever()
        sent.append(message)

    response = EventResponse(following, idle, PongFrame())
    with anyio.fail_after(PATIENCE_S):
        await response({"state": {"abort": lambda: aborted.append(True)}}, anyio.sleep_forever, send)  # type: ignore[arg-type]
    assert (len(sent), following.counters.ended_slow, aborted) == (2, 1, [True])


async def test_a_client_that_is_late_is_told_so_and_gets_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "BEHIND", 3)
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.socket() as late:
        await next_frame(late)
        await emit(bus, "s1")
        assert positions([await next_frame(late)]) == [1]
        await bus.emit([lifebus.make_request("session.started", "codex", session=f"s{n}") for n in range(10)])
        frames = [await next_frame(late)]
        while frames[-1]["type"] != "caught_up":
            frames.append(await next_frame(late))
        assert positions(frames) == list(range(2, 12))
        kinds = [frame["type"] for frame in frames if frame["type"] != "receipt"]
        assert kinds == ["behind", "caught_up"]


async def test_a_broker_that_stops_ends_its_streams_at_once() -> None:
    async with running_gateway() as (_, address):
        opened = AsyncExitStack()
        socket = await opened.enter_async_context(address.socket())
        events = await opened.enter_async_context(address.events())
        assert (await next_frame(socket))["type"] == (await anext(events))["type"] == "ready"
    async with opened:
        with pytest.raises(ConnectionClosed) as ended:
            await next_frame(socket)
        assert ended.value.rcvd is not None
        assert ended.value.rcvd.code == 1012
        with pytest.raises((StopAsyncIteration, httpx.RemoteProtocolError)):
            await anext(events)


async def test_messages_are_compressed_where_the_settings_and_the_client_want_it() -> None:
    for wanted in (True, False):
        async with running_gateway(compression=wanted) as (daemon, address), connected(daemon) as bus:
            await emit(bus, "s1", 3)
            async with address.socket("?from=oldest", compression="deflate") as socket:
                extensions = socket.response.headers.get("Sec-WebSocket-Extensions", "") if socket.response else ""
                assert ("permessage-deflate" in extensions) is wanted
                await next_frame(socket)
                assert positions(await take(socket, 3)) == [1, 2, 3]
            async with address.client() as client:
                answer = await client.get("/api/receipts", headers={"Accept-Encoding": "gzip"})
                assert answer.headers.get("content-encoding") == ("gzip" if wanted else None)
                assert len(answer.json()["items"]) == 3


async def test_what_many_followers_wait_for_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[tuple[object, int]] = []
    real = pages.Pages._ask  # pyright: ignore[reportPrivateUsage]  what reads from the broker

    async def counting(self: Any, topic: Any, after: int, epoch: str | None, limit: int) -> Any:
        if limit > 1:
            read.append((topic, after))
        return await real(self, topic, after, epoch, limit)

    monkeypatch.setattr(pages.Pages, "_ask", counting)
    async with running_gateway() as (daemon, address), connected(daemon) as bus, AsyncExitStack() as stack:
        sockets = [await stack.enter_async_context(address.socket()) for _ in range(20)]
        for socket in sockets:
            await next_frame(socket)
        await emit(bus, "s1")
        for socket in sockets:
            assert positions([await next_frame(socket)]) == [1]
    # Each of the two places is read anew only after something was recorded.
    assert len([one for one in read if one[1] == 1]) < 20
