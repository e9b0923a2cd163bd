"""What quick commands do without a library is to the byte what the library would do."""

import json
import textwrap
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.cli.arguments import parse_seconds
from lifebus.cli.exit_codes import UsageError
from lifebus.cli.terminal import time_text, wrapped
from lifebus.cli.wording.durations import duration_seconds
from lifebus.cli.wording.plain_json import json_text, read_json

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=12,
)


@given(VALUES)
def test_json_is_written_and_read_as_by_msgspec(value: Any) -> None:
    encoded = msgspec.json.encode(value)
    assert json_text(value).encode() == encoded
    assert json_text(value, indent=2).encode() == msgspec.json.format(encoded, indent=2)
    assert read_json(encoded + b"\n") == value
    assert read_json(json_text(value, indent=2)) == value


@pytest.mark.parametrize(
    "text", [b"", b"{", b"[1,", b"1 2", b'{"a":NaN}', b'"\xff"', b"nul", b"[Infinity]", b'"\n"', b"{'a':1}"]
)
def test_what_is_no_json_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        read_json(text)


@pytest.mark.parametrize("value", [1.5, b"x", {1}, [object()]])
def test_what_json_has_not_is_refused(value: object) -> None:
    with pytest.raises(TypeError, match="no JSON of"):
        json_text(value)


def test_numbers_with_a_point_are_read() -> None:
    assert read_json("[1.5, -2e3]") == json.loads("[1.5, -2e3]")


@given(st.text("ab-\u00e9\u2014 ", max_size=40), st.integers(1, 12))
def test_text_is_wrapped_as_by_textwrap(text: str, room: int) -> None:
    expected = textwrap.wrap(text, room, break_long_words=False, break_on_hyphens=False) or [""]
    assert wrapped(text, room) == expected


@given(st.integers(-(2**55), 2**55))
def test_a_time_is_said_as_by_datetime(at_ms: int) -> None:
    try:
        expected = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    except (ValueError, OverflowError):
        expected = f"{at_ms} ms"
    assert time_text(at_ms) == expected


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("5s", 5), ("1.5m", 90), ("2h", 7200), ("7d", 604_800), ("1w", 604_800)]
)
def test_a_duration_is_read(text: str, seconds: float) -> None:
    assert duration_seconds(text) == parse_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "5", "s", "5 s", "-1s", "1.s", ".5s", "1.5.5s", "5ss", "1e3s", "1234567890s", "5y"]
)
def test_what_is_no_duration_is_none(text: str) -> None:
    assert duration_seconds(text) is None
    with pytest.raises(UsageError, match="is not a duration"):
        parse_seconds(text)
