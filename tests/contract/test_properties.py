"""What holds for every document there can be, not only for the golden ones."""

import json
from typing import Any

import jsonschema
import msgpack
import pytest
import rfc8785
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_contract import (
    KINDS,
    CallbackRequest,
    InvalidRequest,
    Receipt,
    decode_json,
    decode_msgpack,
    encode_json,
    encode_msgpack,
    schema_for,
    validate,
)
from support.documents import documents, plain_documents

EVERY_KIND = st.sampled_from(sorted(KINDS)).flatmap(lambda kind: st.tuples(st.just(kind), documents(kind)))
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.binary(max_size=8),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
)


@given(EVERY_KIND)
@settings(deadline=None)
def test_a_document_survives_both_encodings(example: tuple[str, Any]) -> None:
    kind, document = example
    assert decode_json(encode_json(document), KINDS[kind]) == document
    assert decode_msgpack(encode_msgpack(document), KINDS[kind]) == document
    assert validate(document, KINDS[kind]) == document


@given(EVERY_KIND)
@settings(deadline=None)
def test_any_messagepack_library_reads_what_we_write_and_we_read_what_it_writes(example: tuple[str, Any]) -> None:
    kind, document = example
    plain = msgpack.unpackb(encode_msgpack(document))
    assert plain == json.loads(encode_json(document))
    assert decode_msgpack(msgpack.packb(plain), KINDS[kind]) == document


@pytest.mark.parametrize("kind", KINDS)
def test_what_the_structs_take_the_schema_takes(kind: str) -> None:
    checker = jsonschema.Draft202012Validator(schema_for(kind))

    @given(plain_documents(kind))
    @settings(max_examples=25, deadline=None)
    def agree(plain: dict[str, Any]) -> None:
        assert validate(plain, KINDS[kind])
        checker.validate(plain)

    agree()


@given(documents("receipt"))
@settings(deadline=None)
def test_the_json_of_a_receipt_is_its_canonical_form(receipt: Receipt) -> None:
    encoded = encode_json(receipt)
    assert encoded == rfc8785.dumps(json.loads(encoded))


@given(ANYTHING)
@settings(deadline=None)
def test_plain_nonsense_is_refused_and_never_a_crash(value: Any) -> None:
    with pytest.raises(InvalidRequest):
        validate(value, CallbackRequest)


@given(st.binary(max_size=200))
@settings(deadline=None)
def test_random_bytes_are_refused_and_never_a_crash(raw: bytes) -> None:
    with pytest.raises(InvalidRequest):
        decode_msgpack(raw, Receipt)
    with pytest.raises(InvalidRequest):
        decode_json(raw, Receipt)


@given(documents("receipt"), st.integers(min_value=0), st.integers(0, 255))
@settings(deadline=None)
def test_a_damaged_receipt_is_refused_or_still_a_valid_one(receipt: Receipt, place: int, byte: int) -> None:
    for encoded, decode in ((encode_msgpack(receipt), decode_msgpack), (encode_json(receipt), decode_json)):
        damaged = bytearray(encoded)
        damaged[place % len(damaged)] = byte
        try:
            found = decode(bytes(damaged), Receipt)
        except InvalidRequest:
            continue
        assert validate(found, Receipt) == found
