"""JSON is read so strictly that no two readers can understand a document differently (docs/contract.md 1.3)."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import (
    CallbackRequest,
    InvalidRequest,
    PayloadEnvelope,
    codec,
    decode_json,
    decode_msgpack,
    load_json,
)
from lifebus_contract.codec import MAX_ITEMS, check_plain
from lifebus_contract.fields import MAX_DEPTH, MAX_INTEGER, MAX_MESSAGE_BYTES
from support.golden import golden

MALFORMED = ["", " ", "{", "{}x", "nul", "{'a': 1}", '{"a": 1,}', '"\x01"', "[1, 2", "\ufeff{}", "1" * 5000]


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize("text", MALFORMED)
def test_malformed_json_is_refused(text: str) -> None:
    assert refusal(text).code in {"malformed", "integer_range"}


@pytest.mark.parametrize("raw", [b"\xff\xfe", b'{"a": "\xc3"}', b'"\xed\xa0\x80"'])
def test_bytes_that_are_not_utf8_are_refused(raw: bytes) -> None:
    assert refusal(raw).code == "malformed"


@pytest.mark.parametrize("text", ['{"a": 1, "a": 1}', '{"b": {"a": 1, "c": 2, "a": 3}}', '[{"a": null, "\\u0061": 0}]'])
def test_a_key_that_comes_twice_is_refused(text: str) -> None:
    fault = refusal(text)
    assert (fault.code, fault.field) == ("duplicate_key", "$.a")


@pytest.mark.parametrize("text", ["NaN", "[Infinity]", '{"a": -Infinity}', "1e999", "[-1e999]"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    assert refusal(text).code == "not_finite"


@pytest.mark.parametrize("text", [r'"\ud800"', r'{"a": "x\udfff"}', r'{"\ud800": 1}', r'["\udc00\ud800"]'])
def test_a_lone_surrogate_is_refused_in_keys_and_values(text: str) -> None:
    assert refusal(text).code == "lone_surrogate"


def test_a_pair_of_surrogates_is_one_character() -> None:
    assert load_json(r'"\ud83d\ude00"') == "\U0001f600"


@pytest.mark.parametrize("number", [MAX_INTEGER + 1, -MAX_INTEGER - 1, 10**30])
def test_integers_beyond_two_to_the_53_are_refused(number: int) -> None:
    assert refusal(json.dumps({"a": [number]})).field == "$.a[0]"
    assert load_json(str(MAX_INTEGER)) == MAX_INTEGER
    assert load_json(str(-MAX_INTEGER)) == -MAX_INTEGER


def test_depth_is_bounded() -> None:
    assert load_json(json.dumps(nested(MAX_DEPTH - 1))) == nested(MAX_DEPTH - 1)
    assert refusal(json.dumps(nested(MAX_DEPTH))).code == "too_deep"
    assert refusal("[" * 100_000).code == "too_deep"
    assert refusal('{"a":' * 50_000).code == "too_deep"


def test_size_is_bounded() -> None:
    fits = '"' + "x" * (MAX_MESSAGE_BYTES - 2) + '"'
    assert len(load_json(fits)) == MAX_MESSAGE_BYTES - 2
    fault = refusal(fits + " ")
    assert fault.code == "too_large"
    assert f"the limit is {MAX_MESSAGE_BYTES}" in fault.detail


def test_the_number_of_entries_is_bounded() -> None:
    assert load_json(json.dumps([0] * (MAX_ITEMS - 1)))
    assert refusal(json.dumps([0] * MAX_ITEMS)).code == "too_large"
    assert refusal(json.dumps([[0] * 70] * 70)).code == "too_large"


def test_the_limits_hold_inside_a_document_too() -> None:
    text = json.dumps(golden("request", metadata={"a": nested(MAX_DEPTH)}))
    with pytest.raises(InvalidRequest, match="nested deeper than 32 levels"):
        decode_json(text, CallbackRequest)


def test_a_refusal_of_plain_data_names_the_place() -> None:
    with pytest.raises(InvalidRequest) as caught:
        check_plain({"a": [{"b": float("nan")}]})
    assert caught.value.field == "$.a[0].b"


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x81", b"\x91" * 100, b"\xa1\xff", b"\x80\x80", b"GET / HTTP/1.1\r\n"])
def test_malformed_messagepack_is_refused(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_msgpack(raw, CallbackRequest)


def test_deep_messagepack_is_refused_and_not_a_crash() -> None:
    with pytest.raises(InvalidRequest):
        decode_msgpack(b"\x81\xa8metadata" + b"\x91" * 100_000, PayloadEnvelope)


def refusal(text: str | bytes) -> InvalidRequest:
    with pytest.raises(InvalidRequest) as caught:
        load_json(text)
    return caught.value


_TEXTS = st.text(st.characters(codec=None), max_size=4) | st.sampled_from(["\ud800", "ž", ""])
_LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**54), 2**54)
    | st.floats()
    | _TEXTS
    | st.sampled_from([b"x", MAX_INTEGER, nested(MAX_DEPTH - 2), nested(MAX_DEPTH)])
)
_KEYS = _TEXTS | st.sampled_from([1, None])
_PLAIN = st.recursive(_LEAVES, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_KEYS, inner, max_size=4))


@given(value=_PLAIN, max_items=st.integers(0, 12))
def test_the_quick_look_and_the_thorough_one_agree(value: Any, max_items: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        quick = codec._is_plain(value, max_items)
        patch.setattr(codec, "_is_plain", lambda *_: False)
        try:
            check_plain(value, max_items=max_items)
        except InvalidRequest:
            assert not quick
        else:
            assert quick
