"""Bytes of an app-server into lines and messages: any split, junk, and bytes that are missing."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw

from lifebus.observer.stream import AppServerStream
from lifebus_adapters.app_server.messages import RpcNotification, RpcRequest, RpcResponse, read_message
from lifebus_adapters.app_server.reader import Observed
from support.adapters.app_server_recordings import (
    START_MS,
    cut,
    facts,
    names,
    notice,
    read_messages,
    signals,
    started,
    wire,
)

JUNK = [
    b"this is not json",
    b"",
    b" \t\r",
    b"[]",
    b"[{}]",
    b"null",
    b"1",
    b'"text"',
    b"{}",
    b'{"id":101}',
    b'{"id":null,"result":{}}',
    b'{"id":1.5,"result":{}}',
    b'{"id":true,"result":{}}',
    b'{"id":null,"method":"x"}',
    b'{"method":7}',
    b'{"method":"x","params":{"a":"\xff"}}',
    b'{"method":"x","params":',
    b'{"method":"x"} trailing',
    b'\xef\xbb\xbf{"method":"x"}',
    b'{"method":"x","params":' + b"[" * 50_000,
    b'{"method":"' + b"x" * 257 + b'"}',
    b"\x00" * 64,
    b'{"method":"' + b"/" * 200 + b'"}',
    b'{"id":123456789012345678901234567890,"method":"x"}',
]


@pytest.mark.parametrize("line", JUNK)
def test_what_is_no_message_is_dropped_and_counted_and_the_next_one_is_read(line: bytes) -> None:
    reader = AppServerStream()
    assert reader.feed("out", line + b"\n", START_MS) == []
    assert names(reader.feed("out", wire(notice("error")), START_MS)) == ["app_server.error"]
    assert (reader.counters.junk, reader.counters.messages) == (1, 1)


def test_messages_are_distinguished_without_a_jsonrpc_member_and_zero_is_an_id() -> None:
    assert isinstance(read_message(b'{"id":0,"method":"x"}'), RpcRequest)
    assert isinstance(read_message(b'{"jsonrpc":"2.0","method":"x","params":[]}'), RpcNotification)
    assert read_message(b'{"id":"a","result":null}') == RpcResponse("a", json_raw(b"null"))
    assert read_message(b'{"id":0,"error":{"code":1}}') == RpcResponse(0, None)
    assert read_message(b'{"id":1,"result":{},"error":{}}') == RpcResponse(1, None)


def json_raw(data: bytes) -> Raw:
    request = read_message(b'{"method":"x","params":' + data + b"}")
    assert isinstance(request, RpcNotification)
    return request.params


@settings(deadline=None)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=8))
def test_any_split_gives_the_same_even_inside_a_character(sizes: list[int]) -> None:
    data = b"".join(wire(one) for one in (started("t1", name="Grüße 🚌"), notice("warning", message="naïve ✓ 漢字")))
    reader, split = AppServerStream(), list[Observed]()
    for piece in cut(data, sizes):
        split += reader.feed("out", piece, START_MS)
    assert split == AppServerStream().feed("out", data, START_MS)
    assert signals(split)[0]["session"]["title"] == "Grüße 🚌"


def test_a_line_that_is_too_long_is_counted_at_once_and_the_next_one_is_read() -> None:
    reader = AppServerStream(max_line_bytes=100)
    assert reader.feed("out", b"x" * 101, START_MS) == []
    assert reader.counters.overlong == 1
    assert names(reader.feed("out", b"x" * 500 + b"\n" + wire(notice("error")), START_MS)) == ["app_server.error"]
    assert (reader.counters.overlong, reader.counters.junk, reader.counters.messages) == (1, 0, 1)


def test_after_a_loss_reading_goes_on_at_the_next_newline_in_that_direction_alone() -> None:
    reader = AppServerStream()
    reader.feed("out", b'{"method":"warn', START_MS)
    reader.feed("in", b'{"id":1,"method":"thread/st', START_MS)
    reader.lose("out")
    after = reader.feed("out", b'ing"}\n' + wire(notice("error")), START_MS)
    reader.feed("in", b'art","params":{}}\n', START_MS)
    result = reader.feed("out", wire({"id": 1, "result": {"thread": {"id": "t1"}}}), START_MS)
    assert names(after) == ["app_server.error"]
    assert len(facts(result)) == 1
    assert (reader.counters.lost, reader.counters.junk, reader.counters.overlong) == (1, 0, 0)


VALID = [wire(notice("warning", threadId="t1", message="dé—✓🚌")), wire({"id": 0, "method": "x/y"}), wire(started())]


def test_ten_thousand_malformed_and_split_streams_never_raise_and_lose_no_message_beside_the_damage() -> None:
    chance = random.Random(4)
    for _ in range(10_000):
        lines = [chance.choice([*VALID, _damaged(chance)]) for _ in range(chance.randint(1, 4))]
        data = b"".join(lines)
        reader = AppServerStream(max_line_bytes=2_000)
        for piece in cut(data, [chance.randint(1, 90) for _ in range(3)]):
            reader.feed("out", piece, START_MS)
        whole = sum(line in VALID for line in lines)
        assert reader.counters.messages >= whole
        assert reader.counters.messages + reader.counters.junk + reader.counters.overlong == data.count(b"\n")


def _damaged(chance: random.Random) -> bytes:
    """A line that was cut, overwritten or doubled; what follows it stands on a line of its own."""
    line = bytearray(chance.choice(VALID)[:-1])
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(line) + 1)
        match chance.randrange(4):
            case 0:
                del line[at : at + chance.randint(1, 20)]
            case 1:
                line[at:at] = chance.randbytes(chance.randint(1, 6))
            case 2:
                line[at:at] = line[:at] * chance.randint(1, 9)
            case _:
                line[at:at] = chance.choice([b"{", b"]", b'"', b"\\", b"\xf0\x9f", b"\x00", b"1e999"])
    return bytes(line).replace(b"\n", b" ") + b"\n"


@settings(deadline=None, max_examples=60)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["threadId", "thread", "turn", "item", "id", "tokenUsage", "error", "requestId"]),
                inner,
                max_size=4,
            )
        ),
        max_leaves=9,
    )
)
def test_params_of_any_form_are_carried_as_they_are(params: object) -> None:
    for method in ("thread/started", "turn/completed", "thread/tokenUsage/updated", "error", "serverRequest/resolved"):
        (signal,) = signals(read_messages({"method": method, "params": params}))
        assert signal["params"] == params
        read_messages(
            ({"id": 1, "method": "thread/start"},), {"id": 1, "result": params}, ({"id": 0, "result": params},)
        )


def test_params_stand_in_the_signal_as_the_server_wrote_them() -> None:
    params = b'{"b": 1.50, "a" :[1e999,"\\u00e9"], "a": 2}'
    (seen,) = AppServerStream().feed("out", b'{"method":"warning","params":' + params + b"}\n", START_MS)
    assert params in seen.signal  # type: ignore[union-attr]  # it is a signal


def test_large_params_are_left_out_and_their_size_is_reported() -> None:
    fits, large = "x" * (65_536 - len('{"text":""}')), "x" * 65_536
    (kept,), (left,) = (
        signals(read_messages({"method": "warning", "params": {"text": text}})) for text in (fits, large)
    )
    assert len(json.dumps(kept["params"], separators=(",", ":"))) <= 65_536
    assert (left["params"], left["paramsBytes"]) == (None, len(json.dumps({"text": large})))
