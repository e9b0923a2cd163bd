"""One line framer for all streams: any split gives the same lines, and long or lost ones are accounted for."""

from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_transports.framing.lines import LineFramer, Overlong
from support.effort import effort

LIMIT = 16
CHUNKS = st.lists(st.one_of(st.binary(max_size=40), st.sampled_from([b"\n", b"\r\n", b"{}", "é𝄞".encode()])))


def cut(chunks: list[bytes], limit: int = LIMIT) -> list[bytes | Overlong]:
    lines = LineFramer(limit)
    found = [line for chunk in chunks for line in lines.feed(chunk)]
    return found + lines.finish()


@settings(max_examples=effort(200, 800), deadline=None)
@given(CHUNKS)
def test_wherever_a_stream_is_cut_the_lines_are_the_same(chunks: list[bytes]) -> None:
    *lines, last = b"".join(chunks).split(b"\n")
    expected = [*lines, last] if last else lines
    assert cut(chunks) == [line if len(line) <= LIMIT else Overlong(len(line)) for line in expected]


@given(CHUNKS)
def test_no_more_than_the_limit_is_kept_of_an_unended_line(chunks: list[bytes]) -> None:
    lines = LineFramer(LIMIT)
    for chunk in chunks:
        lines.feed(chunk)
        assert len(lines._kept) <= LIMIT


def test_a_line_that_is_too_long_is_counted_at_once_and_never_held() -> None:
    lines = LineFramer(limit=100)
    assert lines.feed(b"x" * 101) == []
    assert (lines.overlong, lines.unfinished, lines.is_overlong) == (1, 0, True)
    assert lines.feed(b"x" * 500 + b"\n" + b"y" * 100 + b"\nz") == [Overlong(601), b"y" * 100]
    assert (lines.overlong, lines.unfinished, lines.is_overlong) == (1, 1, False)


def test_after_a_loss_the_line_that_had_begun_is_dropped_up_to_the_next_newline() -> None:
    lines = LineFramer(LIMIT)
    assert lines.feed(b"one\ntw") == [b"one"]
    lines.lose()
    assert (lines.lost, lines.unfinished) == (1, 0)
    assert lines.feed(b"o\nthree\nf") == [b"three"]
    lines.lose()
    lines.lose()
    assert lines.feed(b"x" * 100 + b"\n" + b"five") == []
    assert (lines.lost, lines.overlong, lines.finish()) == (3, 0, [b"five"])


def test_a_long_line_whose_end_is_lost_is_counted_once_and_not_reported() -> None:
    lines = LineFramer(LIMIT)
    assert lines.feed(b"x" * 17) == []
    lines.lose()
    assert lines.feed(b"yyy\nz\n") == [b"z"]
    assert (lines.lost, lines.overlong) == (1, 1)


@settings(max_examples=effort(200, 800), deadline=None)
@given(CHUNKS, st.sets(st.integers(0, 12)), st.lists(st.integers(1, 7), min_size=1, max_size=6))
def test_any_split_gives_the_same_lines_and_counts_also_where_bytes_were_lost(
    chunks: list[bytes], losses: set[int], sizes: list[int]
) -> None:
    whole, split = LineFramer(LIMIT), LineFramer(LIMIT)
    for number, chunk in enumerate(chunks):
        if number in losses:
            whole.lose()
            split.lose()
        pieces = [
            chunk[at : at + sizes[number % len(sizes)]] for at in range(0, len(chunk), sizes[number % len(sizes)])
        ]
        assert [line for piece in pieces for line in split.feed(piece)] == whole.feed(chunk)
        assert (split.overlong, split.lost, split.unfinished) == (whole.overlong, whole.lost, whole.unfinished)
    assert split.finish() == whole.finish()


@given(CHUNKS)
def test_every_long_line_is_counted_once(chunks: list[bytes]) -> None:
    lines = LineFramer(LIMIT)
    found = [line for chunk in chunks for line in lines.feed(chunk)] + lines.finish()
    assert lines.overlong == sum(isinstance(line, Overlong) for line in found)


def test_a_line_of_many_small_pieces_is_joined_in_linear_time() -> None:
    assert cut([b"x"] * 200_000, limit=200_000) == [b"x" * 200_000]
