"""Gate G4 (docs/ledger.md G4) and the rules C1 to C5: compactions can be made again, and are never the truth."""

import ast
import inspect
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given, settings

from lifebus_broker.canonical_json import canonical
from lifebus_broker.ledger.log import LogLine, LogSource, encode_line
from lifebus_broker.ports import NewReceipt
from lifebus_broker.snapshots import state_follower as follower_module
from lifebus_broker.snapshots.boot import KeptFiles, cold_boot
from lifebus_broker.snapshots.capture import capture_snapshot
from lifebus_broker.snapshots.compactions import state_cache
from lifebus_broker.snapshots.compactions.compaction import Compaction, Purpose, encode_compaction
from lifebus_broker.snapshots.compactions.files import DIRECTORY, CompactionFiles
from lifebus_broker.snapshots.compactions.handles import handle_of, position_of, stream_of
from lifebus_broker.snapshots.compactions.naming import POLICIES, compaction_ids
from lifebus_broker.snapshots.compactions.policy import build_all
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.compactions.registry import CompactionRegistry
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.pins import pins_of
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import dump_stores
from lifebus_contract.codec import decode_receipt, load_json
from support.effort import effort
from support.histories import histories, history, lines_of, replayed
from support.layering import modules
from support.logs import MemoryLog
from support.paths import REPOSITORY

STEP = 16


@pytest.fixture(autouse=True, scope="module")
def small_steps() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(state_cache, "CACHE_EVERY", STEP)
        patch.setattr(follower_module, "CACHE_EVERY", STEP)
        patch.setattr(os, "fsync", lambda _: None)  # thousands of files, none of which has to survive a power cut
        yield


@contextmanager
def registry_of(log: LogSource) -> Iterator[tuple[CompactionRegistry, Path]]:
    with tempfile.TemporaryDirectory() as directory:
        yield CompactionRegistry(Path(directory), log), Path(directory) / DIRECTORY


def compactions_in(registry: CompactionRegistry) -> dict[str, Compaction]:
    found = list(registry.found())
    assert all(isinstance(one, Compaction) for one in found)
    return {one.compaction_id: one for one in found if isinstance(one, Compaction)}


def bytes_in(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.rglob("*.json")}


@settings(deadline=None, max_examples=effort(60, 2_000))
@given(histories(64, least=1))
def test_g4_what_is_generated_deleted_and_generated_again_has_the_same_output_hash(entries: list[NewReceipt]) -> None:
    log = MemoryLog(lines_of(entries))
    written = [encode_line(line) for line in log.all_lines]
    with registry_of(log) as (registry, directory):
        made = registry.rebuild(None)
        first, files = compactions_in(registry), bytes_in(directory)
        assert {one.compaction_policy_id for one in first.values()} <= set(POLICIES)
        assert len(first) == made.built == registry.delete()
        assert bytes_in(directory) == {}
        registry.rebuild(None)
        again = compactions_in(registry)
        assert {name: one.output_hash for name, one in again.items()} == {
            name: one.output_hash for name, one in first.items()
        }
        assert bytes_in(directory) == files
        assert set(registry.verify().right) == set(first)
    assert [encode_line(line) for line in log.all_lines] == written


@settings(deadline=None, max_examples=effort(60, 600))
@given(histories(64, least=1))
def test_rule_c3_the_same_handles_and_policy_give_the_same_bytes_whatever_the_stores_came_through(
    entries: list[NewReceipt],
) -> None:
    lines = lines_of(entries)
    whole, again = replayed(lines), replayed(lines[: len(lines) // 2])
    replayed(lines[len(lines) // 2 :], again)
    for policy in (SessionRecap(), StateCache()):
        assert list(build_all(policy, whole)) == list(build_all(policy, again))


def test_g4_compactions_write_no_facts() -> None:
    log = MemoryLog(lines_of(history(1, 3 * STEP + 1)))
    with registry_of(log) as (registry, _):
        before = dump_stores(replayed(log.all_lines))
        registry.rebuild(None)
        registry.verify()
        registry.delete()
    assert dump_stores(replayed(log.all_lines)) == before


def reachable(start: str) -> set[str]:
    """Return the modules of ours that a module imports, directly or through others."""
    sources = dict(modules(REPOSITORY))
    found: set[str] = set()
    pending = [start]
    while pending:
        module = pending.pop()
        if module in found or module not in sources:
            continue
        found.add(module)
        for node in ast.walk(ast.parse(sources[module].read_text())):
            if isinstance(node, ast.Import):
                pending += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.module:
                pending += [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return found


def test_rule_c1_nothing_in_the_package_can_reach_a_writer_of_facts() -> None:
    package = [name for name in dict(modules(REPOSITORY)) if name.startswith("lifebus_broker.snapshots.compactions")]
    assert len(package) >= 8
    used = {name for module in package for name in reachable(module)}
    writers = {name for name in used if name.startswith(("lifebus_broker.ledger", "lifebus_supervisor"))}
    # The protocol by which a log is read, and the values of a decision to prune; both modules are pure.
    assert writers <= {"lifebus_broker.ledger.log", "lifebus_broker.ledger.retention"}
    assert used.isdisjoint(
        {"lifebus_broker.routing.bus", "lifebus_broker.routing.router", "lifebus_broker.routing.dispatch"}
    )
    reading = {name for name, _ in inspect.getmembers(LogSource) if not name.startswith("_")}
    assert reading == {"base", "chain", "floor", "head", "lines", "records"}


def test_rule_c2_deleting_all_compactions_and_rebuilding_gives_identical_bytes() -> None:
    log = MemoryLog(lines_of(history(2, 5 * STEP + 3)))
    with registry_of(log) as (registry, directory):
        registry.rebuild(None)
        files = bytes_in(directory)
        assert len(files) > 6
        assert registry.delete() == len(files)
        registry.rebuild(None)
        assert bytes_in(directory) == files


def test_deleting_all_compactions_changes_no_save_and_no_boot(tmp_path: Path) -> None:
    log, pins = (
        MemoryLog(lines_of(history(9, 5 * STEP + 3))),
        pins_of([], reducer_version=1, compaction_policies=POLICIES),
    )
    registry = CompactionRegistry(tmp_path, log)

    def saved() -> list[bytes]:
        follower = StateFollower(log, CompactionFiles(tmp_path, StateCache.policy_id), writing=False)
        follower.advance()
        snapshots = [capture_snapshot(kind, follower, log, pins) for kind in SaveType]
        for one in snapshots:
            booted = cold_boot(
                one, log, pins, (), stores_at=follower.stores_at, kept=KeptFiles(compaction=registry.get)
            )
            assert dump_stores(booted.stores) == dump_stores(follower.state)
        return [one.canonical_bytes for one in snapshots]

    without = saved()
    registry.rebuild(None)
    assert len(list(tmp_path.rglob("*.json"))) > 6
    assert saved() == without
    registry.delete()
    assert saved() == without


def test_rule_c4_what_the_policies_make_contributes_nothing_to_what_clients_get() -> None:
    log = MemoryLog(lines_of(history(3, 2 * STEP)))
    with registry_of(log) as (registry, _):
        registry.rebuild(None)
        assert len(compactions_in(registry)) > 2
        assert registry.view() == ()


@settings(deadline=None, max_examples=effort(40, 400))
@given(histories(64, least=1))
def test_rule_c5_every_handle_traces_to_the_facts_ledger_and_every_policy_is_pinned(entries: list[NewReceipt]) -> None:
    lines = lines_of(entries)
    stores = replayed(lines)
    streams = {handle_of(key, stream) for key, stream in stores.facts.streams.items()}
    at_boundary = {handle_of(key, one) for key, one in replayed(lines[:STEP]).facts.streams.items()}
    made = [*build_all(SessionRecap(), stores), *build_all(StateCache(), replayed(lines[:STEP]))]
    for one in made:
        assert one.compaction_policy_id in POLICIES
        pointers = [handle for handle in one.input_handles if stream_of(handle)]
        assert len(pointers) == 1
        assert pointers[0] in streams | at_boundary
        for handle in set(one.input_handles) - set(pointers):
            kind, _, place = handle.partition("@")
            assert kind in {"log", "receipt"}
            receipt = decode_receipt(lines[int(place) - 1].receipt)
            assert position_of(handle) is None or int(place) == STEP
            assert (receipt.adapter_id, receipt.harness_session_id) == stream_of(pointers[0])


@settings(deadline=None, max_examples=effort(40, 400))
@given(histories(64, least=1))
def test_a_recap_counts_what_the_receipts_say(entries: list[NewReceipt]) -> None:
    lines = lines_of(entries)
    for one in build_all(SessionRecap(), replayed(lines)):
        recap = load_json(one.output_bytes)
        assert canonical(recap) == one.output_bytes
        key = (recap["adapter_id"], recap["harness_session_id"])
        receipts = [decode_receipt(line.receipt) for line in lines]
        mine = [receipt for receipt in receipts if (receipt.adapter_id, receipt.harness_session_id) == key]
        assert recap["receipts"] == len(mine) == sum(recap["events"].values()) == sum(recap["statuses"].values())
        assert recap["first_at_epoch_s"] == mine[0].at_epoch_s
        assert recap["last_at_epoch_s"] == mine[-1].at_epoch_s
        for event, count in recap["events"].items():
            assert count == sum(receipt.event == event for receipt in mine)


def stream_in(line: LogLine) -> tuple[str, str | None]:
    receipt = decode_receipt(line.receipt)
    return receipt.adapter_id, receipt.harness_session_id


def test_a_recap_of_a_session_that_goes_on_is_stale_and_others_are_not() -> None:
    lines = lines_of(history(4, 80))
    cut = next(
        number
        for number in range(20, 80)
        if (key := stream_in(lines[number]))[1] is not None
        and key in replayed(lines[:number]).facts.streams
        and (number + 1) % STEP
    )
    with tempfile.TemporaryDirectory() as directory:
        registry = CompactionRegistry(Path(directory), MemoryLog(lines[:cut]))
        registry.rebuild(None)
        assert registry.invalidate() == ()
        before = compactions_in(registry)
        later = CompactionRegistry(Path(directory), MemoryLog(lines[: cut + 1]))
        stale = [one for one in before.values() if any(stream_of(handle) == key for handle in one.input_handles)]
        recaps = {one.compaction_id for one in stale if one.purpose is Purpose.RECAP}
        assert set(later.invalidate()) == recaps != set()
        assert set(later.verify().stale) == recaps
        done = later.rebuild(None)
        assert (done.built, done.deleted) == (1, 1)
        assert later.invalidate() == ()
        assert len(later.verify().right) == len(before)


def test_a_cache_that_the_log_does_not_reach_back_to_is_stale() -> None:
    lines = lines_of(history(5, 3 * STEP + 4))
    with tempfile.TemporaryDirectory() as directory:
        CompactionRegistry(Path(directory), MemoryLog(lines)).rebuild(0)
        floor = 2 * STEP + 1
        pruned = MemoryLog(lines[floor:], floor, dump_stores(replayed(lines[:floor])))
        registry = CompactionRegistry(Path(directory), pruned)
        assert len(registry.invalidate()) == 2
        assert (len(registry.verify().stale), len(registry.verify().right)) == (2, 1)
        assert registry.rebuild(0).deleted == 2


def test_what_is_torn_foreign_or_forged_is_wrong_by_name_and_built_again() -> None:
    log = MemoryLog(lines_of(history(6, 2 * STEP + 4)))
    with registry_of(log) as (registry, directory):
        registry.rebuild(None)
        files = bytes_in(directory)
        recap, cache = (
            min(path for path in directory.rglob("*.json") if path.parent.name == policy) for policy in POLICIES
        )
        whole = next(one for one in compactions_in(registry).values() if one.compaction_id == recap.stem)
        recap.write_bytes(recap.read_bytes()[:-20])
        cache.write_bytes(b"")
        (recap.parent / "stray").write_text("mine")
        other = next(iter(build_all(SessionRecap(), replayed(lines_of(history(7, 5))))))
        (recap.parent / f"{other.compaction_id}.json").write_bytes(encode_compaction(other))
        verified = registry.verify()
        names = {one.name for one in verified.wrong}
        assert names >= {recap.name, cache.name, "stray"}
        assert other.compaction_id in {*verified.stale, *names}
        registry.rebuild(None)
        assert bytes_in(directory) == files
        assert registry.get(whole.compaction_id) == whole
        assert [one.name for one in registry.verify().wrong] == ["stray"]


def test_the_names_in_a_snapshot_are_those_of_what_is_built_later() -> None:
    log = MemoryLog(lines_of(history(8, 2 * STEP + 5)))
    stores = replayed(log.all_lines)
    with registry_of(log) as (registry, _):
        registry.rebuild(None)
        there = compactions_in(registry)
    recaps = {name for name, one in there.items() if one.purpose is Purpose.RECAP}
    scene, session, campaign = (set(compaction_ids(stores, log, recaps=count)) for count in (0, 3, None))
    assert len(scene) == 1
    assert scene <= there.keys() - recaps
    assert (len(session), session - scene <= recaps) == (4, True)
    assert campaign == scene | recaps
    assert compaction_ids(stores, log, recaps=None) == tuple(sorted(campaign))
    assert compaction_ids(replayed(log.all_lines[:STEP]), log) == ()
    newest = max(stores.facts.streams.items(), key=lambda item: item[1].position if item[0][1] else 0)
    (one,) = build_all(SessionRecap(newest=1), stores)
    assert handle_of(*newest) in one.input_handles
