"""Keys out of bytes, however these are cut on their way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.top.keyboard import KeyDecoder

KEYS = {
    b"q": "q",
    b"\r": "enter",
    b"\x7f": "backspace",
    b"\x1b[A": "up",
    b"\x1bOB": "down",
    b"\x1b[1;5C": "right",
    b"\x1b[5~": "page-up",
    b"\x1b[6~": "page-down",
    b"\x1b[H": "home",
    b"\x1b[4~": "end",
    b"\x0c": "redraw",
    "ü".encode(): "ü",
}


@given(st.lists(st.sampled_from(sorted(KEYS)), max_size=8), st.data())
def test_cuts_between_bytes_change_no_key(sent: list[bytes], data: st.DataObject) -> None:
    whole = b"".join(sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(whole)), max_size=6)))
    decoder = KeyDecoder()
    parts = [whole[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(whole)], strict=True)]
    assert [key for part in parts for key in decoder.feed(part)] == [KEYS[one] for one in sent]


def test_escape_alone_is_a_key_once_nothing_follows() -> None:
    decoder = KeyDecoder()
    assert decoder.feed(b"\x1b") == []
    assert decoder.is_waiting
    assert decoder.flush() == ["escape"]
    assert not decoder.is_waiting


@pytest.mark.parametrize("noise", [b"\x00", b"\x1b[99X", b"\x1b[<0;1;1M", b"\x1bx", b"\x1b[" + b"1" * 40 + b"A"])
def test_what_is_no_key_is_left_out(noise: bytes) -> None:
    decoder = KeyDecoder()
    assert decoder.feed(noise) == []
    assert decoder.feed(b"q") == ["q"]


@given(st.binary(max_size=60))
def test_no_bytes_are_too_strange(data: bytes) -> None:
    decoder = KeyDecoder()
    decoder.feed(data)
    decoder.flush()
