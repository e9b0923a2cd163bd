"""The framing of warm workers: whatever comes, in whatever pieces, is documents or faults in their order."""

import json
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    FailureClass,
    LifebusError,
    decode_json,
    encode_json,
    encode_msgpack,
)
from lifebus_transports.processes.outcomes import answer_in
from lifebus_transports.processes.worker_framing import WarmProtocol, framing_of
from support.documents import PLAIN, documents

OBJECTS = st.dictionaries(st.text(max_size=4), PLAIN, max_size=3)
CUTS = st.lists(st.integers(1, 40), min_size=1, max_size=50)
KINDS = st.sampled_from(["jsonl", "msgpack"])


def fed(protocol: WarmProtocol, data: bytes, cuts: list[int]) -> list[Any]:
    """Feed data in pieces of these lengths, over and over."""
    framing, found, at, turn = framing_of(protocol), [], 0, 0
    while at < len(data):
        size = cuts[turn % len(cuts)]
        found += framing.feed(data[at : at + size])
        at, turn = at + size, turn + 1
    return found


def written(protocol: str, plain: Any) -> bytes:
    if protocol == "msgpack":
        return bytes(msgpack.packb(plain))
    return json.dumps(plain, ensure_ascii=False).encode() + b"\n"


@given(KINDS, st.lists(OBJECTS, max_size=4), CUTS)
def test_documents_come_out_as_they_went_in_however_they_are_cut(
    protocol: WarmProtocol, plains: list[Any], cuts: list[int]
) -> None:
    assert fed(protocol, b"".join(written(protocol, plain) for plain in plains), cuts) == plains


@given(KINDS, st.binary(max_size=400), CUTS)
def test_any_bytes_become_documents_or_faults(protocol: WarmProtocol, data: bytes, cuts: list[int]) -> None:
    for item in fed(protocol, data, cuts):
        if isinstance(item, LifebusError):
            assert item.code in {"bad_answer", "two_documents", "too_large"}
            assert str(item).isprintable()
        assert failure_of(item) in {None, FailureClass.INVALID_REQUEST, FailureClass.PAYLOAD_TOO_LARGE}


def failure_of(item: Any) -> FailureClass | None:
    """Return what an item is worth as an answer."""
    try:
        answer_in([item])
    except LifebusError as fault:
        return fault.failure_class
    return None


@given(documents("dispatch"))
def test_a_question_is_one_document_in_each_protocol(envelope: DispatchEnvelope) -> None:
    line = framing_of("jsonl").encode(envelope)
    assert line.count(b"\n") == 1
    assert decode_json(line, DispatchEnvelope) == envelope
    unpacker = msgpack.Unpacker()
    unpacker.feed(framing_of("msgpack").encode(envelope))
    assert len(list(unpacker)) == 1


@given(documents("response"))
def test_every_response_is_read_back_from_each_protocol(response: CallbackResponse) -> None:
    (plain,) = framing_of("jsonl").feed(encode_json(response) + b"\n")
    assert answer_in([plain]) == response
    (plain,) = framing_of("msgpack").feed(encode_msgpack(response))
    assert answer_in([plain]) == response


@pytest.mark.parametrize("protocol", ["jsonl", "msgpack"])
@pytest.mark.parametrize("size", [262_143, 262_144, 262_145])
def test_a_document_may_be_as_large_as_a_message(protocol: WarmProtocol, size: int) -> None:
    frame = len(written(protocol, "x" * 200_000).rstrip(b"\n")) - 200_000
    found = fed(protocol, written(protocol, "x" * (size - frame)), [65_536])
    assert [getattr(item, "code", None) for item in found] == (["too_large"] if size > 262_144 else [None])


@pytest.mark.parametrize("protocol", ["jsonl", "msgpack"])
def test_a_flood_without_an_end_is_reported_once_and_bounded(protocol: WarmProtocol) -> None:
    endless = b"x" * 300_000 if protocol == "jsonl" else b"\xdb\x7f\xff\xff\xff" + b"x" * 300_000
    found = fed(protocol, endless, [65_536])
    assert found[0].code in {"too_large", "bad_answer"}
