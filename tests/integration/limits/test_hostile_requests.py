"""Hostile input on the request door: refused or dropped, counted, not logged; honest clients never notice."""

import asyncio
import random
from pathlib import Path
from typing import Any

import msgpack
import pytest

import lifebus
from lifebus_transports.framing.frames import encode_header
from support.broker_process import BrokerProcess, broker_process, until
from support.golden import golden
from support.integration.peers import GREETING, honest_traffic, hung_up, raw_peer, ready, throw, zmtp_connection
from support.running import running_bus, short_directory

SEED = 20_251_121
MARK = b"HOSTILE-MARK"
READY = ready(b"DEALER")
MEBIBYTE = 1_048_576


def emit_body(**changes: Any) -> bytes:
    emission = golden("emission", "minimal")
    emission["request"].update(changes)
    return bytes(msgpack.packb({"client_id": "hostile", "emissions": [emission]}, unicode_errors="surrogatepass"))


REFUSED = {
    "empty": ("emit", b"", "malformed"),
    "truncated": ("emit", emit_body()[:-3], "malformed"),
    "random": ("emit", random.Random(SEED).randbytes(200), "against_contract"),
    "reserved byte": ("emit", b"\xc1", "malformed"),
    "trailing bytes": ("ping", b"\x80\x80", "malformed"),
    "a list": ("ping", b"\x91\x01", "against_contract"),
    "nothing to emit": ("emit", bytes(msgpack.packb({"client_id": "h", "emissions": []})), "against_contract"),
    "unknown verb": ("teleport", b"\x80", "unknown_verb"),
    "answer as a verb": ("ok", b"\x80", "unknown_verb"),
    "unknown key": ("ping", bytes(msgpack.packb({"bogus": 1})), "unknown_key"),
    "wrong version": ("emit", emit_body(schema_version="lifeloop.v9"), "schema_version_mismatch"),
    "duplicate key": ("verify", b"\x82\xa4tail\x01\xa4tail\x02", "duplicate_key"),
    "deep": ("emit", emit_body(metadata={"a": "HERE"}).replace(b"\xa4HERE", b"\x91" * 5000 + b"\xc0"), "too_deep"),
    "not a number": ("emit", emit_body(metadata={"a": float("nan")}), "not_finite"),
    "infinite": ("emit", emit_body(metadata={"a": float("-inf")}), "not_finite"),
    "beyond 2^53": ("emit", emit_body(sequence=2**53), "against_contract"),
    "beyond 2^53, free form": ("emit", emit_body(metadata={"a": 2**63}), "integer_range"),
    "lone surrogate": ("emit", emit_body(event_id="\ud800"), "malformed"),
    "extension": ("emit", emit_body(metadata={"a": msgpack.ExtType(1, b"x")}), "not_json"),
    "control characters": ("emit", emit_body(harness_session_id="s\x1b[2J"), "against_contract"),
    "over the limit": ("ping", b"\x80" + bytes(262_144), "too_large"),
    "a huge claim": ("emit", b"\xdd\xff\xff\xff\xff", "against_contract"),
}
DROPPED = {
    "no frame": (b"",),
    "one frame": (encode_header(1, "ping"),),
    "three frames": (encode_header(1, "ping"), b"\x80", b""),
    "three hundred frames": (b"x",) * 300,
    "wrong version": (b"\x02" + encode_header(1, "ping")[1:], b"\x80"),
    "upper case": (encode_header(1, "PING"), b"\x80"),
    "no verb": (encode_header(1, ""), b"\x80"),
    "long verb": (encode_header(1, "p" * 33), b"\x80"),
    "http": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", b""),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_bad_body_is_refused_by_name_and_counted_and_the_connection_lives_on(name: str) -> None:
    verb, body, code = REFUSED[name]
    async with running_bus(backend="memory") as daemon:
        with raw_peer(daemon.settings.runtime_dir) as peer:
            refusal = await peer.refusal(verb, body)
            await peer.caught_up()
        counters = daemon.requests.counters
    assert (refusal["code"], counters.refused) == (code, 1)
    assert refusal["failure_class"] in {"invalid_request", "payload_too_large"}


@pytest.mark.parametrize("name", DROPPED)
async def test_a_frame_that_is_no_request_is_dropped_and_counted_and_the_connection_lives_on(name: str) -> None:
    async with running_bus(backend="memory") as daemon:
        with raw_peer(daemon.settings.runtime_dir) as peer:
            peer.send(*DROPPED[name])
            await peer.caught_up()
        counters = daemon.requests.counters
    assert (counters.malformed, counters.refused, counters.requests) == (1, 0, 1)


async def test_a_message_far_over_the_limit_costs_the_sender_its_connection_and_nobody_else() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            before = broker.memory
            with zmtp_connection(broker.runtime_dir / "requests.ipc", b"DEALER") as connection:
                connection.sendall(b"\x02" + (64 * MEBIBYTE).to_bytes(8, "big") + bytes(4_096))
                assert await asyncio.to_thread(hung_up, connection)
            await traffic.goes_on()
            assert broker.memory - before < 32 * MEBIBYTE


async def test_ten_thousand_malformed_frames_are_counted_and_harm_nobody() -> None:
    chooser = random.Random(SEED)
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            with raw_peer(broker.runtime_dir) as peer:
                await peer.caught_up()
                before, memory = await counted(broker), broker.memory
                for _ in range(100):
                    for _ in range(100):
                        peer.send(*malformed(chooser))
                    await peer.caught_up()
                await traffic.goes_on()
                after = await counted(broker)
            assert after["requests_malformed"] - before["requests_malformed"] == 10_000
            assert broker.memory - memory < 32 * MEBIBYTE
            assert MARK.decode() not in broker.log
            assert len(broker.log.splitlines()) < 200


def malformed(chooser: random.Random) -> tuple[bytes, ...]:
    """Return frames of which every one counts as malformed, each with a mark to look for in the log."""
    noise = MARK + chooser.randbytes(chooser.randrange(60))
    kinds = [
        (noise,),
        (noise, noise),
        (encode_header(chooser.randrange(2**64), "emit"), b"\xc1" + noise),
        (encode_header(0, "emit"), emit_body()[: chooser.randrange(1, 200)]),
        (encode_header(0, "ping"), b"\x80" + noise),
        (noise,) * chooser.randrange(3, 20),
    ]
    return chooser.choice(kinds)


async def counted(broker: BrokerProcess) -> dict[str, int]:
    async with lifebus.connect("counting", runtime_dir=broker.runtime_dir) as bus:
        return (await bus.status()).counters


async def test_thousands_of_hostile_connections_harm_nobody_and_leave_nothing_behind() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker, honest_traffic(broker.runtime_dir) as traffic:
            await asyncio.to_thread(throw_many, broker.runtime_dir, 200)
            await traffic.goes_on()
            memory, descriptors = broker.memory, broker.descriptors
            await asyncio.to_thread(throw_many, broker.runtime_dir, 3_000)
            await traffic.goes_on()
            await until(lambda: broker.descriptors <= descriptors + 8)
            assert broker.memory - memory < 32 * MEBIBYTE
            assert MARK.decode() not in broker.log


def throw_many(runtime_dir: Path, count: int) -> None:
    """Open connections one after the other, each with another insult, at the request and the receipt door."""
    chooser = random.Random(SEED)
    for number in range(count):
        throw(runtime_dir / ("requests.ipc", "receipts.ipc")[number % 2], insult(chooser))


def insult(chooser: random.Random) -> bytes:
    changed = bytearray(GREETING + READY)
    for _ in range(chooser.randrange(1, 4)):
        changed[chooser.randrange(len(changed))] = chooser.randrange(256)
    kinds = [
        b"",
        b"GET /" + MARK + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 99999999\r\n\r\n" + MARK,
        MARK + chooser.randbytes(200),
        bytes(changed),
        GREETING[: chooser.randrange(len(GREETING))],
        GREETING + READY + b"\x02\xff\xff\xff\xff\xff\xff\xff\xff" + MARK,
        GREETING + READY + chooser.randbytes(100),
        GREETING + READY + b"\x00\x0d" + MARK,
    ]
    return chooser.choice(kinds)


async def test_a_peer_that_takes_the_name_of_another_gets_none_of_its_answers() -> None:
    async with running_bus(backend="memory") as daemon:
        directory = daemon.settings.runtime_dir
        with raw_peer(directory, IDENTITY=b"honest") as honest:
            await honest.caught_up()
            with raw_peer(directory, IDENTITY=b"honest") as thief:
                thief.ask("status", b"\x80")
                for _ in range(20):
                    await honest.caught_up()
                assert thief._socket.poll(0) == 0


async def test_a_worker_cannot_answer_what_another_was_asked() -> None:
    """A response with a guessed number, from a connection that was not asked, is dropped."""
    response = msgpack.packb({"response": golden("response", "minimal")})
    async with running_bus(backend="memory") as daemon:
        directory = daemon.settings.runtime_dir
        with raw_peer(directory) as honest, raw_peer(directory) as thief:
            honest.ask("serve", bytes(msgpack.packb({"client_id": "w", "events": ["session.started"]})))
            await honest.answer()
            async with lifebus.connect(runtime_dir=directory) as bus, asyncio.TaskGroup() as tasks:
                emitting = tasks.create_task(bus.emit(lifebus.make_request("session.started", "codex", session="s")))
                number, verb, _ = await honest.answer()
                for guess in range(number + 3):
                    thief.send(encode_header(guess, "response"), response)
                await thief.caught_up()
                assert (verb, emitting.done()) == ("dispatch", False)
                honest.send(encode_header(number, "response"), response)
    assert [receipt.client_id for receipt in emitting.result().receipts] == ["w"]
