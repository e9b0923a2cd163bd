"""Files that somebody has mangled: a reader refuses or reads on, and never does anything else."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS, HookCall
from lifebus_adapters.shared.telemetry import Fact, Usage
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import MAX_INTEGER
from support.adapters.calls import CAPTURE_FILES, captured, ids
from support.adapters.telemetry_facts import FOLDERS, TELEMETRY_FILES, harness_of, reader_of, records_of
from support.effort import effort

PATHS = {name: next(str(path) for path in TELEMETRY_FILES if harness_of(path) == name) for name in FOLDERS}
RECORDS = {
    name: sorted(
        {record for path in TELEMETRY_FILES if harness_of(path) == name for record in records_of(path)}, key=len
    )
    for name in FOLDERS
}
CALLS = [native for path in CAPTURE_FILES if path.parent.parent.name in FOLDERS for native, _ in captured(path)]
EXAMPLES = settings(max_examples=effort(100, 3_000), deadline=None, suppress_health_check=[HealthCheck.too_slow])

numbers = st.sampled_from([0, -1, 2**53 - 1, 2**53, 2**63, 2**64, 10**400, 0.5, 1.0, 1e308, True, False])
words = st.sampled_from(["", "12", "\x00", "\ud800", "x" * 300, "é", "<synthetic>", "compact_boundary", "assistant"])
values = st.one_of(st.none(), numbers, words, st.just([]), st.just({}), st.just([None]), st.just({"type": 1}))


def places(document: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the paths of everything inside a document."""
    if not isinstance(document, dict | list):
        return []
    holder = cast("dict[str, Any] | list[Any]", document)
    keys: list[Any] = [*holder] if isinstance(holder, dict) else [*range(len(holder))]
    return [place for key in keys for place in ((*path, key), *places(document[key], (*path, key)))]


def replaced(document: Any, place: tuple[Any, ...], value: Any) -> Any:
    """Return a copy of a document in which one thing is another."""
    copy = json.loads(json.dumps(document))
    holder = copy
    for key in place[:-1]:
        holder = holder[key]
    holder[place[-1]] = value
    return copy


@st.composite
def mangled_records(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Draw a harness, and one of its recorded lines with some values replaced by strange ones."""
    name = draw(st.sampled_from(sorted(RECORDS)))
    document = json.loads(draw(st.sampled_from(RECORDS[name])))
    for _ in range(draw(st.integers(1, 3))):
        document = replaced(document, draw(st.sampled_from(places(document))), draw(values))
    return name, [json.dumps(document, separators=(",", ":")).encode("utf-8", "surrogatepass")]


@st.composite
def torn_records(draw: st.DrawFn) -> tuple[str, list[bytes]]:
    """Draw a harness, and one of its recorded lines with bytes cut out, put in or changed."""
    name = draw(st.sampled_from(sorted(RECORDS)))
    record = draw(st.sampled_from(RECORDS[name]))
    at = draw(st.integers(0, len(record)))
    until = draw(st.integers(at, min(len(record), at + 20)))
    return name, [record[:at] + draw(st.binary(max_size=12)) + record[until:]]


def facts_in(name: str, records: list[bytes], **environ: str) -> list[Fact]:
    """Return what can be read of the records; refusals are passed over, as a watcher does."""
    reader = reader_of(name, PATHS[name], **environ)
    facts: list[Fact] = []
    for record in records:
        try:
            facts += reader.read(record)
        except InvalidRequest:
            continue
    return facts


def check(facts: list[Fact]) -> None:
    """Fail if a fact could not be recorded."""
    for fact in facts:
        assert fact.session
        assert len(fact.session) <= 256
        assert fact.session.isprintable()
        if isinstance(fact, Usage):
            assert 0 <= fact.used_tokens <= MAX_INTEGER
            assert fact.window_tokens is None or 0 < fact.window_tokens <= MAX_INTEGER
            assert (fact.window_tokens is None) == (fact.window_source is None)


@EXAMPLES
@given(st.one_of(mangled_records(), torn_records()))
def test_a_mangled_line_is_refused_or_read_and_nothing_else(drawn: tuple[str, list[bytes]]) -> None:
    check(facts_in(*drawn))


@EXAMPLES
@given(st.sampled_from(sorted(RECORDS)), st.binary(max_size=200))
def test_any_bytes_are_refused_or_read_and_nothing_else(name: str, noise: bytes) -> None:
    check(facts_in(name, [noise]))


@pytest.mark.parametrize("path", TELEMETRY_FILES, ids=lambda path: path.name[-14:-6])
def test_a_session_is_read_on_between_mangled_lines(path: Path) -> None:
    name, records = harness_of(path), records_of(path)
    mangled = [piece for record in records for piece in (record[: len(record) // 2], b"\xff", b"{}", record)]
    assert facts_in(name, mangled) == facts_in(name, records)


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize(
    "record",
    [
        b"",
        b"null",
        b"[]",
        b"7",
        b'"text"',
        b"{",
        b"{}",
        b'{"type":null}',
        b'{"type":7}',
        b"\xff\xfe",
        b'{"type":"\xff"}',
        b'{"type":"user","message":{"content":"\\ud800"}}',
        b'{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"total_tokens":NaN}}}}',
        b'{"type":"assistant","message":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"event_msg","payload":' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"type":"event_msg","payload":{"type":"item_completed"}}',
    ],
    ids=lambda record: f"{record[:40]!r}",
)
def test_nothing_but_a_refusal_comes_of_a_hopeless_line(name: str, record: bytes) -> None:
    assert facts_in(name, [record]) == []


@pytest.mark.parametrize("name", FOLDERS)
def test_a_refusal_does_not_quote_the_file(name: str) -> None:
    record = b'{"type":{"secret word":"secret word"},"payload":"secret word","message":"secret word"}'
    with pytest.raises(InvalidRequest) as refused:
        reader_of(name, PATHS[name]).read(record)
    assert "secret" not in f"{refused.value.detail} {refused.value.field}"


@pytest.mark.parametrize("name", FOLDERS)
@pytest.mark.parametrize("value", ["\x00", "\udcff", "x" * 300, "\n"])
def test_a_strange_variable_is_passed_over(name: str, value: str) -> None:
    upper = name.upper()
    names = ("THREAD_ID", "SESSION_ID", "MODEL", "CONTEXT_WINDOW_TOKENS")
    environ = {f"LIFEBUS_{upper}_{variable}": value for variable in names}
    assert facts_in(name, RECORDS[name], **environ) == facts_in(name, RECORDS[name])


@EXAMPLES
@given(st.data())
def test_a_mangled_hook_is_refused_or_read_and_shown(data: st.DataObject) -> None:
    native = data.draw(st.sampled_from(CALLS))
    payload = json.loads(native.stdin)
    payload = replaced(payload, data.draw(st.sampled_from(places(payload))), data.draw(values))
    stdin = json.dumps(payload).encode("utf-8", "surrogatepass")
    mangled = HookCall(adapter_id=native.adapter_id, hook=native.hook, call_id="c", cwd="/", env={}, stdin=stdin)
    adapter = ADAPTERS[native.adapter_id]
    try:
        check(list(adapter.read(mangled, ids()).facts))
        assert len(adapter.render(mangled, []).stdout) < 80
    except InvalidRequest:
        return
