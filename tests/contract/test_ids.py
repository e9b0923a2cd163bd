"""Ids: a prefix and a ULID, unique and ascending within one source."""

import re
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

from lifebus_contract import IdSource
from lifebus_contract.ids import EVENT, INVOCATION, PAYLOAD, RECEIPT

ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def source(times: Iterator[int] | None = None, entropy: Callable[[int], bytes] = bytes) -> IdSource:
    clock = times or iter(range(1_700_000_000_000, 1_800_000_000_000))
    return IdSource(lambda: next(clock), entropy)


def still(now: int) -> Iterator[int]:
    while True:
        yield now


@pytest.mark.parametrize("prefix", [RECEIPT, EVENT, INVOCATION, PAYLOAD])
def test_an_id_is_a_prefix_and_a_ulid(prefix: str) -> None:
    made = source().make(prefix)
    assert made.startswith(prefix)
    assert ULID.fullmatch(made.removeprefix(prefix))


def test_ids_of_one_millisecond_are_unique_and_ascending() -> None:
    ids = source(still(1_700_000_000_000))
    made = [ids.make(RECEIPT) for _ in range(5_000)]
    assert made == sorted(set(made))


def test_ids_of_a_moving_clock_are_ascending() -> None:
    ids = source()
    made = [ids.make(RECEIPT) for _ in range(5_000)]
    assert made == sorted(set(made))


def test_a_clock_that_goes_back_does_not_take_the_ids_back() -> None:
    ids = source(iter([2_000, 1_000, 1_999, 2_001]))
    made = [ids.make(EVENT) for _ in range(4)]
    assert made == sorted(set(made))


def test_when_a_millisecond_is_used_up_the_next_one_is_taken() -> None:
    ids = source(still(5), entropy=lambda size: b"\xff" * size)
    made = [ids.make(EVENT) for _ in range((1 << 19) + 10)]
    assert made[0].removeprefix(EVENT)[:10] < made[-1].removeprefix(EVENT)[:10]
    assert all(earlier < later for earlier, later in pairwise(made))


def test_time_is_readable_from_the_first_ten_characters() -> None:
    made = source(still(1_469_918_176_385)).make(RECEIPT)
    assert made.removeprefix(RECEIPT)[:10] == "01ARYZ6S41"


def test_two_sources_with_the_same_clock_differ_by_their_entropy() -> None:
    first = source(still(9), entropy=lambda size: b"\x01" * size)
    second = source(still(9), entropy=lambda size: b"\x02" * size)
    assert first.make(EVENT) != second.make(EVENT)
