"""Every kind of document: from JSON and MessagePack into the struct and back, nothing lost, nothing added."""

import json
from typing import Any

import msgpack
import pytest

from lifebus_contract import KINDS, decode_json, decode_msgpack, encode_json, encode_msgpack, validate
from support.golden import EXAMPLES, golden


def test_a_golden_document_survives_json_unchanged(subtests: pytest.Subtests) -> None:
    for kind, form in EXAMPLES:
        with subtests.test(kind=kind, form=form):
            plain = golden(kind, form)
            document = decode_json(json.dumps(plain), KINDS[kind])
            assert json.loads(encode_json(document)) == plain


def test_a_golden_document_survives_messagepack_unchanged(subtests: pytest.Subtests) -> None:
    for kind, form in EXAMPLES:
        with subtests.test(kind=kind, form=form):
            plain = golden(kind, form)
            document = decode_msgpack(msgpack.packb(plain), KINDS[kind])
            assert msgpack.unpackb(encode_msgpack(document)) == plain


def test_both_forms_of_a_document_mean_the_same(subtests: pytest.Subtests) -> None:
    for kind, form in EXAMPLES:
        with subtests.test(kind=kind, form=form):
            from_json = decode_json(json.dumps(golden(kind, form)), KINDS[kind])
            from_msgpack = decode_msgpack(msgpack.packb(golden(kind, form)), KINDS[kind])
            assert from_json == from_msgpack
            assert encode_msgpack(from_json) == encode_msgpack(from_msgpack)


def test_the_order_of_keys_in_the_input_does_not_show_in_the_output(subtests: pytest.Subtests) -> None:
    for kind, form in EXAMPLES:
        with subtests.test(kind=kind, form=form):
            forwards = validate(golden(kind, form), KINDS[kind])
            backwards = validate(reverse(golden(kind, form)), KINDS[kind])
            assert encode_json(forwards) == encode_json(backwards)
            assert encode_msgpack(forwards) == encode_msgpack(backwards)


def test_a_built_document_is_validated_again_as_it_is(subtests: pytest.Subtests) -> None:
    for kind, form in EXAMPLES:
        with subtests.test(kind=kind, form=form):
            document = validate(golden(kind, form), KINDS[kind])
            assert validate(document, KINDS[kind]) == document


def reverse(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reverse(child) for key, child in reversed(value.items())}
    if isinstance(value, list):
        return [reverse(child) for child in value]
    return value
