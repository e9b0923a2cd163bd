"""Hostile peers of the hook server: refused and counted, never logged verbatim, and honest hooks unharmed."""

import json
import random
from pathlib import Path
from typing import Any

import anyio
import pytest
import structlog

from lifebus_adapters.adapter import HookAnswer
from lifebus_contract import InvalidRequest
from lifebus_transports.framing.hook_frames import (
    MAX_HEADER_BYTES,
    MAX_STDIN_BYTES,
    CallReader,
    decode_answer,
    encode_answer,
    encode_call,
)
from lifebus_transports.hooks.server import HookServerCounters, HookServerLimits
from support.effort import effort
from support.patience import PATIENCE_S
from support.transports.hook_server_box import a_call, ask, open_server, talk, until

EMPTY = b"0 0\n"
SMALL = 1_024
MALFORMED_CALLS = effort(600, 30_000)
GOOD: dict[str, Any] = {
    "v": 1,
    "call_id": "c1",
    "adapter": "codex",
    "hook": "Stop",
    "cwd": "/",
    "env": {},
    "size": 0,
}


def header(**changes: object) -> bytes:
    return json.dumps({**GOOD, **changes}).encode() + b"\n"


def deep(levels: int) -> bytes:
    return b'{"v":' + b"[" * levels + b"]" * levels + b"}\n"


MALFORMED = {
    "http_get": b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http_post": b"POST /hook HTTP/1.1\r\nContent-Length: 2\r\n\r\n{}",
    "random": random.Random(7).randbytes(4000),
    "newlines": b"\n" * 100,
    "empty_object": b"{}\n",
    "an_array": b"[]\n",
    "not_json": b"{nonsense}\n",
    "not_text": b'{"v":"\xff\xfe"}\n',
    "nan": header().replace(b'"size": 0', b'"size": NaN'),
    "infinite": header().replace(b'"size": 0', b'"size": 1e999'),
    "lone_surrogate": header().replace(b'"Stop"', b'"\\ud800"'),
    "duplicate_key": header().replace(b'"v": 1', b'"v": 1, "v": 1'),
    "deep": deep(100),
    "deeper": deep(5000),
    "header_too_long": header(cwd="x" * MAX_HEADER_BYTES),
    "header_without_end": b"{" + b" " * (2 * MAX_HEADER_BYTES),
    "unknown_key": header(extra=1),
    "missing_key": header().replace(b'"cwd": "/", ', b""),
    "other_version": header(v=2),
    "negative_size": header(size=-1),
    "size_no_number": header(size="0"),
    "size_a_float": header(size=0.5),
    "size_over_limit": header(size=MAX_STDIN_BYTES + 1),
    "size_huge": header(size=2**63),
    "trailing_bytes": header() + b"x",
    "empty_adapter": header(adapter=""),
    "adapter_a_path": header(adapter="../../etc"),
    "hook_with_control": header(hook="a\x1b[31m"),
    "call_id_empty": header(call_id=""),
    "call_id_with_newline": header(call_id="a\n"),
    "env_name_odd": header(env={"a b": "c"}),
    "env_value_no_text": header(env={"A": 1}),
    "env_too_many": header(env={f"A{number}": "" for number in range(33)}),
    "oversized_but_sent": header(size=1, oversized=MAX_STDIN_BYTES + 1) + b"x",
    "oversized_but_small": header(oversized=5),
    "spooled_before_time": header(spooled_at_epoch_s=-1),
    "pid_negative": header(pid=-1),
    "pid_no_number": header(pid="1"),
    "pid_huge": header(pid=2**60),
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "hook.sock"


@pytest.mark.parametrize("data", MALFORMED.values(), ids=MALFORMED.keys())
async def test_a_malformed_call_gets_an_empty_answer_and_is_counted(path: Path, data: bytes) -> None:
    async with open_server(path) as counters:
        answer = await talk(path, data)
        # Bytes that come later than the answer turn it into a reset; what is small comes at once.
        assert answer == EMPTY or (not answer and len(data) > SMALL)
        await until(lambda: counters.malformed == 1)
        assert (await ask(path, a_call())).stdout == b"{}"
    assert (counters.calls, counters.cut_off) == (1, 0)


@pytest.mark.parametrize("data", [b"", b"{", header()[:-1], header(size=10) + b"123456789"])
async def test_a_call_that_ends_too_early_is_dropped_and_counted(path: Path, data: bytes) -> None:
    async with open_server(path) as counters:
        assert await talk(path, data) == b""
        assert (await ask(path, a_call())).stdout == b"{}"
    assert (counters.calls, counters.cut_off, counters.malformed) == (1, 1, 0)


async def test_every_way_to_cut_a_call_is_survived(path: Path) -> None:
    data = encode_call(a_call())
    async with open_server(path) as counters:
        for end in range(len(data)):
            assert await talk(path, data[:end]) == b""
    assert (counters.calls, counters.cut_off) == (0, len(data))


async def test_a_slow_peer_is_dropped_after_the_read_deadline(path: Path) -> None:
    async with open_server(path, limits=HookServerLimits(read_s=0.05)) as counters:
        assert await talk(path, b'{"v":1,', finish=False) == b""
        assert (await ask(path, a_call())).stdout == b"{}"
    assert (counters.calls, counters.cut_off) == (1, 1)


async def test_slow_peers_hold_no_place_for_longer_than_the_read_deadline(path: Path) -> None:
    limits = HookServerLimits(read_s=0.2, at_once=8)
    async with open_server(path, limits=limits) as counters, anyio.create_task_group() as tasks:
        for _ in range(8):
            tasks.start_soon(_stall, path)
        await until(lambda: counters.cut_off == 8)
        assert (await ask(path, a_call())).stdout == b"{}"


async def _stall(path: Path) -> None:
    await talk(path, b"{", finish=False)


async def test_a_peer_that_never_reads_its_answer_loses_its_place(path: Path) -> None:
    async def much(_: object) -> HookAnswer:
        return HookAnswer(stdout=b"x" * 1_000_000)

    async with (
        open_server(path, much, HookServerLimits(handle_s=0.2, at_once=1)) as counters,
        await anyio.connect_unix(path) as idle,
    ):
        await idle.send(encode_call(a_call()))
        await until(lambda: counters.failed == 1)
        assert len((await served(path, counters)).stdout) == 1_000_000


async def served(path: Path, counters: HookServerCounters) -> HookAnswer:
    """Make an honest call, again where the machine was so slow that the server gave it up."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            failed = counters.failed
            answer = await talk(path, encode_call(a_call()), finish=False)
            if counters.failed == failed:
                return decode_answer(answer)


async def test_many_malformed_connections_harm_no_other_call(path: Path) -> None:
    noise = random.Random(11)
    kinds = list(MALFORMED.values())
    async with open_server(path) as counters:
        with structlog.testing.capture_logs() as logs:
            for number in range(MALFORMED_CALLS):
                await talk(path, noise.choice(kinds) if number % 2 else b"!" + noise.randbytes(40))
            assert (await ask(path, a_call())).stdout == b"{}"
    assert (counters.malformed, counters.calls) == (MALFORMED_CALLS, 1)
    assert len(logs) < 20


async def test_hostile_bytes_never_reach_the_log(path: Path) -> None:
    async with open_server(path) as counters:
        with structlog.testing.capture_logs() as logs:
            await talk(path, header(adapter="\x1b]0;evil\x07"), header(evil="evil"))
            await talk(path, b"evil evil evil")
            await until(lambda: counters.malformed == 2)
    assert logs
    assert "evil" not in repr(logs)


@pytest.mark.parametrize("data", [b"", b"0 0", b"busy\n", b"256 0\n", b"0 1\n", b"0 0\nx", b"a 0\n", b"0 0 0\n", b"\n"])
def test_an_answer_that_is_not_whole_is_refused(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_answer(data)


def test_answers_survive_the_round_trip() -> None:
    answer = HookAnswer(stdout=b"a\nb\x00", exit_code=255)
    assert decode_answer(encode_answer(answer)) == answer


def test_a_frame_may_be_split_anywhere() -> None:
    call = a_call(stdin=b"{}\n{}")
    data = encode_call(call)
    for at in range(len(data)):
        reader = CallReader()
        assert reader.feed(data[:at]) is None
        frame = reader.feed(data[at:])
        assert frame is not None
        assert frame.call == call
