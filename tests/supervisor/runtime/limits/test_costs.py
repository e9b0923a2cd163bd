"""The costs of a run: each response once, the last one kept, exact sums, whatever the order and the number of files."""

from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import CostRecord
from lifebus_supervisor.runtime.limits import costs
from lifebus_supervisor.runtime.limits.costs import CostBook
from lifebus_supervisor.runtime.limits.prices import micros_of, price_of

FIELDS = ("input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "calls")

AT_MS = 1_790_000_000_000


def record(step: str = "a", **more: object) -> CostRecord:
    return CostRecord(run_id="run_1", step_id=step, **more)  # type: ignore[arg-type]


def book_of(records: Sequence[CostRecord]) -> CostBook:
    book = CostBook()
    for one in records:
        book = book.counted(one)
    return book


@st.composite
def records(draw: st.DrawFn) -> CostRecord:
    cached, written, sent = (draw(st.integers(0, 1_000)) for _ in range(3))
    return record(
        draw(st.sampled_from("ab")),
        key=draw(st.sampled_from([None, *"klmnopqr"])),
        input_tokens=cached + written + sent,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        output_tokens=draw(st.integers(0, 1_000)),
        calls=draw(st.integers(0, 3)),
        cost_micros=draw(st.none() | st.integers(0, 10**9)),
    )


def counted_by_hand(given_records: Sequence[CostRecord]) -> dict[str, dict[str, int]]:
    """Return the sums by step: the last record of each key, under the step of its first one."""
    first: dict[str, str] = {}
    last: dict[str, CostRecord] = {}
    rows: list[tuple[str, CostRecord]] = []
    for one in given_records:
        if one.key is None:
            rows.append((one.step_id, one))
        else:
            first.setdefault(one.key, one.step_id)
            last[one.key] = one
    rows += [(first[key], one) for key, one in last.items()]
    sums: dict[str, dict[str, int]] = defaultdict(lambda: defaultdict(int))
    for step, one in rows:
        for name in FIELDS:
            sums[step][name] += getattr(one, name)
        sums[step]["cost_micros"] += one.cost_micros or 0
        sums[step]["unpriced_calls"] += one.calls if one.cost_micros is None else 0
    return sums


@given(st.lists(records(), max_size=60))
def test_the_sums_are_those_of_the_last_record_of_each_key(given_records: list[CostRecord]) -> None:
    found = book_of(given_records).summary()
    by_hand = counted_by_hand(given_records)
    assert found.by_step.keys() == by_hand.keys()
    for name in (*FIELDS, "cost_micros", "unpriced_calls"):
        for step in by_hand:
            assert getattr(found.by_step[step], name) == by_hand[step][name]
        assert getattr(found, name) == sum(sums[name] for sums in by_hand.values())


@given(st.lists(records(), max_size=40), st.data())
def test_reading_files_again_changes_nothing(given_records: list[CostRecord], data: st.DataObject) -> None:
    keyed = [one for one in given_records if one.key is not None]
    book = book_of(keyed)
    newest = list({one.key: one for one in keyed}.values())
    again = data.draw(st.permutations(newest))
    assert all(book.knows(one) for one in newest)
    assert book_of([*keyed, *again]).summary() == book.summary()


def test_books_before_are_not_changed() -> None:
    first = CostBook().counted(record(key="k", output_tokens=1))
    second = first.counted(record(key="k", output_tokens=9))
    assert (first.total.output_tokens, second.total.output_tokens) == (1, 9)
    assert not first.knows(record(key="k", output_tokens=9))


def test_there_is_an_end_of_keys_and_of_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(costs, "MAX_KEYS", 2)
    book = book_of([record(key="k"), record(key="l")])
    assert not book.takes(record(key="m"))
    assert book.takes(record(key="l"))
    assert book.takes(record())
    full = book.counted(record(input_tokens=2**53 - 1))
    assert not full.takes(record(input_tokens=1))


def test_tokens_of_caches_are_a_part_of_the_input() -> None:
    with pytest.raises(ValueError, match="input_tokens"):
        record(input_tokens=10, cache_read_tokens=11)


def test_prices_are_those_of_the_lists() -> None:
    genai_prices = pytest.importorskip("genai_prices")
    asked = record(model="claude-opus-4-1", input_tokens=1_500, cache_read_tokens=400, cache_write_tokens=100)
    usage = genai_prices.Usage(input_tokens=1_500, cache_read_tokens=400, cache_write_tokens=100, output_tokens=0)
    expected = genai_prices.calc_price(usage, "claude-opus-4-1").total_price * 1_000_000
    assert price_of(asked, AT_MS) == int(expected.to_integral_value()) > 0
    # A million tokens at fifteen dollars: what the maker's own price page says.
    assert price_of(record(model="claude-opus-4-1", input_tokens=1_000_000), AT_MS) == 15_000_000


def test_an_unknown_model_is_an_error() -> None:
    pytest.importorskip("genai_prices")
    with pytest.raises(InvalidRequest) as raised:
        price_of(record(model="fake-model", input_tokens=1), AT_MS)
    assert raised.value.code == "unknown_model"


def test_without_the_extra_there_are_no_prices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "genai_prices", None)
    with pytest.raises(InvalidRequest, match=r"lifebus\[prices\]") as raised:
        price_of(record(model="claude-opus-4-1", input_tokens=1), AT_MS)
    assert raised.value.code == "no_prices"


@pytest.mark.parametrize(
    ("dollars", "micros"), [("0.1", 100_000), ("0.0000005", 0), ("0.0000015", 2), ("3", 3_000_000)]
)
def test_dollars_are_rounded_to_whole_millionths(dollars: str, micros: int) -> None:
    assert micros_of(Decimal(dollars)) == micros
