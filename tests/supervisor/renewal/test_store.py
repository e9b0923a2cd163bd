"""The continuation store: private, bounded, one token a thread, never overwritten, used once."""

import os
import stat
from pathlib import Path

import pytest

from lifebus_broker.disk import Disk
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError, StateConflict
from lifebus_supervisor.renewal.choosing import ChosenContinuation, LostContinuation, SeveralContinuations
from lifebus_supervisor.renewal.files import RecordFiles
from lifebus_supervisor.renewal.profile import MAX_TOKEN_BYTES
from lifebus_supervisor.renewal.records import ContinuationState
from lifebus_supervisor.renewal.store import MAX_TRIES, RETENTION_S
from support.supervisor.continuations import NOW, TTL, Clock, intent, pending, start, states, store_in


def test_directory_and_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    old = os.umask(0)
    try:
        store_in(tmp_path).save(pending())
    finally:
        os.umask(old)
    directory = tmp_path / "continuations"
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert set(modes.values()) == {0o600}
    assert len(modes) == 2  # the record and the lock


def test_a_directory_that_others_may_enter_is_refused(tmp_path: Path) -> None:
    (tmp_path / "continuations").mkdir(mode=0o755)
    (tmp_path / "continuations").chmod(0o755)
    with pytest.raises(LifebusError, match="others may enter"):
        store_in(tmp_path).save(pending())


def test_a_token_is_given_to_one_start_once(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    found = store.claim(start("s2"), "claim_1")
    assert isinstance(found, ChosenContinuation)
    assert (found.record.token, found.record.claim_id, found.record.handed_over) == ("secret", "claim_1", 1)
    assert store.claim(start("s3"), "claim_2") is None
    store.finish(found.record, ContinuationState.CONSUMED)
    assert store.claim(start("s2"), "claim_3") is None
    assert states(store) == [("pay_1", "consumed")]


def test_a_claim_whose_end_is_not_known_goes_on_under_the_same_id(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    store.claim(start("s2"), "claim_1")
    for number in range(2, MAX_TRIES + 1):
        again = store_in(tmp_path).claim(start("s2"), f"claim_{number}")
        assert isinstance(again, ChosenContinuation)
        assert (again.record.claim_id, again.record.handed_over) == ("claim_1", number)
    assert isinstance(store.claim(start("s2"), "claim_9"), LostContinuation)
    assert states(store) == [("pay_1", "rejected")]


def test_no_token_is_left_in_a_file_once_it_is_used_dropped_or_over(tmp_path: Path) -> None:
    clock = Clock()
    store = store_in(tmp_path, clock=clock)
    for number, token in enumerate(["first", "second", "third"]):
        store.save(pending(f"pay_{number}", f"t{number}", token, session=f"s{number}", cwd=f"/{number}"))
    found = store.claim(start("new", "/0"), "claim_1")
    assert isinstance(found, ChosenContinuation)
    store.finish(found.record, ContinuationState.CONSUMED)
    store.drop("p", "t1")
    clock.now = NOW + TTL
    store.sweep()
    text = b"".join(path.read_bytes() for path in (tmp_path / "continuations").iterdir())
    assert not any(token in text for token in (b"first", b"second", b"third"))
    clock.now = NOW + TTL + RETENTION_S
    assert states(store) == []


def test_a_token_is_never_overwritten(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    for record in (pending("pay_2", token="other"), pending("pay_3", token="other", session="s9")):
        with pytest.raises(StateConflict):
            store.save(record)
    with pytest.raises(StateConflict):
        store.begin(intent("pay_4"))
    (continuation,) = store.records()[0]
    assert (continuation.payload_id, continuation.token) == ("pay_1", "secret")


def test_what_is_over_makes_place_for_a_new_token_of_the_thread(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    found = store.claim(start(), "claim_1")
    assert isinstance(found, ChosenContinuation)
    store.finish(found.record, ContinuationState.CONSUMED)
    store.save(pending("pay_2"))
    assert states(store) == [("pay_2", "pending")]


def test_a_file_that_holds_no_record_is_told_of_and_left_alone(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    (path,) = (tmp_path / "continuations").glob("*.json")
    path.write_bytes(b"{")
    assert store.records() == ([], [path.name])
    with pytest.raises(StateConflict):
        store.save(pending("pay_2"))
    assert path.read_bytes() == b"{"


def test_a_link_in_the_place_of_a_record_is_not_followed(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    (path,) = (tmp_path / "continuations").glob("*.json")
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert store.records() == ([], [path.name])


@pytest.mark.parametrize("token", ["", "x" * (MAX_TOKEN_BYTES + 1), "\u20ac" * 30_000])
def test_a_token_without_text_or_too_large_is_refused(tmp_path: Path, token: str) -> None:
    with pytest.raises(InvalidRequest):
        store_in(tmp_path).save(pending(token=token))


def test_a_token_whose_every_character_json_writes_as_six_is_kept(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending(token="\x01" * MAX_TOKEN_BYTES))
    assert states(store) == [("pay_1", "pending")]


def test_a_full_store_forgets_what_is_over_and_refuses_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.renewal.store.MAX_RECORDS", 2)
    store = store_in(tmp_path)
    store.save(pending("pay_1", "t1", session="a"))
    store.save(pending("pay_2", "t2", session="b"))
    with pytest.raises(BrokerBusy):
        store.save(pending("pay_3", "t3", session="c"))
    taken = store.claim_for_operator("p", "t1", "claim_1")
    assert taken is not None
    store.finish(taken, ContinuationState.CONSUMED)
    store.save(pending("pay_3", "t3", session="c"))
    assert states(store) == [("pay_2", "pending"), ("pay_3", "pending")]


def test_a_store_that_another_process_holds_is_busy_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lifebus_supervisor.renewal.files._LOCK_TIMEOUT_S", 0.02)
    other = RecordFiles(tmp_path / "continuations", Disk())
    with other.locked(), pytest.raises(BrokerBusy):
        store_in(tmp_path).records()


def test_the_session_goes_before_the_directory_and_strangers_are_not_chosen_between(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending("pay_1", "t1", session="s1"))
    store.save(pending("pay_2", "t2", session="s2"))
    assert store.claim(start("s3"), "claim_1") == SeveralContinuations(2)
    assert [state for _, state in states(store)] == ["pending", "pending"]
    mine = store.claim(start("s2", "/somewhere/else"), "claim_2")
    assert isinstance(mine, ChosenContinuation)
    assert mine.record.payload_id == "pay_2"
    other = store.claim(start("s3"), "claim_3")
    assert isinstance(other, ChosenContinuation)
    assert other.record.payload_id == "pay_1"


@pytest.mark.parametrize("changes", [{"profile": "q"}, {"adapter_id": "claude"}, {"cwd": "/other"}])
def test_what_belongs_to_another_profile_adapter_or_directory_is_not_chosen(
    tmp_path: Path, changes: dict[str, str]
) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    assert store.claim(start(**changes), "claim_1") is None


def test_a_token_that_expired_is_told_of_once_to_whom_it_was_meant_for(tmp_path: Path) -> None:
    clock = Clock()
    store = store_in(tmp_path, clock=clock)
    store.save(pending())
    clock.now = NOW + TTL
    assert isinstance(store.claim(start(), "claim_1"), LostContinuation)
    assert store.claim(start(), "claim_2") is None


def test_an_operator_takes_a_token_that_no_session_has(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    taken = store.claim_for_operator("p", "t1", "claim_1")
    assert taken is not None
    again = store.claim_for_operator("p", "t1", "claim_2")  # as after a crash before it was shown
    assert again is not None
    assert again.claim_id == "claim_1"
    assert store.claim(start(), "claim_3") is None
    store.finish(taken, ContinuationState.CONSUMED)
    assert store.claim_for_operator("p", "t1", "claim_4") is None


def test_what_a_session_has_claimed_no_operator_takes(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    store.save(pending())
    store.claim(start(), "claim_1")
    with pytest.raises(StateConflict):
        store.claim_for_operator("p", "t1", "claim_2")


def test_a_session_is_asked_for_one_token_at_a_time(tmp_path: Path) -> None:
    store = store_in(tmp_path)
    assert store.begin(intent("pay_1")).payload_id == "pay_1"
    assert store.begin(intent("pay_2")).payload_id == "pay_1"
    store.save(pending("pay_1"))
    assert states(store) == [("pay_1", "pending")]
    store.save(pending("pay_1"))
    assert states(store) == [("pay_1", "pending")]


def test_a_record_never_shows_its_token() -> None:
    assert "secret" not in f"{pending()!r} {pending()!s} {[pending()]}"
