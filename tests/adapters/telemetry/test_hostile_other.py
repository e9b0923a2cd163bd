"""Mangled chat files, telemetry files, database rows and hooks of four harnesses: refused or read, and nothing else."""

import json
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from adapters.telemetry.test_hostile import check, places, replaced, values
from lifebus_adapters import ADAPTERS, HookCall
from lifebus_adapters.shared.telemetry import Compacted, Fact, TurnEnded, WindowKnown
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import MAX_INTEGER
from support.adapters.calls import CAPTURE_FILES, captured, ids
from support.adapters.other_telemetry import DUMPS, FILES, Store, database_reader, record_reader, records, stored
from support.adapters.telemetry_facts import harness_of
from support.effort import effort

EXAMPLES = settings(max_examples=effort(60, 1_500), deadline=None, suppress_health_check=[HealthCheck.too_slow])
SOURCE_IDS = ("chats", "telemetry")
MAX_BYTES = 5_000
"""The largest objects are metrics, which are passed over."""
RECORDS = {
    "chats": [record for path in FILES if path.suffix == ".jsonl" for record in records(path)],
    "telemetry": [
        record for path in FILES if path.suffix == ".log" for record in records(path) if len(record) < MAX_BYTES
    ],
}
HEADER = b'{"sessionId":"s1","kind":"main"}'


def answers_of(path: Path) -> list[tuple[int, list[tuple[Any, ...]]]]:
    """Return what the queries about a dump are answered with, each by its place among the queries."""
    store = Store(harness_of(path))
    with closing(store.connection):
        for table, row in stored(path):
            store.insert(table, **row)
        return [(place, rows) for place, (_, rows) in enumerate(store.answers()) if rows]


ANSWERS = [(harness_of(path), place, rows) for path in DUMPS for place, rows in answers_of(path)]
HARNESSES = ("gemini", "hermes", "openclaw", "opencode")
CALLS = [native for path in CAPTURE_FILES if path.parent.parent.name in HARNESSES for native, _ in captured(path)]
TELLING = [native for native in CALLS if ADAPTERS[native.adapter_id].read(native, ids()).facts]

columns = st.one_of(
    st.none(),
    st.sampled_from(
        [0, -1, 2**53, 2**63 - 1, 0.5, float("inf"), b"\xff", "", "x" * 300, "\x00", "{", "[]", "7", "null"]
    ),
    st.sampled_from(['{"total":-1}', '{"input":"x"}', '{"total":1e400}', '{"cache":7}', '{"total":NaN}', "\ud800"]),
    st.text(max_size=5),
)


def check_more(facts: list[Fact]) -> None:
    """Fail if a fact could not be recorded."""
    check(facts)
    for fact in facts:
        msgspec.json.encode(fact)
        if isinstance(fact, Compacted):
            assert fact.key.isprintable()
            assert len(fact.key) <= 300
        if isinstance(fact, TurnEnded):
            assert fact.frame_end in {"completed", "failed", "interrupted"}
            assert fact.evidence.isprintable()
        if isinstance(fact, WindowKnown):
            assert 0 < fact.window_tokens <= MAX_INTEGER


def outcome(read: Callable[[], Sequence[Fact]]) -> list[Fact]:
    """Return what is read; a refusal is nothing, as a watcher has it."""
    try:
        return list(read())
    except InvalidRequest:
        return []


def facts_in(source_id: str, *records: bytes) -> list[Fact]:
    reader = record_reader(source_id)
    given_records = (HEADER, *records) if source_id == "chats" else records
    return [fact for record in given_records for fact in outcome(partial(reader.read, record))]


@EXAMPLES
@given(st.sampled_from(SOURCE_IDS), st.data())
def test_a_mangled_record_is_refused_or_read(source_id: str, data: st.DataObject) -> None:
    document = json.loads(data.draw(st.sampled_from(RECORDS[source_id])))
    for _ in range(data.draw(st.integers(1, 3))):
        document = replaced(document, data.draw(st.sampled_from(places(document))), data.draw(values))
    check_more(facts_in(source_id, json.dumps(document).encode("utf-8", "surrogatepass")))


@EXAMPLES
@given(st.sampled_from(SOURCE_IDS), st.data())
def test_a_torn_record_is_refused_or_read(source_id: str, data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(RECORDS[source_id]))
    at = data.draw(st.integers(0, len(record)))
    check_more(facts_in(source_id, record[:at] + data.draw(st.binary(max_size=12)) + record[at + 5 :]))


@pytest.mark.parametrize("source_id", SOURCE_IDS)
@pytest.mark.parametrize(
    "record",
    [b"", b"null", b"[]", b"7", b"{", b"\xff\xfe", b'{"attributes":[]}', b'{"id":"\\ud800","type":"user"}',
     b'{"content":' + b"[" * 100_000 + b"]" * 100_000 + b"}", b'{"attributes":' + b"[" * 100_000 + b"}"],
    ids=lambda record: f"{record[:40]!r}",
)  # fmt: skip
def test_nothing_but_a_refusal_comes_of_a_hopeless_record(source_id: str, record: bytes) -> None:
    assert facts_in(source_id, record) == []


@pytest.mark.parametrize("source_id", SOURCE_IDS)
def test_a_refusal_does_not_quote_the_file(source_id: str) -> None:
    reader = record_reader(source_id)
    with pytest.raises(InvalidRequest) as refused:
        reader.read(b'{"sessionId":["secret word"],"attributes":"secret word"}')
    assert "secret" not in f"{refused.value.detail} {refused.value.field}"


@EXAMPLES
@given(st.sampled_from(ANSWERS), st.data())
def test_mangled_rows_are_refused_or_read_and_the_reader_asks_on(
    answer: tuple[str, int, list[tuple[Any, ...]]], data: st.DataObject
) -> None:
    adapter_id, place, rows = answer
    mangled = [list(row) for row in rows]
    for _ in range(data.draw(st.integers(1, 3))):
        row = data.draw(st.sampled_from(mangled))
        row[data.draw(st.integers(0, len(row) - 1))] = data.draw(columns)
    reader = database_reader(adapter_id)
    query = reader.queries()[place]
    check_more(outcome(partial(reader.read, query, [tuple(row) for row in mangled])))
    assert len(reader.queries()) == len(database_reader(adapter_id).queries())


@EXAMPLES
@given(st.sampled_from(ANSWERS), st.lists(st.lists(columns, max_size=18).map(tuple), max_size=4))
def test_any_rows_are_refused_or_read(
    answer: tuple[str, int, list[tuple[Any, ...]]], rows: list[tuple[Any, ...]]
) -> None:
    adapter_id, place, _ = answer
    reader = database_reader(adapter_id)
    check_more(outcome(partial(reader.read, reader.queries()[place], rows)))


@EXAMPLES
@given(st.data())
def test_a_mangled_hook_is_refused_or_read(data: st.DataObject) -> None:
    native = data.draw(st.sampled_from(TELLING))
    payload = json.loads(native.stdin)
    payload = replaced(payload, data.draw(st.sampled_from(places(payload))), data.draw(values))
    stdin = json.dumps(payload).encode("utf-8", "surrogatepass")
    mangled = HookCall(adapter_id=native.adapter_id, hook=native.hook, call_id="c", cwd="/", env={}, stdin=stdin)
    check_more(outcome(lambda: ADAPTERS[native.adapter_id].read(mangled, ids()).facts))
