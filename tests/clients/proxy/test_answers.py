"""The answers to our own requests are taken out of the server's lines, wherever its bytes are cut; all else passes."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus.proxy.answers import MAX_AWAITED, MAX_HELD_BYTES, AnswerFilter

OURS = "lifebus:0f3a:1"
ANSWER = json.dumps({"id": OURS, "result": {"turnId": "t\n1"}}).encode() + b"\n"
LINES = st.sampled_from(
    [
        ANSWER,
        b'{"result":{},"id":"lifebus:0f3a:1"}\n',
        b'{"id":"lifebus:0f3a:1","error":{"code":-32600,"message":"no active turn to steer"}}\n',
    ]
)
OTHERS = st.sampled_from(
    [
        b'{"id":1,"result":{}}\n',
        b'{"id":"lifebus:0f3a:9","result":{}}\n',
        b'{"method":"item/started","params":{"text":"\\"id\\":\\"lifebus:0f3a:1\\""}}\n',
        b'{"method":"x","id":"lifebus:0f3a:1","params":{}}\n',
        b'["lifebus:0f3a:1"]\n',
        b'{"id":"lifebus:0f3a:1"\n',
        b"\n",
        b"\xff\r\n",
        b"x" * 3_000 + b"\n",
    ]
)


@st.composite
def cut_streams(draw: st.DrawFn) -> tuple[list[bytes], bytes, list[int]]:
    """Lines with one answer to us somewhere, perhaps a rest without an end, and where they are cut."""
    lines = [*draw(st.lists(OTHERS, max_size=5)), draw(LINES), *draw(st.lists(OTHERS, max_size=5))]
    rest = draw(st.sampled_from([b"", b"{", b'{"id":"lifebus:0f3a:1"']))
    size = sum(map(len, lines)) + len(rest)
    return lines, rest, sorted(draw(st.lists(st.integers(0, size), max_size=8)))


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *cuts, len(data)]
    return [data[start:end] for start, end in pairwise(places) if end > start]


def is_answer(line: bytes) -> bool:
    try:
        message: Any = json.loads(line)
    except ValueError:
        return False
    return isinstance(message, dict) and {"id": OURS}.items() <= message.items() and "method" not in message


@settings(deadline=None)
@given(cut_streams())
def test_one_answer_goes_and_everything_else_passes_as_it_came_in_whatever_pieces(
    stream: tuple[list[bytes], bytes, list[int]],
) -> None:
    lines, rest, cuts = stream
    found = AnswerFilter()
    assert found.expect(OURS)
    passed, last = b"", b"\n"
    for piece in pieces(b"".join(lines) + rest, cuts):
        passed += piece if found.is_idle else found.feed(piece, begins_line=last == b"\n")
        last = piece[-1:]
    passed += found.flush()
    at = next(number for number, line in enumerate(lines) if is_answer(line))
    assert passed == b"".join(lines[:at] + lines[at + 1 :]) + rest
    assert found.is_idle


@settings(deadline=None)
@given(st.integers(1, len(ANSWER) - 1))
def test_a_line_that_had_begun_before_anything_was_awaited_passes_even_if_its_rest_looks_like_an_answer(
    at: int,
) -> None:
    found = AnswerFilter()
    found.expect(OURS)
    assert found.feed(ANSWER[at:], begins_line=False) == ANSWER[at:]
    # Before it stood something that makes the whole line none: what is left of it is one to the byte.
    assert found.feed(ANSWER, begins_line=False) == ANSWER
    assert found.feed(ANSWER, begins_line=True) == b""


def test_nothing_is_looked_at_while_nothing_is_awaited() -> None:
    assert AnswerFilter().is_idle


def test_a_line_that_is_too_long_for_an_answer_is_passed_on_before_its_end() -> None:
    found = AnswerFilter()
    found.expect(OURS)
    long = b"y" * (MAX_HELD_BYTES + 1)
    assert found.feed(long, begins_line=True) == long
    assert found.feed(b"z\n" + ANSWER, begins_line=False) == b"z\n"
    assert found.is_idle


def test_requests_that_are_never_answered_are_bounded() -> None:
    found = AnswerFilter()
    assert all(found.expect(f"lifebus:0:{number}") for number in range(MAX_AWAITED))
    assert not found.expect("lifebus:0:more")
    found.forget("lifebus:0:0")
    assert found.expect("lifebus:0:more")


OPENED = b'{"id":"lifebus:0f3a:1","result":{"thread":{"id":"w\\u00e9","cwd":"/"}}}\n'
OF_OURS = [
    b'{"method":"thread/started","params":{"thread":{"id":"w\xc3\xa9"}}}\n',
    b'{"method":"item/completed","params":{"item":{"text":"threadId t1"},"threadId":"w\xc3\xa9"}}\n',
    b'{"id":0,"method":"item/commandExecution/requestApproval","params":{"threadId":"w\xc3\xa9"}}\n',
    b'{"method":"x","params":{"conversationId":"w\xc3\xa9"}}\r\n',
]
OF_CLIENTS = [
    b'{"method":"thread/started","params":{"thread":{"id":"t1"}}}\n',
    b'{"method":"item/completed","params":{"item":{"text":"w\xc3\xa9"},"threadId":"t1"}}\n',
    b'{"id":3,"result":{"data":[{"id":"w\xc3\xa9"}]}}\n',
    b'{"id":4,"method":"account/chatgptAuthTokens/refresh","params":{"x":"w\xc3\xa9"}}\n',
    b'{"method":"item/completed","params":{"threadId":["w\xc3\xa9"]}}\n',
    b'{"method":"item/completed","params":"w\xc3\xa9"}\n',
    b'"w\xc3\xa9"\n',
]


@settings(deadline=None)
@given(st.data())
def test_what_is_said_of_a_thread_of_ours_is_kept_from_the_client_and_all_else_passes(
    data: st.DataObject,
) -> None:
    before = data.draw(st.lists(st.sampled_from([*OF_OURS, *OF_CLIENTS]), max_size=3))
    after = data.draw(st.lists(st.sampled_from([*OF_OURS, *OF_CLIENTS]), max_size=8))
    lines = [*before, OPENED, *after]
    stream = b"".join(lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    answers = AnswerFilter()
    assert answers.expect(OURS)
    got, line_begins = b"", True
    for piece in pieces(stream, cuts):
        got += answers.feed(piece, begins_line=line_begins)
        line_begins = piece.endswith(b"\n")
    got += answers.flush()
    assert got == b"".join([*before, *(line for line in after if line in OF_CLIENTS)])
    assert not answers.is_idle, "more may be said of it at any time"


def test_an_answer_without_a_thread_leaves_nothing_to_be_looked_for() -> None:
    answers = AnswerFilter()
    assert answers.expect(OURS)
    assert answers.feed(ANSWER, begins_line=True) == b""
    assert answers.is_idle
