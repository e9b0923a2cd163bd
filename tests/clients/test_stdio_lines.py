"""The lines of `lifebus dev stdio` without a process: reading and writing them."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_contract import InvalidRequest, encode_json
from lifebus_transports.framing.json_lines import (
    LineRequest,
    UnreadableLine,
    decode_request,
    encode_answer,
    encode_body,
    encode_refusal,
    wait_of,
)
from lifebus_transports.messages.verbs import VERBS
from support.effort import effort
from support.receipts import receipt


@settings(max_examples=effort(250, 1_000), deadline=None)
@given(st.binary(max_size=200))
def test_any_bytes_are_a_request_or_an_unreadable_line(line: bytes) -> None:
    assert isinstance(decode_request(line), LineRequest | UnreadableLine)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=effort(100, 250), deadline=None)
@given(
    st.fixed_dictionaries(
        {}, optional=dict.fromkeys(("id", "verb", "body", "more"), PLAIN) | {"verb": st.sampled_from(["ping", "P"])}
    )
)
def test_any_object_is_a_request_or_an_unreadable_line_with_the_id_it_has(plain: dict[str, Any]) -> None:
    found = decode_request(json.dumps(plain).encode("utf-8", "surrogatepass"))
    name = plain.get("id")
    valid = (isinstance(name, str) and 0 < len(name) <= 256) or (isinstance(name, int) and not isinstance(name, bool))
    if isinstance(found, LineRequest):
        assert set(plain) <= {"id", "verb", "body"}
        assert json.loads(encode_answer(found.id, {}))["id"] == name
    else:
        assert found.id == (name if valid else None) or found.fault.code in {"too_deep", "not_finite"}
        assert json.loads(encode_refusal(found.id, found.fault))["refused"]["failure_class"] == "invalid_request"


@settings(max_examples=effort(150, 400), deadline=None)
@given(st.data())
def test_a_request_that_is_damaged_anywhere_never_crosses_over_as_another_type(data: st.DataObject) -> None:
    line = bytearray(b'{"id":7,"verb":"backfill","body":{"after":1,"session":["a","\xc3\xa9"]}}')
    for _ in range(data.draw(st.integers(1, 3))):
        line[data.draw(st.integers(0, len(line) - 1))] = data.draw(st.integers(0, 255))
    found = decode_request(bytes(line))
    assert isinstance(found, UnreadableLine) or (isinstance(found.id, int | str) and isinstance(found.body, dict))


@pytest.mark.parametrize("name", [0, -1, 2**53 - 1, "0", " ", "é"])
def test_an_id_comes_back_as_it_was(name: object) -> None:
    found = decode_request(json.dumps({"id": name, "verb": "ping"}).encode())
    assert isinstance(found, LineRequest)
    assert json.loads(encode_answer(found.id, {})) == {"id": name, "ok": {}}


def test_receipts_stand_in_an_answer_as_the_ledger_keeps_them() -> None:
    stored = encode_json(receipt(1))
    answer = msgspec.msgpack.decode(
        msgspec.msgpack.encode({"rows": [[1, None, stored]], "more": [{"receipts": (stored,)}]})
    )
    line = encode_answer("a", answer)
    assert line.count(stored) == 2
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1


def test_a_refusal_leaves_out_what_it_does_not_have() -> None:
    line = encode_refusal(None, InvalidRequest("no\nsuch thing", code="malformed"))
    assert line == (
        b'{"id":null,"refused":{"failure_class":"invalid_request","retry_class":"do_not_retry",'
        b'"detail":"no\\nsuch thing","code":"malformed"}}\n'
    )


@pytest.mark.parametrize(
    ("observations", "crossed"),
    [
        ([{"kind": "signal", "signal": {"a": [1]}}], [{"kind": "signal", "signal": b'{"a":[1]}'}]),
        ([{"kind": "ended", "signal": 9}, "junk", None], [{"kind": "ended", "signal": 9}, "junk", None]),
        ({"kind": "signal"}, {"kind": "signal"}),
    ],
)
def test_the_signals_of_observe_cross_over_as_json_of_their_own(observations: Any, crossed: Any) -> None:
    encoded = encode_body(VERBS["observe"], {"observations": observations})
    assert msgspec.msgpack.decode(encoded) == {"observations": crossed}


def test_a_piece_of_a_state_is_text_and_a_whole_state_is_json() -> None:
    piece = {"offset": 3, "size": 20, "data": '[{"é":1},'.encode()}
    assert json.loads(encode_answer(1, piece))["ok"]["data"] == '[{"é":1},'
    whole = {"offset": 0, "size": 2, "data": b"{}"}
    assert json.loads(encode_answer(1, whole))["ok"]["data"] == {}


def test_a_caller_waits_as_long_as_the_body_asks_or_as_the_verb_does_without_it() -> None:
    compact, wait, ping = VERBS["flow_compact"], VERBS["flow_wait"], VERBS["ping"]
    assert [wait_of(compact, body) for body in ({}, {"time_limit_ms": 7}, {"time_limit_ms": 3_600_000})] == [
        300.0,
        0.007,
        3_600.0,
    ]
    assert [wait_of(wait, body) for body in ({}, {"wait_ms": 30_000}, {"wait_ms": "x"})] == [0.0, 30.0, 0.0]
    assert wait_of(ping, {}) == 0.0
