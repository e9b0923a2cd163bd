"""Cold boot: twelve steps, pins first, byte-identical stores or a failure that names the first bad position."""

import json
from collections.abc import Callable
from hashlib import sha256
from itertools import zip_longest
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from lifebus_broker.ports import NewReceipt
from lifebus_broker.snapshots.boot import KeptFiles
from lifebus_broker.snapshots.cold_boot_error import STEPS, ColdBootError
from lifebus_broker.snapshots.frozen import thaw
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType, encode_snapshot, take_snapshot
from lifebus_broker.snapshots.supplement import StreamHead, Supplement
from lifebus_broker.state.stores import dump_stores, pending_of
from lifebus_contract import FailureClass, RetryClass
from support.effort import effort
from support.histories import SESSIONS, history, lines_of, replayed
from support.snapshots.logs import PINS, HeldLog, booted, log_of, revised, saved, supplemented, with_pins

NO_REVISION = StreamHead("0" * 64, 0)
DIGESTS = ("facts_ledger_digest", "unlock_state_digest", "story_state_digest", "working_set_digest")
MANY = settings(max_examples=effort(60, 2_000), deadline=None)
FEW = settings(max_examples=effort(40, 2_000), deadline=None)


@MANY
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 60), save_type=st.sampled_from(SaveType))
def test_sl_g1_and_sl_g3_load_of_save_is_identity_and_what_is_pending_comes_back(
    seed: int, count: int, save_type: SaveType
) -> None:
    log = log_of(seed, count)
    live = replayed(log.kept)

    snapshot = saved(log, save_type)
    rebuilt = booted(snapshot, log)

    assert dump_stores(rebuilt.stores) == dump_stores(live)
    assert encode_snapshot(saved(log, save_type)) == encode_snapshot(snapshot)
    assert rebuilt.working_set.pending_state == thaw(snapshot.pending_state) == pending_of(live)
    assert [step.number for step in rebuilt.steps] == list(range(1, 13))
    assert tuple(step.name for step in rebuilt.steps) == STEPS


@FEW
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(2, 60), data=st.data())
def test_a_log_of_which_a_prefix_was_pruned_boots_from_its_base(seed: int, count: int, data: st.DataObject) -> None:
    whole = log_of(seed, count)
    pruned = whole.prune(data.draw(st.integers(1, count)))

    rebuilt = booted(saved(pruned), pruned)

    assert dump_stores(rebuilt.stores) == dump_stores(replayed(whole.kept))
    assert rebuilt.snapshot.event_log_range == (pruned.floor + 1, count)


def test_a_log_that_went_on_boots_to_where_it_was_saved() -> None:
    log = log_of(7, 60)
    snapshot = saved(HeldLog(log.kept[:40]))

    assert booted(snapshot, log).stores.position == 40


def test_the_pins_are_compared_before_the_log_is_touched() -> None:
    log = log_of(1, 20)
    snapshot = saved(log)
    log.kept.clear()
    log.reads = 0

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, log, pins=with_pins(reducer_version=99))

    assert failed.value.step == 2
    assert log.reads == 0


@pytest.mark.parametrize("pin", sorted(PINS))
def test_g6_a_modified_pin_is_a_hard_failure(pin: str) -> None:
    log = log_of(1, 20)

    with pytest.raises(ColdBootError, match="--revise") as failed:
        booted(saved(log), log, pins=with_pins(**{pin: "another"}))

    assert failed.value.step == 2
    assert failed.value.position is None
    assert f"`{pin}`" in str(failed.value)


def test_g6_an_explicit_revision_makes_a_modified_pin_pass() -> None:
    log, today = log_of(1, 20), with_pins(contract_version="lifeloop.v0.3")
    snapshot = saved(log)
    log.written = list(revised((PINS, today)))

    rebuilt = booted(snapshot, log, pins=today)

    assert [revision.reason for revision in rebuilt.pins.revisions] == ["upgraded"]
    assert "contract_version" in rebuilt.steps[1].checked
    assert thaw(rebuilt.working_set.pins_snapshot)["contract_version"] == "lifeloop.v0.2"


def test_g6_a_revision_that_leads_elsewhere_does_not_pass() -> None:
    log = log_of(1, 20)
    snapshot = saved(log)
    log.written = list(revised((PINS, with_pins(reducer_version=98))))

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, log, pins=with_pins(reducer_version=99))

    assert failed.value.step == 2


@pytest.mark.parametrize("pins", [None, {}])
def test_g6_without_pins_nothing_boots(pins: dict[str, str] | None) -> None:
    log = log_of(1, 20)

    with pytest.raises(ColdBootError, match="no pins"):
        booted(saved(log), log, pins=pins)


def flipped(log: HeldLog, index: int) -> None:
    line = log.kept[index]
    receipt = line.receipt.replace(b'"receipt_id":"lfr_', b'"receipt_id":"lfx_')
    log.kept[index] = structs.replace(line, receipt=receipt)


def formatted(log: HeldLog, index: int) -> None:
    line = log.kept[index]
    log.kept[index] = structs.replace(line, receipt=msgspec.json.format(line.receipt))


def dropped(log: HeldLog, index: int) -> None:
    del log.kept[index]


def swapped(log: HeldLog, index: int) -> None:
    other = index + 1 if index + 1 < len(log.kept) else index - 1
    log.kept[index], log.kept[other] = log.kept[other], log.kept[index]


def doubled(log: HeldLog, index: int) -> None:
    log.kept.insert(index, log.kept[index])


def relinked(log: HeldLog, index: int) -> None:
    log.kept[index] = structs.replace(log.kept[index], link="0" * 64)


def undigested(log: HeldLog, index: int) -> None:
    line = log.kept[index]
    log.kept[index] = structs.replace(line, digest="ab" * 32 if line.digest is None else None)


TAMPERING = (flipped, formatted, dropped, swapped, doubled, relinked, undigested)


@pytest.mark.parametrize("index", [0, 10, 28, 29])
@pytest.mark.parametrize("tamper", TAMPERING)
def test_tampering_is_a_hard_failure_that_names_the_first_bad_position(
    tamper: Callable[[HeldLog, int], None], index: int
) -> None:
    log = log_of(3, 30)
    snapshot = saved(log)
    original = list(log.kept)

    tamper(log, index)

    with pytest.raises(ColdBootError, match=r"ledger verify|lifebus ledger snapshots list") as failed:
        booted(snapshot, log)
    pairs = zip_longest(original, log.kept)
    assert failed.value.position == next(number for number, (a, b) in enumerate(pairs, 1) if a != b)
    assert failed.value.step in {3, 4}
    assert (failed.value.failure_class, failed.value.retry_class) == (
        FailureClass.STATE_CONFLICT,
        RetryClass.RETRY_AFTER_REREAD,
    )


def written_anew(log: HeldLog, entries: list[NewReceipt]) -> None:
    """Replace the last receipt, links and all."""
    another = entries[-1]._replace(receipt=structs.replace(entries[-1].receipt, at_epoch_s=1))
    log.kept = lines_of([*entries[:-1], another])


def test_a_last_line_that_was_written_anew_and_is_sound_in_itself_is_named() -> None:
    entries = history(3, 30)
    log = HeldLog(lines_of(entries))
    snapshot, supplement = saved(log), supplemented(log)

    written_anew(log, entries)
    with pytest.raises(ColdBootError, match="is not the one that was saved") as failed:
        booted(snapshot, log, kept=KeptFiles(supplement=supplement))

    assert (failed.value.step, failed.value.position, failed.value.within) == (4, 30, None)


@pytest.mark.parametrize(
    ("kept", "why"),
    [
        (None, "nothing beside this snapshot has a digest of each line"),
        (RefusedFile("a.supplement", "torn"), "a.supplement cannot be used: torn"),
        (
            Supplement(bytes_hash="", first=31, digests=b"", revisions=NO_REVISION),
            "only lines from 31 on have a digest",
        ),
    ],
)
def test_where_nothing_says_which_line_was_changed_the_range_is_named(
    kept: Supplement | RefusedFile | None, why: str
) -> None:
    entries = history(3, 30)
    log = HeldLog(lines_of(entries))
    snapshot = saved(log)

    written_anew(log, entries)
    with pytest.raises(ColdBootError, match=why) as failed:
        booted(snapshot, log, kept=KeptFiles(supplement=kept))

    assert (failed.value.step, failed.value.position, failed.value.within) == (4, None, (1, 30))
    assert "every line follows" in failed.value.detail


def test_a_changed_line_is_named_although_the_chain_breaks_only_later() -> None:
    log = log_of(3, 30)
    snapshot, supplement = saved(log), supplemented(log)
    (first, later) = same_stream(log)
    forged = structs.replace(log.kept[first], receipt=log.kept[first].receipt.replace(b"lfr_", b"lfx_", 1))
    before = b"\0" * 32
    log.kept[first] = structs.replace(forged, link=sha256(before + forged.receipt).hexdigest())

    with pytest.raises(ColdBootError) as without:
        booted(snapshot, log)
    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, log, kept=KeptFiles(supplement=supplement))

    assert (without.value.position, failed.value.position) == (later + 1, first + 1)


def same_stream(log: HeldLog) -> tuple[int, int]:
    """Return the indices of the first two lines of the stream of the first line."""
    receipts = [json.loads(line.receipt) for line in log.kept]
    scopes = [(one["adapter_id"], one["harness_session_id"]) for one in receipts]
    return 0, scopes.index(scopes[0], 1)


def test_another_log_altogether_is_refused_at_its_first_line() -> None:
    with pytest.raises(ColdBootError) as failed:
        booted(saved(log_of(3, 30)), log_of(4, 30))

    assert failed.value.step == 4


def test_a_wrong_base_is_refused() -> None:
    whole = log_of(3, 30)
    pruned, snapshot = whole.prune(10), saved(whole.prune(10))

    pruned.dump = log_of(4, 30).prune(10).dump

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, pruned)
    assert failed.value.step in {6, 8}
    assert failed.value.position in range(10, 31)


@pytest.mark.parametrize("dump", [b"", b"{}", None])
def test_a_damaged_base_is_refused_at_the_floor(dump: bytes | None) -> None:
    pruned = log_of(3, 30).prune(10)
    snapshot = saved(pruned)

    pruned.dump = dump

    with pytest.raises(ColdBootError) as failed:
        booted(snapshot, pruned)
    assert failed.value.step in {4, 5}
    assert failed.value.position in {1, 10}


def test_a_snapshot_whose_lines_were_pruned_cannot_be_proved_any_more_and_says_so() -> None:
    log = log_of(3, 30)
    snapshot = saved(log)

    with pytest.raises(ColdBootError, match=r"pruned up to 10, so .* cannot be proved any more") as failed:
        booted(snapshot, log.prune(10))

    assert (failed.value.step, failed.value.position) == (3, 1)


@pytest.mark.parametrize(
    ("field", "step"),
    [
        ("snapshot_id", 1),
        ("bytes_hash", 1),
        ("canonical_bytes", 1),
        ("story_state_digest", 1),
    ],
)
def test_a_snapshot_that_does_not_follow_from_its_bytes_is_refused(field: str, step: int) -> None:
    log = log_of(3, 30)
    value = b"{}" if field == "canonical_bytes" else "0" * len(getattr(saved(log), field))

    with pytest.raises(ColdBootError) as failed:
        booted(structs.replace(saved(log), **{field: value}), log)

    assert failed.value.step == step


@pytest.mark.parametrize(
    ("fields", "step"),
    [
        ({"facts_ledger_digest": "0" * 64}, 8),
        ({"unlock_state_digest": "0" * 64}, 8),
        ({"story_state_digest": "0" * 64}, 8),
        ({"working_set_digest": "0" * 64}, 10),
        ({"pending_state": {"PENDING_ROLL": []}}, 11),
        ({"pending_state": None}, 11),
        ({"compaction_ids": ()}, 12),
        ({"compaction_ids": ("ab" * 8,)}, 12),
    ],
)
def test_a_snapshot_that_was_made_up_is_refused_at_the_step_that_finds_out(fields: dict[str, Any], step: int) -> None:
    log = log_of(3, 30)

    with pytest.raises(ColdBootError) as failed:
        booted(made_up(saved(log), **fields), log)

    assert failed.value.step == step


def made_up(snapshot: SaveSnapshot, **fields: Any) -> SaveSnapshot:
    """Return a snapshot with other fields and an id that follows from them."""
    plain = {**structs.asdict(snapshot), **fields}
    return take_snapshot(
        plain["save_type"],
        event_log_range=plain["event_log_range"],
        event_log_hash=plain["event_log_hash"],
        digests={name: plain[name] for name in plain if name.endswith("_digest")},
        pending_state=plain["pending_state"],
        pins=plain["pins_snapshot"],
        compaction_ids=plain["compaction_ids"],
    )


def test_a_scene_a_session_and_a_campaign_are_supersets_at_the_same_boundary() -> None:
    log = log_of(5, 60)
    scene, session, campaign = (saved(log, save_type) for save_type in SaveType)

    for field in ("timestamp_event_id", "pending_state", "pins_snapshot", *DIGESTS):
        assert getattr(scene, field) == getattr(session, field) == getattr(campaign, field)
    assert scene.event_log_range[0] >= session.event_log_range[0] == campaign.event_log_range[0] == 1
    assert scene.event_log_range[1] == session.event_log_range[1] == campaign.event_log_range[1] == 60
    assert set(scene.compaction_ids) <= set(session.compaction_ids) <= set(campaign.compaction_ids)
    assert len(set(campaign.compaction_ids)) == len(SESSIONS)
