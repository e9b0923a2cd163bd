"""A client written from docs/wire-protocol.md alone: plain ZeroMQ, any MessagePack library, no code of ours."""

import hashlib
import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgpack
import zmq

from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import running_bus


class Foreigner:
    """What a programmer in another language would write first."""

    def __init__(self, context: "zmq.Context[zmq.Socket[bytes]]", runtime_dir: Path) -> None:
        self.runtime_dir = runtime_dir
        self._context = context
        self._sockets: list[zmq.Socket[bytes]] = []
        self._requests = self._connected(zmq.DEALER, "requests.ipc")
        self._number = 0

    def _connected(self, kind: int, name: str) -> "zmq.Socket[bytes]":
        connected = self._context.socket(kind)
        connected.setsockopt(zmq.LINGER, 0)
        connected.setsockopt(zmq.RCVTIMEO, PATIENCE_MS)
        connected.connect(f"ipc://{self.runtime_dir / name}")
        self._sockets.append(connected)
        return connected

    def close(self) -> None:
        for one in self._sockets:
            one.close()

    def send(self, number: int, verb: str, body: dict[str, Any]) -> None:
        header = b"\x01" + struct.pack(">Q", number) + verb.encode("ascii")
        self._requests.send_multipart([header, msgpack.packb(body)])

    def receive(self) -> tuple[int, str, Any]:
        header, body = self._requests.recv_multipart()
        return struct.unpack(">Q", header[1:9])[0], header[9:].decode("ascii"), msgpack.unpackb(body)

    def ask(self, verb: str, body: dict[str, Any]) -> tuple[str, Any]:
        self._number += 1
        self.send(self._number, verb, body)
        number, answer, content = self.receive()
        assert number == self._number
        return answer, content

    def emit(self, *requests: dict[str, Any]) -> list[dict[str, Any]]:
        answer, content = self.ask(
            "emit", {"client_id": "foreign", "emissions": [{"request": one} for one in requests]}
        )
        assert answer == "ok"
        return list(content["results"])

    def subscribe(self, *topics: bytes) -> "zmq.Socket[bytes]":
        subscribed = self._connected(zmq.SUB, "receipts.ipc")
        for topic in topics:
            subscribed.setsockopt(zmq.SUBSCRIBE, topic)
        return subscribed


def request(number: int, session: str = "s 1") -> dict[str, Any]:
    return {
        "schema_version": "lifeloop.v0.2",
        "event": "context.compacted",
        "event_id": f"evt_{number}",
        "adapter_id": "codex",
        "adapter_version": "0.1.0",
        "invocation_id": f"inv_{number}",
        "integration_mode": "native_hook",
        "harness_session_id": session,
        "idempotency_key": f"key-{number}",
    }


@contextmanager
def foreigner(runtime_dir: Path) -> Iterator[Foreigner]:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    client = Foreigner(context, runtime_dir)
    try:
        yield client
    finally:
        client.close()
        context.term()


async def against_a_broker(work: Callable[[Foreigner], None]) -> None:
    """Run blocking foreign code in a thread while the broker runs on this loop."""

    def run(runtime_dir: Path) -> None:
        with foreigner(runtime_dir) as client:
            work(client)

    async with running_bus(hook_answer_ms=PATIENCE_MS) as daemon:
        with anyio.fail_after(PATIENCE_S):
            await anyio.to_thread.run_sync(run, daemon.settings.runtime_dir)


async def test_the_bytes_of_a_ping_are_those_of_the_document() -> None:
    def work(client: Foreigner) -> None:
        client._requests.send_multipart([bytes.fromhex("01 00 00 00 00 00 00 00 07 70 69 6e 67"), b"\x80"])
        assert client._requests.recv_multipart() == [bytes.fromhex("01 00 00 00 00 00 00 00 07 6f 6b"), b"\x80"]

    await against_a_broker(work)


async def test_emitting_gives_canonical_receipts_and_repeating_a_key_gives_the_same_bytes() -> None:
    def work(client: Foreigner) -> None:
        first, again = client.emit(request(1)), client.emit(request(1))
        (receipt,) = first[0]["receipts"]
        plain = json.loads(receipt)

        assert json.dumps(plain, sort_keys=True, separators=(",", ":")).encode() == receipt
        assert (plain["sequence"], plain["status"]) == (1, "observed")
        assert (again[0]["receipts"], again[0]["replayed"]) == ([receipt], True)

    await against_a_broker(work)


async def test_the_same_key_with_other_content_is_refused_with_its_code() -> None:
    def work(client: Foreigner) -> None:
        client.emit(request(1))
        (result,) = client.emit({**request(1), "harness_session_id": "other"})

        assert result["refusal"]["failure_class"] == "state_conflict"
        assert result["refusal"]["code"] == "duplicate_id_conflict"

    await against_a_broker(work)


async def test_an_unknown_verb_and_an_unknown_key_are_refused_by_name() -> None:
    def work(client: Foreigner) -> None:
        verb, unknown = client.ask("nonsense", {})
        other, strange = client.ask("ping", {"surprise": 1})

        assert (verb, unknown["code"]) == ("refused", "unknown_verb")
        assert other == "refused"
        assert "surprise" in strange["detail"]

    await against_a_broker(work)


async def test_joining_by_marker_and_backfill_leaves_no_hole() -> None:
    def work(client: Foreigner) -> None:
        client.emit(*[request(number) for number in range(1, 6)])
        stream = client.subscribe(b"a/", b"h/", b"m/mine/")
        join(client, stream)
        client.emit(request(6), request(7))
        page = client.ask("backfill", {"after": 0})[1]
        live = rows_until(stream, 7)

        assert [row[0] for row in page["rows"]] == list(range(1, page["next"] + 1))
        assert {row[0] for row in [*page["rows"], *live]} == set(range(1, 8))
        assert page["complete"] is True

    await against_a_broker(work)


def join(client: Foreigner, stream: "zmq.Socket[bytes]") -> None:
    """Ask for the marker each quarter of a second until it comes; other messages may come first."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        assert client.ask("marker", {"nonce": "mine"})[0] == "ok"
        asked = time.monotonic()
        while (left := asked + 0.25 - time.monotonic()) > 0 and stream.poll(int(left * 1000)):
            if stream.recv_multipart()[0] == b"m/mine/":
                return
    raise AssertionError("the marker did not come")


def rows_until(stream: "zmq.Socket[bytes]", position: int) -> list[list[Any]]:
    rows: list[list[Any]] = []
    while not rows or rows[-1][0] < position:
        topic, epoch, body = stream.recv_multipart()
        assert len(epoch) == 32
        if topic == b"a/":
            rows += msgpack.unpackb(body)
    return rows


async def test_a_session_topic_is_percent_encoded_and_in_sequence_order() -> None:
    def work(client: Foreigner) -> None:
        stream = client.subscribe(b"r/codex/s%201/", b"m/mine/")
        join(client, stream)
        client.emit(request(1), request(2, session="other"), request(3))
        sequences: list[int] = []
        while len(sequences) < 2:
            topic, _, body = stream.recv_multipart()
            if topic == b"m/mine/":  # it was asked for more than once
                continue
            assert topic == b"r/codex/s%201/"
            sequences += [row[1] for row in msgpack.unpackb(body)]

        assert sequences == [1, 2]

    await against_a_broker(work)


async def test_signals_are_observed_followed_and_fetched_by_number() -> None:
    def work(client: Foreigner) -> None:
        stream = client.subscribe(b"s/codex/t%201/", b"hs/", b"m/mine/")
        join(client, stream)
        batch = {"client_id": "foreign", "adapter_id": "codex", "origin": "run-1", "first": 1}
        observations = [observation(1), observation(2), {"kind": "lost", "messages": 3, "bytes": 400}]
        answers = [client.ask("observe", batch | {"observations": observations}) for _ in range(2)]
        rows: list[list[Any]] = []
        beacon: dict[str, Any] = {}
        while len(rows) < 2 or beacon.get("threads") != {"s/codex/t%201/": 2}:
            topic, _, body = stream.recv_multipart()
            if topic == b"hs/":
                beacon = msgpack.unpackb(body)
            elif topic == b"s/codex/t%201/":
                rows += msgpack.unpackb(body)
        page = client.ask("signals", {"adapter_id": "codex", "thread": "t 1"})[1]

        assert answers == [("ok", {"through": 3})] * 2
        assert (
            rows == page["rows"] == [[number, "app_server.error", observation(number)["signal"]] for number in (1, 2)]
        )
        assert set(beacon) == {"epoch", "number", "closing", "threads"}
        assert (page["next"], page["head"], page["floor"], page["complete"]) == (2, 2, 0, True)
        assert client.ask("threads", {"adapter_id": "codex"})[1]["threads"] == [["t 1", 2, 0]]

    await against_a_broker(work)


def observation(number: int) -> dict[str, Any]:
    envelope = {
        "source": "app_server",
        "signalType": "notification",
        "eventType": "app_server.error",
        "method": "error",
        "receivedAt": "2026-11-22T04:00:00.000Z",
        "context": {"threadId": "t 1", "turnId": None},
        "params": {"number": number},
        "session": None,
    }
    signal = json.dumps(envelope).encode()
    return {"kind": "signal", "thread": "t 1", "event_type": "app_server.error", "signal": signal}


async def test_the_beacon_names_the_head() -> None:
    def work(client: Foreigner) -> None:
        stream = client.subscribe(b"h/")
        client.emit(request(1))
        beacon: dict[str, Any] = {}
        while beacon.get("head") != 1:
            beacon = msgpack.unpackb(stream.recv_multipart()[2])

        assert set(beacon) == {"epoch", "number", "head", "floor", "closing", "sessions"}

    await against_a_broker(work)


async def test_a_cursor_of_another_history_asks_for_a_snapshot() -> None:
    def work(client: Foreigner) -> None:
        client.emit(request(1))
        page = client.ask("backfill", {"epoch": "0" * 32, "after": 1})[1]

        assert (page["snapshot_required"], page["rows"]) == (True, [])

    await against_a_broker(work)


async def test_a_worker_serves_answers_a_dispatch_and_its_payload_reaches_the_emitter() -> None:
    def work(client: Foreigner) -> None:
        served = client.ask("serve", {"client_id": "worker", "events": ["session.started"], "deadline_ms": 2_000})
        with foreigner(client.runtime_dir) as emitter:
            emitter.send(9, "emit", {"client_id": "foreign", "emissions": [{"request": starting()}]})
            number, verb, dispatch = client.receive()
            response = {"schema_version": "lifeloop.v0.2", "status": "delivered", "client_payloads": [payload("hello")]}
            client.send(number, "response", {"response": response})
            _, answer, content = emitter.receive()
        (result,) = content["results"]

        assert (served[0], verb, answer) == ("ok", "dispatch", "ok")
        assert dispatch["envelope"]["request"]["event"] == "session.started"
        assert result["deliveries"][0]["slot"] == "pre_session"
        assert result["deliveries"][0]["payload"]["body"] == "hello"

    await against_a_broker(work)


def starting() -> dict[str, Any]:
    return {**request(1), "event": "session.started"}


def payload(body: str) -> dict[str, Any]:
    return {
        "schema_version": "lifeloop.v0.2",
        "payload_id": "pay_1",
        "client_id": "worker",
        "payload_kind": "note",
        "format": "text/plain",
        "content_encoding": "utf8",
        "byte_size": len(body),
        "content_digest": f"sha256:{hashlib.sha256(body.encode()).hexdigest()}",
        "body": body,
        "acceptable_placements": [{"placement": "developer_equivalent_frame", "requirement": "required"}],
    }


async def test_a_hook_call_is_one_header_line_stdin_and_one_answer() -> None:
    def work(client: Foreigner) -> None:
        stdin = json.dumps(
            {
                "session_id": "s9",
                "cwd": "/home/dev/project",
                "hook_event_name": "SessionStart",
                "source": "startup",
                "transcript_path": None,
                "model": "m",
                "permission_mode": "default",
            }
        ).encode()
        header = {"v": 1, "call_id": "c-1", "adapter": "codex", "hook": "SessionStart", "cwd": "/", "env": {}}
        answer = call_hook(client.runtime_dir, {**header, "size": len(stdin)}, stdin)
        sessions = client.ask("sessions", {"session": ["codex", "s9"]})[1]

        assert answer == b"0 0\n"
        assert sessions[0]["receipts"] == 2

    await against_a_broker(work)


def call_hook(runtime_dir: Path, header: dict[str, Any], stdin: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(PATIENCE_S)
        client.connect(str(runtime_dir / "hook.sock"))
        client.sendall(json.dumps(header).encode() + b"\n" + stdin)
        answer = b""
        while chunk := client.recv(65_536):
            answer += chunk
        return answer
