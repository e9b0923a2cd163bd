"""From bytes to records: how the bytes are cut never matters, and no damage outlives the record that it is in."""

import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_supervisor.tailing.framing import Framer, RecordLines, RecordObjects, framer_for
from support.effort import effort

LIMIT = 40


def fed(framer: Framer, *pieces: bytes) -> tuple[list[bytes], int]:
    return [record for piece in pieces for record in framer.feed(piece)], framer.skipped


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted(place % (len(data) + 1) for place in places), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


STREAMS = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from([b"\n", b"\r\n", b"\0", b'"', b"\\", b"{", b"}", b"[", b",", b":", b" ", b"ab", b"x" * 50]),
        max_size=60,
    ).map(b"".join),
)


@pytest.mark.parametrize("form", ["lines", "objects"])
@settings(deadline=None)
@given(stream=STREAMS, places=st.lists(st.integers(min_value=0, max_value=10_000), max_size=12))
def test_any_split_of_any_bytes_gives_the_same_records_and_the_same_count(
    form: Any, stream: bytes, places: list[int]
) -> None:
    assert fed(framer_for(form, LIMIT), *cut(stream, places)) == fed(framer_for(form, LIMIT), stream)


@settings(deadline=None)
@given(stream=STREAMS)
def test_one_byte_at_a_time_is_a_split_like_any_other(stream: bytes) -> None:
    pieces = [stream[place : place + 1] for place in range(len(stream))]
    assert fed(RecordLines(LIMIT), *pieces) == fed(RecordLines(LIMIT), stream)
    assert fed(RecordObjects(LIMIT), *pieces) == fed(RecordObjects(LIMIT), stream)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.lists(st.dictionaries(st.text(), VALUES, max_size=4), max_size=6)


@settings(deadline=None, max_examples=effort(20, 400))
@given(
    objects=OBJECTS,
    indent=st.sampled_from([None, 0, 1, 2, "\t"]),
    ascii_only=st.booleans(),
    glue=st.sampled_from(["", "\n", "\r\n\r\n", " , ", "\0"]),
)
def test_concatenated_objects_come_out_as_they_went_in(
    objects: list[dict[str, Any]], indent: int | str | None, ascii_only: bool, glue: str
) -> None:
    texts = [
        json.dumps(each, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass") for each in objects
    ]
    records, skipped = fed(RecordObjects(1_000_000), glue.encode().join(texts))
    assert records == texts
    assert skipped == 0


@settings(deadline=None)
@given(texts=st.lists(st.binary(min_size=1, max_size=30).filter(lambda text: not set(text) & set(b" \t\r\n\0"))))
def test_lines_come_out_as_they_went_in_whatever_ends_them(texts: list[bytes]) -> None:
    for end in (b"\n", b"\r\n", b"\n\n", b"\0\n"):
        assert fed(RecordLines(LIMIT), b"".join(text + end for text in texts)) == (texts, 0)


def test_half_a_line_is_kept() -> None:
    lines = RecordLines(LIMIT)
    assert lines.feed(b"one\ntw") == [b"one"]
    assert lines.feed(b"o\nthree") == [b"two"]
    assert lines.feed(b"\n") == [b"three"]


def test_the_nuls_that_a_crash_leaves_are_no_part_of_a_line() -> None:
    assert fed(RecordLines(LIMIT), b'{"a":1}\n\0\0\0\0{"b":2}\n\0\0\n') == ([b'{"a":1}', b'{"b":2}'], 0)


def test_a_line_over_the_limit_is_skipped_to_its_end_and_counted_once() -> None:
    lines = RecordLines(4)
    assert fed(lines, b"12345", b"6789\n1234\n", b"x" * 100) == ([b"1234"], 2)
    assert fed(lines, b"x" * 100 + b"\nab\n") == ([b"ab"], 2)


def test_what_is_skipped_is_not_held_in_memory() -> None:
    for framer, start in ((RecordLines(1_000), b""), (RecordObjects(1_000), b'{"a": "')):
        framer.feed(start)
        for _ in range(100):
            framer.feed(b"x" * 10_000)
            kept = vars(framer) | (vars(framer._lines) if isinstance(framer, RecordLines) else {})
            held = [value for value in kept.values() if isinstance(value, bytes | bytearray)]
            assert held
            assert sum(map(len, held)) <= 1_000


def test_an_object_over_the_limit_is_skipped_to_its_end_and_counted_once() -> None:
    huge = json.dumps({"a": {"b": ['}{\\"' * 20]}}).encode()
    assert fed(RecordObjects(LIMIT), b'{"n":1}', huge[:50], huge[50:], b'{"n":2}') == ([b'{"n":1}', b'{"n":2}'], 1)


@pytest.mark.parametrize(
    "half",
    [
        b'{"a": 1, "b": "half a te',
        b'{"a": 1, "b": "half an escape \\',
        b'{"a": 12',
        b'{"a": "b"',
        b'{"a": {"b": {"c": []',
    ],
)
def test_half_an_object_does_not_hide_the_next_one(half: bytes) -> None:
    records, skipped = fed(RecordObjects(LIMIT), half + b'\n{"n":\n  1}\n{"n":2}')
    assert records == [half, b'{"n":\n  1}', b'{"n":2}']
    assert skipped == 0


@pytest.mark.parametrize("half", [b'{"a":', b'{"a": [', b'{"a": [1,'])
def test_half_an_object_that_awaits_a_value_costs_the_next_object_only(half: bytes) -> None:
    records, _ = fed(RecordObjects(LIMIT), half + b'\n{"n":1}\n{"n":2}\n{"n":3}')
    assert records[1:] == [b'{"n":2}', b'{"n":3}']


def test_text_between_objects_is_nothing() -> None:
    assert fed(RecordObjects(LIMIT), b'] "} , x {"n":1} } {"n":2}') == ([b'{"n":1}', b'{"n":2}'], 0)
