"""The frames of the request door: what is read, what is refused, and that nothing else ever comes out."""

import struct
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_contract import InvalidRequest, encode_msgpack
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.framing.frames import (
    decode_body,
    decode_header,
    encode_header,
    marker_topic,
    session_topic,
    tick_topic,
)
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.emissions import Emit
from lifebus_transports.messages.verbs import VERBS
from lifebus_transports.messages.workers import Response
from support.effort import effort
from support.golden import golden
from support.transports.valid_bodies import VALID

STRANGE = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=4))
)
KEYS = st.sampled_from(["client_id", "emissions", "request", "metadata", "limit", "events", "v"]) | st.text(max_size=4)
TREES = st.recursive(
    STRANGE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.integers(0, 3), inner, max_size=3),
    max_leaves=12,
)


def emit_with(metadata: Any) -> bytes:
    """Return an `emit` body whose request has this metadata."""
    emission = golden("emission")
    emission["request"]["metadata"] = metadata
    return pack({"client_id": "c", "emissions": [emission]})


def pack(value: Any) -> bytes:
    return bytes(msgpack.packb(value, unicode_errors="surrogatepass"))


def nested(depth: int) -> bytes:
    """Return an `emit` body with lists nested in its metadata, deeper than any packer would go."""
    return emit_with({"a": "HERE"}).replace(b"\xa4HERE", b"\x91" * depth + b"\xc0")


def code_of(body: bytes, kind: type[Any] = Emit) -> str | None:
    """Return the code of the refusal, `read` where there is none; anything else that is raised fails the test."""
    try:
        decode_body(body, kind)
    except InvalidRequest as fault:
        return fault.code
    return "read"


@pytest.mark.parametrize("correlation", [0, 1, 2**64 - 1])
def test_a_header_is_read_as_it_was_written(correlation: int) -> None:
    assert decode_header(encode_header(correlation, "emit")) == (correlation, "emit")
    assert decode_header(encode_header(correlation, "flow_show")) == (correlation, "flow_show")


@pytest.mark.parametrize(
    "frame",
    [
        b"",
        b"\x01",
        b"\x01" + bytes(8),
        b"\x00" + bytes(8) + b"ping",
        b"\x02" + bytes(8) + b"ping",
        b"\x01" + bytes(8) + b"Ping",
        b"\x01" + bytes(8) + b"pi ng",
        b"\x01" + bytes(8) + b"pi-ng",
        b"\x01" + bytes(8) + b"_",
        b"\x01" + bytes(8) + b"ping\n",
        b"\x01" + bytes(8) + "pïng".encode(),
        b"\x01" + bytes(8) + b"p" * 33,
        b"GET / HTTP/1.1\r\n",
        b"\xff" * 64,
    ],
)
def test_a_header_that_is_none_is_refused(frame: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_header(frame)


def test_a_valid_body_of_any_other_packer_is_read(subtests: pytest.Subtests) -> None:
    for verb in VERBS:
        with subtests.test(verb=verb):
            assert code_of(pack(VALID[verb]), VERBS[verb].body) == "read"


def test_an_unknown_key_is_refused_by_name(subtests: pytest.Subtests) -> None:
    for verb in VERBS:
        with subtests.test(verb=verb), pytest.raises(InvalidRequest, match="bogus"):
            decode_body(pack(VALID[verb] | {"bogus": 1}), VERBS[verb].body)


def test_every_truncation_of_a_valid_body_is_refused(subtests: pytest.Subtests) -> None:
    for verb in VERBS:
        whole = pack(VALID[verb])
        with subtests.test(verb=verb):
            assert {code_of(whole[:length], VERBS[verb].body) for length in range(len(whole))} == {"malformed"}


def test_bytes_behind_a_valid_body_are_refused(subtests: pytest.Subtests) -> None:
    for verb in VERBS:
        with subtests.test(verb=verb):
            assert code_of(pack(VALID[verb]) + b"\xc0", VERBS[verb].body) == "malformed"


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"a": float("nan")}, "not_finite"),
        ({"a": [float("inf")]}, "not_finite"),
        ({"a": 2**53}, "integer_range"),
        ({"a": {"b": -(2**63)}}, "integer_range"),
        ({"a": b"bytes"}, "not_json"),
        ({"a": msgpack.ExtType(5, b"x")}, "not_json"),
        ({"a": msgpack.ExtType(5, b"")}, "not_json"),
        ({"a": msgpack.Timestamp(5)}, "not_json"),
        ({"a": {1: 2}}, "not_json"),
        ({"a": {1: 2, "1": 3}}, "not_json"),
        ({"a": {None: 2}}, "not_json"),
        ({"a": [0] * 5000}, "too_large"),
        ({"a": [[]] * 5000}, "too_large"),
        ({1: "a"}, "against_contract"),
        ([], "against_contract"),
    ],
)
def test_free_form_metadata_holds_only_what_every_json_reader_understands(metadata: Any, code: str) -> None:
    assert code_of(emit_with(metadata)) == code


def test_metadata_of_payloads_and_of_responses_is_held_to_the_same_rules() -> None:
    response = golden("response")
    response["metadata"] = {"a": float("nan")}
    assert code_of(pack({"response": response}), Response) == "not_finite"
    payload = golden("payload", metadata={"a": b"bytes"})
    assert code_of(pack({"client_id": "c", "emissions": [golden("emission", payloads=[payload])]})) == "not_json"


@pytest.mark.parametrize("depth", [33, 100, 900, 1_000, 10_000, 200_000])
def test_deep_nesting_is_refused_however_deep(depth: int) -> None:
    assert code_of(nested(depth)) == "too_deep"


def test_a_duplicate_key_is_refused_at_every_level() -> None:
    twice = b"\x82" + pack("tail") + b"\x01" + pack("tail") + b"\x02"
    assert code_of(twice, VERBS["verify"].body) == "duplicate_key"
    inner = emit_with({"a": "HERE"}).replace(b"\xa4HERE", b"\x82\xa1b\x01\xa1b\x02")
    assert code_of(inner) == "duplicate_key"


def test_a_lone_surrogate_is_refused() -> None:
    assert code_of(pack({"nonce": "\ud800"}), VERBS["marker"].body) == "malformed"
    assert code_of(emit_with({"a": "\ud800"})) == "malformed"


def test_a_body_over_the_limit_is_refused_before_it_is_read() -> None:
    assert code_of(b"\xc1" * (MAX_MESSAGE_BYTES + 1)) == "too_large"
    assert code_of(b"\xc1" * MAX_MESSAGE_BYTES) == "malformed"


def test_an_array_that_claims_four_billion_items_is_refused() -> None:
    claim = b"\xdd\xff\xff\xff\xff"
    assert code_of(claim) == "against_contract"
    assert code_of(b"\x82" + pack("client_id") + pack("c") + pack("emissions") + claim) == "against_contract"
    assert code_of(emit_with({"a": "HERE"}).replace(b"\xa4HERE", claim)) == "malformed"


@given(st.binary(max_size=64))
def test_random_headers_are_read_or_refused(frame: bytes) -> None:
    try:
        correlation, verb = decode_header(frame)
    except InvalidRequest:
        return
    assert encode_header(correlation, verb) == frame


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=effort(20, 1_000), deadline=None)
@given(st.binary(max_size=128))
def test_random_bytes_are_read_or_refused_and_never_anything_else(verb: str, body: bytes) -> None:
    code_of(body, VERBS[verb].body)


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=effort(20, 1_000), deadline=None)
@given(st.data())
def test_valid_bodies_with_bytes_changed_are_read_or_refused_and_never_anything_else(
    verb: str, data: st.DataObject
) -> None:
    body = bytearray(pack(VALID[verb]))
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    code_of(bytes(body), VERBS[verb].body)


@pytest.mark.parametrize("verb", VERBS)
@settings(max_examples=effort(20, 1_000), deadline=None)
@given(st.data())
def test_bodies_with_strange_values_are_read_or_refused_and_never_anything_else(verb: str, data: st.DataObject) -> None:
    body = dict(VALID[verb]) or {"a": 1}
    body[data.draw(st.sampled_from(sorted(body)))] = data.draw(TREES)
    code_of(pack(body), VERBS[verb].body)


@settings(max_examples=effort(80, 2_000), deadline=None)
@given(TREES)
def test_strange_metadata_is_refused_or_survives_the_way_through_json(tree: Any) -> None:
    body = emit_with({"a": tree})
    try:
        message = decode_body(body, Emit)
    except InvalidRequest:
        return
    assert decode_body(encode_msgpack(message), Emit) == message


@settings(max_examples=effort(80, 2_000))
@given(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12), st.text(max_size=12))
def test_no_session_topic_is_the_prefix_of_another(one: str, two: str, three: str, four: str) -> None:
    first, second = session_topic(one, two), session_topic(three, four)
    assert (one, two) == (three, four) or not second.startswith(first)
    assert first.count(b"/") == 3
    assert not marker_topic(one).startswith((b"r/", b"a/", b"h/"))


def test_a_header_has_the_layout_that_the_documentation_gives() -> None:
    assert encode_header(7, "ping") == bytes.fromhex("0100000000000000070000")[:9] + b"ping"
    assert struct.unpack(">BQ", encode_header(2**40, "ok")[:9]) == (1, 2**40)
    assert encode_msgpack(Nothing()) == b"\x80"


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"adapter_id": None}, "together with its adapter"),
        ({"session": "s\n"}, "printable"),
        ({"client_id": "\0"}, "printable"),
    ],
)
def test_a_tick_that_names_nobody_or_what_cannot_be_shown_is_refused(changes: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidRequest, match=why):
        decode_body(pack(VALID["tick"] | changes), VERBS["tick"].body)


def test_topics_of_ticks_do_not_run_into_each_other() -> None:
    assert [tick_topic(), tick_topic("codex"), tick_topic("codex", "s/1")] == [b"t/", b"t/codex/", b"t/codex/s%2F1/"]
