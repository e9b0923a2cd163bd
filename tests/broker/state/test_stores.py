"""The stores refuse what does not follow, dump and load to the byte, and lose nothing to how they are kept."""

import json
from collections.abc import Callable
from hashlib import sha256
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from lifebus_broker.ledger.log import LogLine
from lifebus_broker.ports import NewReceipt
from lifebus_broker.state import session_table
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_broker.state.stores import (
    REDUCER_VERSION,
    Stores,
    dump_stores,
    load_base,
    load_stores,
    pending_of,
    reduce_event,
    store_digests,
)
from lifebus_contract import InternalError, LifecycleEvent, encode_json
from support.effort import effort
from support.histories import histories, history, lines_of, replayed
from support.receipts import entry

LINES = lines_of(history(7, 60))
SESSION_LINE = next(line for line in reversed(LINES) if (json.loads(line.receipt)["sequence"] or 0) > 1)


def changed(line: LogLine, **fields: Any) -> LogLine:
    """Return the line with another receipt, canonical as ever."""
    text = json.dumps({**json.loads(line.receipt), **fields}, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return structs.replace(line, receipt=text.encode())


BROKEN: dict[str, Callable[[LogLine], LogLine]] = {
    "a line is left out": lambda line: structs.replace(line, position=line.position + 1),
    "a line comes twice": lambda line: structs.replace(line, position=line.position - 1),
    "one byte is another": lambda line: changed(line, client_id="mallory"),
    "the same data are written otherwise": lambda line: structs.replace(line, receipt=b" " + line.receipt),
    "the link is another": lambda line: structs.replace(line, link="0" * 64),
    "the sequence is another": lambda line: changed(line, sequence=99),
    "the sequence is gone": lambda line: changed(line, sequence=None),
    "it holds no receipt": lambda line: structs.replace(line, receipt=b"{}"),
    "it holds no JSON": lambda line: structs.replace(line, receipt=b"\xff"),
    "a number is beyond 2^53-1": lambda line: changed(line, telemetry_summary={"n": 2**53}),
    "a number is a float": lambda line: changed(line, telemetry_summary={"n": 0.5}),
    "an event is unknown": lambda line: changed(line, event="session.paused"),
}


@pytest.mark.parametrize("harm", BROKEN.values(), ids=BROKEN)
def test_a_line_that_does_not_follow_is_refused_by_its_position_and_changes_nothing(
    harm: Callable[[LogLine], LogLine],
) -> None:
    before = replayed(LINES[: SESSION_LINE.position - 1])
    dump, line = dump_stores(before), harm(SESSION_LINE)
    with pytest.raises(BrokenLog, match=f"row {line.position}:") as caught:
        reduce_event(before, line)
    assert (caught.value.position, caught.value.code) == (line.position, "log_broken")
    assert dump_stores(before) == dump
    reduce_event(before, SESSION_LINE)


def test_a_log_without_sequences_is_that_of_a_ledger_that_numbers_nothing() -> None:
    text = encode_json(entry(1).receipt)
    stores = replayed([LogLine(1, None, sha256(bytes(32) + text).hexdigest(), text)])
    assert stores.facts.streams["codex", "s1"].sequence == 0
    assert dump_stores(load_stores(dump_stores(stores))) == dump_stores(stores)


def test_empty_stores_have_bytes_and_digests_too() -> None:
    empty = dump_stores(Stores())
    assert empty == b'{"facts":[],"position":0,"reducer":%d,"story":[],"unlock":[]}' % REDUCER_VERSION
    assert dump_stores(load_stores(empty)) == empty
    assert pending_of(Stores()) is None
    digests = store_digests(Stores(), {})
    assert digests.facts_ledger_digest == digests.unlock_state_digest == digests.story_state_digest
    assert digests.working_set_digest != store_digests(Stores(), {"contract_version": "x"}).working_set_digest


DUMP = dump_stores(replayed(LINES))
BAD_DUMPS: dict[str, bytes] = {
    "nothing": b"",
    "not JSON": DUMP[:-1],
    "not UTF-8": DUMP.replace(b"codex", b"cod\xff\xff"),
    "a space": DUMP.replace(b',"position"', b', "position"'),
    "a newline at the end": DUMP + b"\n",
    "a key too many": DUMP.replace(b'{"facts"', b'{"extra":1,"facts"', 1),
    "a key too few": DUMP.replace(b',"unlock":[', b',"unlocked":['),
    "another order": b'{"position":0,"facts":[],"reducer":%d,"story":[],"unlock":[]}' % REDUCER_VERSION,
    "a default written out": DUMP.replace(b'"by_event"', b'"app":false,"by_event"', 1),
    "an escape written otherwise": DUMP.replace(b"codex", b"\\u0063odex", 1),
    "a link that is none": DUMP.replace(LINES[-1].link.encode(), b"zz" * 32),
}


@pytest.mark.parametrize("data", BAD_DUMPS.values(), ids=BAD_DUMPS)
def test_bytes_that_no_dump_has_are_refused(data: bytes) -> None:
    assert data != DUMP
    with pytest.raises(InternalError, match="not a dump of the stores") as caught:
        load_stores(data)
    assert caught.value.code == "dump_broken"


def test_a_dump_of_other_reducers_is_refused_with_what_to_do() -> None:
    newer = dump_stores(Stores(), REDUCER_VERSION + 1)
    with pytest.raises(InternalError, match=rf"version {REDUCER_VERSION + 1} of.*replay the log") as caught:
        load_stores(newer)
    assert caught.value.code == "reducer_version"


def test_a_base_of_an_earlier_version_is_read_because_nothing_else_holds_what_was_pruned() -> None:
    stores = replayed(lines_of(history(1, 40)))
    earlier = dump_stores(stores, 1)
    assert dump_stores(load_base(earlier)) == dump_stores(stores)
    with pytest.raises(InternalError, match="replay the log"):
        load_stores(earlier)
    with pytest.raises(InternalError, match=f"version {REDUCER_VERSION + 1}"):
        load_base(dump_stores(stores, REDUCER_VERSION + 1))


@pytest.mark.parametrize("pins", [{"n": 2**53}, {"n": 0.5}, {"s": "\ud800"}, {"\u00e9": 1}, {"deep": [{1: 2}]}])
def test_pins_without_a_canonical_form_are_refused(pins: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="no canonical form"):
        store_digests(Stores(), pins)


def test_absent_and_null_pins_are_different_pins() -> None:
    assert store_digests(Stores(), {}) != store_digests(Stores(), {"contract_version": None})


@given(st.integers(0, 39), st.integers(0, 2**16))
def test_every_receipt_counts_for_the_digests_also_one_that_left_no_other_trace(number: int, seed: int) -> None:
    entries, others = history(seed, 40), history(seed, 40)
    harmed = structs.replace(others[number].receipt, invocation_id="inv_other")
    others[number] = others[number]._replace(receipt=harmed)
    one, other = (store_digests(replayed(lines_of(each)), {}) for each in (entries, others))
    assert one.facts_ledger_digest != other.facts_ledger_digest


@settings(max_examples=effort(60, 600))
@given(histories(most=60, least=1), st.data())
def test_a_copy_goes_its_own_way(entries: list[NewReceipt], data: st.DataObject) -> None:
    lines = lines_of(entries)
    cut = data.draw(st.integers(0, len(lines) - 1), label="cut")
    first = replayed(lines[:cut])
    dump, copy = dump_stores(first), first.copy()
    replayed(lines[cut:], copy)
    assert dump_stores(first) == dump
    assert dump_stores(replayed(lines[cut:], first)) == dump_stores(copy)


@settings(max_examples=effort(60, 600))
@given(histories(), st.integers(1, 4))
def test_when_sessions_are_sealed_changes_no_answer(entries: list[NewReceipt], seal_at: int) -> None:
    lines = lines_of(entries)
    plain = replayed(lines)
    with patch.object(session_table, "SEAL_AT", seal_at):
        sealed = replayed(lines)
    assert dump_stores(sealed) == dump_stores(plain)
    assert store_digests(sealed, {}) == store_digests(plain, {})
    assert pending_of(sealed) == pending_of(plain)
    assert [sealed.sessions.get(key) for key in sealed.sessions] == [plain.sessions.get(key) for key in plain.sessions]
    assert len(sealed.sessions) == len(plain.sessions)
    assert sealed.sessions.get(("codex", "nobody")) is None


@settings(max_examples=effort(40, 400))
@given(histories())
def test_sessions_do_not_touch_each_other(entries: list[NewReceipt]) -> None:
    whole = replayed(lines_of(entries))
    for adapter_id, session in whole.sessions:
        alone = [one for one in entries if _stream(one) == (adapter_id, session)]
        state, own = (
            whole.sessions.get((adapter_id, session)),
            replayed(lines_of(alone)).sessions.get((adapter_id, session)),
        )
        assert state is not None
        assert own is not None
        assert (state.by_event, state.course, state.lost) == (own.by_event, own.course, own.lost)
        assert [one.frame_id for one in state.frames] == [one.frame_id for one in own.frames]


def test_a_session_that_is_over_costs_little() -> None:
    frames = [f"0192f0c1-7a55-7d1e-9a10-{number:012d}" for number in range(100)]
    entries = [entry(0, event=LifecycleEvent.SESSION_STARTED, client_id="lifebus.hook")]
    for number, frame in enumerate(frames):
        events = (LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED)
        entries += [entry(number, event=event, telemetry_summary={"frame_id": frame}) for event in events]
    entries.append(entry(999, event=LifecycleEvent.SESSION_ENDED))
    assert len(dump_stores(replayed(lines_of(entries)))) < 1_024


def _stream(one: NewReceipt) -> tuple[str, str | None]:
    return one.receipt.adapter_id, one.receipt.harness_session_id
