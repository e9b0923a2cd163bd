"""Canonical bytes and the lines of a log: one form each, and nothing else is taken for it."""

import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.canonical_json import canonical, consists_of, sha256_hex, short_hash
from lifebus_broker.ledger.log import LogLine, decode_line, encode_line

SCALARS = st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text()
KEYS = st.text(st.characters(max_codepoint=127))
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner), max_leaves=20)

LINE = LogLine(7, "ab" * 32, "cd" * 32, b'{"adapter_id":"codex"}')


@given(value=VALUES)
def test_canonical_bytes_are_those_of_rfc_8785(value: Any) -> None:
    assert canonical(value) == rfc8785.dumps(value)


@pytest.mark.parametrize(
    "value", [1.0, float("nan"), 2**53, -(2**53), {"ü": 1}, {1: 2}, ["\ud800"], {"a": b"bytes"}, {"a": {1, 2}}]
)
def test_what_has_no_canonical_form_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        canonical(value)


def test_a_short_hash_is_the_beginning_of_the_hash() -> None:
    assert short_hash(b"lifebus") == sha256_hex(b"lifebus")[:16]


@pytest.mark.parametrize("digest", [None, "ab" * 16, "ab" * 32])
def test_a_line_is_canonical_json_and_comes_back_as_it_was(digest: str | None) -> None:
    line = LogLine(7, digest, LINE.link, LINE.receipt)
    data = encode_line(line)
    assert data == rfc8785.dumps(json.loads(data)) + b"\n"
    assert decode_line(data) == line


@given(position=st.integers(0, len(encode_line(LINE)) - 1), byte=st.integers(0, 255))
def test_a_line_with_any_byte_changed_is_refused_or_another_line(position: int, byte: int) -> None:
    data = bytearray(encode_line(LINE))
    changed = data[position] != byte
    data[position] = byte
    try:
        line = decode_line(bytes(data))
    except ValueError:
        assert changed
    else:
        assert (line != LINE) == changed


@pytest.mark.parametrize(
    "data",
    [
        encode_line(LINE)[:-1],
        encode_line(LINE) + b"\n",
        b" " + encode_line(LINE),
        encode_line(LINE).replace(b'"position":7', b'"position": 7'),
        encode_line(LINE).replace(b'"position":7', b'"position":0'),
        encode_line(LINE).replace(b'"position":7', b'"position":7,"position":7'),
        encode_line(LINE).replace(b"cd", b"CD", 1),
        b"",
        b"[" * 5000,
    ],
)
def test_another_form_of_a_line_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a line of a log"):
        decode_line(data)


def test_bytes_consist_of_pieces_that_follow_each_other_and_of_nothing_else() -> None:
    assert consists_of(b"abc", [b"ab", b"", b"c"])
    assert not any(consists_of(b"abc", pieces) for pieces in ([], [b"ab"], [b"ab", b"d"], [b"b", b"c"], [b"abc", b"d"]))
