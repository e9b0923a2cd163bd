"""Sessions that ended are kept in a file: whatever is kept there, and wherever the disk fails, no answer changes."""

from collections.abc import Sequence
from pathlib import Path
from unittest.mock import patch

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_broker.ledger.sqlite import sealed_file
from lifebus_broker.ledger.sqlite.sealed_file import SealedInFile, new_sealed_items
from lifebus_broker.state import session_table
from lifebus_broker.state.sealed import SealedInMemory, SealedItem, SealedItems
from lifebus_broker.state.session_names import session_names
from lifebus_broker.state.stores import Stores, dump_stores, load_stores, reduce_event, store_digests
from lifebus_contract import InternalError
from support.effort import effort
from support.histories import history, lines_of, replayed
from support.leftovers import descriptors

KEYS = st.tuples(
    st.sampled_from(["claude", "codex"]), st.sampled_from(["", "a", "b\x00c", "é", "\U0001f680", "\uffdc"])
)


def full(items: SealedItems) -> None:
    """Let the disk take nothing more."""
    assert isinstance(items, SealedInFile)
    pages = items._execute("PRAGMA page_count").fetchall()[0][0]
    items._execute(f"PRAGMA max_page_count = {pages}").fetchall()


def filled(folder: Path, items: Sequence[SealedItem]) -> SealedItems:
    """Return a file with these items."""
    found = new_sealed_items(folder)
    assert isinstance(found, SealedInFile)
    found.put(items)
    return found


@settings(deadline=None, max_examples=effort(20, 300))
@given(st.integers(0, 2**16), st.integers(1, 3), st.sets(st.integers(0, 119), max_size=4))
def test_sessions_that_end_and_come_back_are_what_a_replay_says(
    tmp_path_factory: pytest.TempPathFactory, seed: int, seal_at: int, restarts: set[int]
) -> None:
    folder = tmp_path_factory.mktemp("sealed")
    lines = lines_of(history(seed, 120))
    with patch.object(session_table, "SEAL_AT", seal_at):
        stores = Stores(lambda: new_sealed_items(folder))
        for number, line in enumerate(lines):
            if number in restarts:  # as a start reads the newest cache
                stores = load_stores(dump_stores(stores), lambda: new_sealed_items(folder))
            if number - 1 in restarts:
                stores = stores.copy()
            reduce_event(stores, line)
    whole = replayed(lines)
    assert dump_stores(stores) == dump_stores(whole)
    assert store_digests(stores, {}) == store_digests(whole, {})
    assert session_names(stores.sessions) == session_names(whole.sessions)
    assert len(stores.facts) == len(whole.facts)
    assert stores.facts.equals(dict(whole.facts.items()))
    assert list(folder.iterdir()) == []


def test_such_histories_have_sessions_that_are_sealed_and_come_back() -> None:
    sealed = 0
    for seed in range(5):
        stores = Stores()
        with patch.object(session_table, "SEAL_AT", 1):
            for line in lines_of(history(seed, 120)):
                before = len(stores.sessions.sealed)
                reduce_event(stores, line)
                sealed += before > len(stores.sessions.sealed)
    assert sealed >= 5


@settings(deadline=None, max_examples=effort(30, 300))
@given(st.lists(st.tuples(KEYS, st.none() | st.binary(max_size=40)), max_size=30), st.none() | st.integers(0, 30))
def test_a_file_and_memory_hold_the_same_also_where_the_disk_is_full_meanwhile(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[tuple[str, str], bytes | None]], full_at: int | None
) -> None:
    memory = SealedInMemory()
    kept = new_sealed_items(tmp_path_factory.mktemp("sealed"))
    for number, (key, value) in enumerate(steps):
        if number == full_at:
            full(kept)
        if value is None:
            memory.drop(key)
            kept.drop(key)
        else:
            memory.put([(key, value)])
            kept.put([(key, value)])
        assert kept.get(key) == memory.get(key)
        assert len(kept) == len(memory)
    assert list(kept.in_order()) == list(memory.in_order()) == list(kept.copy().in_order())


def test_what_a_full_disk_does_not_take_is_kept_in_memory(tmp_path: Path) -> None:
    items = [(("codex", f"s{number:05}"), bytes([number % 256]) * 200) for number in range(2_000)]
    kept = filled(tmp_path, items[:500])
    full(kept)
    kept.put(items[500:])
    kept.drop(items[3][0])
    assert list(kept.in_order()) == [*items[:3], *items[4:]]
    assert kept.get(items[1_999][0]) == items[1_999][1]
    assert kept.get(items[3][0]) is None


def test_what_a_disk_does_not_let_go_is_forgotten_in_memory_and_the_file_is_closed(tmp_path: Path) -> None:
    items = [(("codex", "s1"), b"one"), (("codex", "s2"), b"two")]
    kept = filled(tmp_path, items)
    assert [name for name in descriptors().values() if name.startswith(str(tmp_path))] != []
    with patch.object(sealed_file, "_DROP", "DELETE FROM nothing WHERE ? = ?"):
        kept.drop(items[0][0])
    assert list(kept.in_order()) == items[1:]
    assert len(kept) == 1
    assert [name for name in descriptors().values() if name.startswith(str(tmp_path))] == []


def test_a_copy_shares_nothing(tmp_path: Path) -> None:
    items = [(("codex", f"s{number:05}"), b"kept") for number in range(600)]
    kept = filled(tmp_path, items)
    copy = kept.copy()
    kept.drop(items[0][0])
    copy.put([(items[1][0], b"other")])
    assert len(kept) == 599
    assert len(copy) == 600
    assert kept.get(items[1][0]) == b"kept"


def test_a_folder_that_takes_no_file_is_no_reason_to_have_no_state(tmp_path: Path) -> None:
    kept = new_sealed_items(tmp_path / "none")
    kept.put([(("codex", "s1"), b"kept")])
    assert kept.get(("codex", "s1")) == b"kept"


def test_a_file_that_cannot_be_read_is_an_error_with_a_code(tmp_path: Path) -> None:
    kept = filled(tmp_path, [(("codex", "s1"), b"kept")])
    with (
        patch.object(sealed_file, "_GET", "SELECT value FROM nothing WHERE ? = ?"),
        pytest.raises(InternalError) as caught,
    ):
        kept.get(("codex", "s1"))
    assert caught.value.code == "ledger_failed"
    assert isinstance(caught.value.__cause__, apsw.Error)
