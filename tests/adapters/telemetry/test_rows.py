"""Going through tables: position, rows that are bad, rows that are gone, and turns that are over."""

from typing import Any

import pytest
from msgspec import Struct

from lifebus_adapters.shared.rows import RowDecoder, TablePosition, json_bytes
from lifebus_adapters.shared.telemetry import Activity, Fact, TurnEnded, TurnStarted
from lifebus_contract import InvalidRequest
from support.adapters.other_telemetry import Store


class Pair(Struct, array_like=True):
    number: int
    word: str


PAIR = RowDecoder(Pair)


def row_facts(row: tuple[Any, ...]) -> list[Fact]:
    return [Activity(session=PAIR.read(row).word)]


def sessions(facts: list[Fact]) -> list[str]:
    return [fact.session for fact in facts]


@pytest.mark.parametrize("row", [(), (1,), ("1", "a"), (1, None), (1, b"a"), (1.5, "a"), (True, "a")])
def test_a_row_of_another_form_is_refused_without_its_content(row: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest) as refused:
        PAIR.read(row)
    assert "'a'" not in refused.value.detail


def test_columns_that_came_later_are_passed_over() -> None:
    assert PAIR.read((1, "a", "new")) == Pair(1, "a")


def test_progress_is_the_number_of_the_last_row() -> None:
    position = TablePosition()
    assert position.at is None
    assert sessions(position.read([(3, "a"), (7, "b")], row_facts)) == ["a", "b"]
    assert position.at == 7


def test_an_empty_table_is_a_beginning_too() -> None:
    position = TablePosition()
    assert position.read([], row_facts) == []
    assert position.at == 0


def test_a_bad_row_costs_itself_alone() -> None:
    position = TablePosition()
    rows: list[tuple[Any, ...]] = [(1, "a"), (2, None), (3, "c")]
    assert sessions(position.read(rows, row_facts)) == ["a"]
    with pytest.raises(InvalidRequest):
        position.read(rows[1:], row_facts)
    assert sessions(position.read(rows[2:], row_facts)) == ["c"]


def test_rows_that_are_gone_give_their_numbers_to_new_ones() -> None:
    position = TablePosition()
    position.read([(9, "a")], row_facts)
    position.end_at([(4,)])
    assert position.at == 4
    position.end_at([])
    assert position.at == 4


@pytest.mark.parametrize("row", [(), (None,), ("4",), (-1,)])
def test_a_last_row_of_another_form_is_refused(row: tuple[Any, ...]) -> None:
    with pytest.raises(InvalidRequest):
        TablePosition().end_at([row])


def test_facts_that_repeat_at_once_are_reported_once() -> None:
    assert sessions(TablePosition().read([(1, "a"), (2, "a"), (3, "b"), (4, "a")], row_facts)) == ["a", "b", "a"]


def test_the_end_of_an_unnamed_turn_is_dropped_if_the_next_turn_has_begun() -> None:
    """Whoever hears of it this late would take it for the end of the new turn."""
    by_row: dict[int, Fact] = {
        1: TurnEnded(session="a"),
        2: TurnEnded(session="b"),
        3: TurnStarted(session="a"),
        4: TurnEnded(session="a", frame_id="named"),
        5: TurnStarted(session="a"),
        6: TurnEnded(session="a", frame_end="failed"),
    }
    facts = TablePosition().read([(number,) for number in by_row], lambda row: [by_row[row[0]]])
    assert facts == [by_row[number] for number in (2, 3, 4, 5, 6)]


def test_text_that_is_no_unicode_is_left_to_the_decoder() -> None:
    assert json_bytes("\ud800") == b"\xed\xa0\x80"


@pytest.mark.parametrize("adapter_id", ["opencode", "hermes", "openclaw"])
def test_every_query_is_a_single_bounded_select(adapter_id: str) -> None:
    for query in Store(adapter_id).reader.queries():
        statement = query.sql.strip()
        assert statement.startswith(("SELECT", "WITH"))
        assert ";" not in statement
        assert statement.count("?") == len(query.values)
        assert "LIMIT ?" in statement or "WHERE last < ?" in statement
        assert 1 < query.limit <= 1_000


@pytest.mark.parametrize("adapter_id", ["opencode", "hermes", "openclaw"])
def test_an_empty_database_has_no_facts_and_asks_on(adapter_id: str) -> None:
    store = Store(adapter_id)
    assert store.poll() == []
    assert all(rows == [] for _, rows in store.answers())
