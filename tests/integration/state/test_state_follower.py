"""A broker starts from the newest cache and what came since, never waits for more, and ends up right in any case."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import anyio
import apsw
import pytest
from anyio.lowlevel import checkpoint

from lifebus import make_request
from lifebus_broker.ledger.sqlite import file as sqlite_file
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.snapshots import state_follower as follower_module
from lifebus_broker.snapshots.compactions import state_cache
from lifebus_broker.snapshots.compactions.compaction import Compaction, compact
from lifebus_broker.snapshots.compactions.files import DIRECTORY, CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.compactions.state_cache_store import KEPT_CACHES
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import Stores, dump_stores
from lifebus_broker.transitions import transition
from lifebus_contract import InternalError, LifebusError, LifecycleEvent, SupportState
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_supervisor.daemon import lifecycle
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.jobs import state_follower as keeping_module
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey, SessionMonitor
from support.bus_box import emission
from support.histories import history, replayed
from support.integration.following import until
from support.patience import PATIENCE_S
from support.receipts import append, entry
from support.running import connected, running_bus, settings_in, short_directory

STEP = 64
KEPT = RetentionSettings(keep_days=0)
LOST = "event:frame.opening"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_cache, "CACHE_EVERY", STEP)
    monkeypatch.setattr(follower_module, "CACHE_EVERY", STEP)
    monkeypatch.setattr(follower_module, "BATCH", 16)


@pytest.fixture
def home() -> Iterator[Path]:
    with short_directory() as path:
        settings_in(path).state_dir.mkdir(mode=0o700)
        yield path


async def write_ledger(home: Path, count: int, *more: Any, prune: int = 0) -> Stores:
    """Make a ledger of a history, pruned if asked, and return the stores after all of it."""
    settings = settings_in(home)
    ledger = await SqliteLedger.open(settings.ledger_path)
    for start in range(0, count, 100):
        await append(ledger, history(5, count)[start : start + 100])
    if more:
        await append(ledger, more)
    with SqliteLog(settings.ledger_path) as log:
        lines = list(log.lines(0, log.head))
    if prune:
        await ledger.prune(prune, dump_stores(replayed(lines[:prune])))
    await ledger.aclose()
    return replayed(lines)


async def live_stores(daemon: Daemon) -> Stores:
    """Return the live stores once the keeper is at the head."""
    assert daemon.follower is not None
    with anyio.fail_after(PATIENCE_S):
        return await daemon.follower.use(lambda follower, _: follower.advance().copy())


async def caught_up(daemon: Daemon) -> None:
    assert daemon.follower is not None
    with anyio.fail_after(PATIENCE_S):
        await daemon.follower.caught_up.wait()


async def loaded_monitor(daemon: Daemon, key: SessionKey) -> SessionMonitor:
    """Return the monitor of a session once all is read that it begins with: at a start they come one by one."""
    await until(lambda: (monitor := daemon.supervisor.monitors.get(key)) is not None and monitor.loaded)
    return daemon.supervisor.monitors.open(key)


def caches_in(home: Path) -> CompactionFiles:
    return CompactionFiles(settings_in(home).state_dir, StateCache.policy_id)


async def test_the_live_state_equals_a_replay_after_each_start_and_each_receipt(home: Path) -> None:
    whole = await write_ledger(home, 300)
    for turn in range(3):
        async with running_bus(directory=home, retention=KEPT) as daemon:
            live = await live_stores(daemon)
            if not turn:
                assert dump_stores(live) == dump_stores(whole)
            for number in range(3):
                await daemon.bus.emit("alice", [emission(harness_session_id=f"new{number}")])
                with SqliteLog(daemon.settings.ledger_path) as log:
                    replay = replayed(log.lines(0, log.head))
                assert dump_stores(await live_stores(daemon)) == dump_stores(replay)


async def test_a_start_goes_on_from_the_newest_cache(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    await write_ledger(home, 5 * STEP + 10)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await live_stores(daemon)
    assert len(caches_in(home).ids()) == KEPT_CACHES
    begun: list[int] = []
    nearest = StateFollower._nearest

    def note(follower: StateFollower, through: int) -> tuple[Stores, str | None]:
        found = nearest(follower, through)
        begun.append(found[0].position)
        return found

    monkeypatch.setattr(StateFollower, "_nearest", note)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await caught_up(daemon)
    assert begun == [5 * STEP]


async def test_an_orderly_stop_leaves_the_newest_cache_behind(home: Path) -> None:
    async with running_bus(directory=home, retention=KEPT) as daemon:
        for number in range(STEP + 3):
            daemon.bus.submit("alice", [emission(harness_session_id=f"s{number % 5}")], lambda _: None)
    with SqliteLog(settings_in(home).ledger_path) as log:
        assert state_cache.cache_id_at(log, STEP) in caches_in(home).ids()


async def test_sessions_are_supervised_as_before_also_where_their_first_receipts_were_pruned(home: Path) -> None:
    whole = await write_ledger(home, 300, prune=200)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await caught_up(daemon)
        supervised = [state for state in whole.sessions.active() if not state.is_closed]
        assert supervised
        for state in supervised:
            monitor = await loaded_monitor(daemon, (state.adapter_id, state.harness_session_id))
            assert monitor.state == state
            assert state.first_position < 200 or whole.position > 200


def losing(number: int, session: str | None, now: SupportState) -> Any:
    change = transition(LOST, SupportState.NATIVE, now, at_epoch_s=1_790_000_000, evidence="seen")
    return entry(
        number,
        harness_session_id=session,
        client_id="lifebus.supervisor",
        event=LifecycleEvent.CAPABILITY_DEGRADED,
        capability_degradations=(change,),
    )


async def test_lost_capabilities_are_known_again_after_a_start(home: Path) -> None:
    await write_ledger(home, 2 * STEP, losing(1, "lost", SupportState.UNAVAILABLE))
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await caught_up(daemon)
        assert daemon.bus.capabilities.overrides("codex", "lost") == {LOST: SupportState.UNAVAILABLE}


class Gate:
    """Holds the keeper back, as a very long replay would."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.open = threading.Event()
        step = StateFollower.step

        def wait(follower: StateFollower, through: int | None = None) -> bool:
            assert self.open.wait(PATIENCE_S)
            return step(follower, through)

        monkeypatch.setattr(StateFollower, "step", wait)


async def test_doors_do_not_wait_for_a_long_replay_and_what_they_answer_meanwhile_is_right_in_the_end(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = losing(1, "kept", SupportState.UNAVAILABLE)
    back = losing(2, "back", SupportState.UNAVAILABLE)
    ended = losing(3, "ended", SupportState.UNAVAILABLE)
    known = entry(4, key="known", harness_session_id="s7", client_id="alice")
    await write_ledger(home, 2 * STEP, kept, back, ended, known)
    gate = Gate(monkeypatch)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        assert daemon.follower is not None
        assert not daemon.follower.caught_up.is_set()
        (first,) = await daemon.bus.emit("alice", [emission(harness_session_id="s7", idempotency_key="new")])
        (again,) = await daemon.bus.emit("alice", [emission(harness_session_id="s7", idempotency_key="new")])
        assert [one.sequence for one in first.stored] == [2]
        assert (again.replayed or again.refusal is not None, daemon.bus.ledger.head) == (True, 2 * STEP + 5)
        (conflict,) = await daemon.bus.emit("alice", [emission(harness_session_id="s7", idempotency_key="known")])
        assert conflict.refusal is not None
        better = transition(LOST, SupportState.UNAVAILABLE, SupportState.NATIVE, at_epoch_s=1, evidence="seen")
        worse = transition(LOST, SupportState.NATIVE, SupportState.MANUAL, at_epoch_s=1, evidence="seen")
        for session, change in (("back", better), ("fresh", worse)):
            report = emission(harness_session_id=session, event=LifecycleEvent.CAPABILITY_DEGRADED)
            degraded = type(report)(request=report.request, degradations=(change,))
            (outcome,) = await daemon.bus.emit("lifebus.supervisor", [degraded])
            assert outcome.refusal is None
        await daemon.bus.emit("alice", [emission(harness_session_id="ended", event=LifecycleEvent.SESSION_ENDED)])
        gate.open.set()
        await caught_up(daemon)
        overrides = daemon.bus.capabilities.overrides
        assert overrides("codex", "kept") == {LOST: SupportState.UNAVAILABLE}
        assert overrides("codex", "fresh") == {LOST: SupportState.MANUAL}
        assert overrides("codex", "back") == overrides("codex", "ended") == {}
        live = await live_stores(daemon)
        for session in ("kept", "back", "ended", "fresh"):
            assert daemon.bus.capabilities.state.reported(("codex", session)) == live.capabilities.reported(
                ("codex", session)
            )


def note_first(monkeypatch: pytest.MonkeyPatch, order: list[str], owner: Any, name: str) -> None:
    """Note in `order` each call of something, then call it."""
    call = getattr(owner, name)

    def noted(*given: Any) -> Any:
        order.append(name)
        return call(*given)

    monkeypatch.setattr(owner, name, noted)


async def test_a_long_way_begins_once_the_doors_are_open(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await write_ledger(home, 200)
    monkeypatch.setattr(keeping_module, "_NEAR", 100)
    order: list[str] = []
    note_first(monkeypatch, order, StateFollower, "step")
    note_first(monkeypatch, order, lifecycle, "compose_daemon")
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await caught_up(daemon)
        assert order[:2] == ["compose_daemon", "step"]
        assert dump_stores(await live_stores(daemon)) == dump_stores(whole)


async def test_a_forged_cache_is_compared_with_the_ledgers_own_heads_thrown_away_and_counted(home: Path) -> None:
    whole = await write_ledger(home, 2 * STEP + 20)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await live_stores(daemon)
    files = caches_in(home)
    with SqliteLog(settings_in(home).ledger_path) as log:
        name = state_cache.cache_id_at(log, 2 * STEP)
        touched = {key for key, one in log.newest().items() if one.position > 2 * STEP}
        wrong = replayed(log.lines(0, 2 * STEP))
    sound = files.read(str(name))
    assert isinstance(sound, Compaction)
    untouched = next(key for key, one in wrong.facts.streams.items() if key not in touched and one.position < 2 * STEP)
    del wrong.facts.streams[untouched]
    files.write(compact(sound.purpose, sound.compaction_policy_id, sound.input_handles, dump_stores(wrong)))
    async with running_bus(directory=home, retention=KEPT) as daemon:
        assert dump_stores(await live_stores(daemon)) == dump_stores(whole)
        await caught_up(daemon)
        assert daemon.follower is not None
        assert daemon.follower.counters() == {"caches_refused": 1, "keeper_behind": 0, "keeper_broken": 0}


async def test_deleting_every_cache_changes_nothing_but_time(home: Path) -> None:
    whole = await write_ledger(home, 3 * STEP + 7)
    for _ in range(2):
        async with running_bus(directory=home, retention=KEPT) as daemon:
            assert dump_stores(await live_stores(daemon)) == dump_stores(whole)
        for path in (settings_in(home).state_dir / DIRECTORY).rglob("*.json"):
            path.unlink()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE rows SET receipt = CAST(replace(receipt, 'evt_', 'evz_') AS BLOB)",
        "UPDATE rows SET receipt = x'7b'",
        "DELETE FROM rows",
    ],
)
async def test_a_log_that_is_damaged_long_ago_is_counted_and_the_doors_stay_open(
    home: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setattr(sqlite_file, "BOOT_TAIL", 10)
    await write_ledger(home, STEP)
    with closing(apsw.Connection(str(settings_in(home).ledger_path))) as connection:
        connection.execute(f"{statement} WHERE position = 5")
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await caught_up(daemon)
        assert daemon.follower is not None
        assert daemon.follower.counters()["keeper_broken"] == 1
        (outcome,) = await daemon.bus.emit("alice", [emission(harness_session_id="new")])
        assert [one.sequence for one in outcome.stored] == [1]
        with pytest.raises(LifebusError, match="row 5"):
            await daemon.follower.dump_at(10)


async def test_a_ledger_in_memory_has_no_keeper() -> None:
    async with running_bus(backend="memory") as daemon:
        assert daemon.follower is None
        (outcome,) = await daemon.bus.emit("alice", [emission()])
        assert outcome.stored


async def test_while_receipts_come_in_numbers_the_state_waits_within_a_bound_and_catches_up_in_the_pause(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_module, "_TRAFFIC", -1)
    monkeypatch.setattr(keeping_module, "_MOST_BEHIND", 40)
    monkeypatch.setattr(keeping_module, "_REST_S", 0.001)
    behind: list[int] = []
    follow = StateFollowerTask._follow

    async def note(task: StateFollowerTask) -> bool:
        if task.caught_up.is_set():
            behind.append(task.counters()["keeper_behind"])
        return await follow(task)

    monkeypatch.setattr(StateFollowerTask, "_follow", note)
    async with running_bus(directory=home, retention=KEPT) as daemon:
        assert daemon.follower is not None
        for number in range(60):
            await daemon.bus.emit("alice", [emission(harness_session_id=f"s{number % 3}") for _ in range(5)])
        await until(lambda: len(behind) > 3)
        await until(lambda: daemon.follower is not None and 0 < daemon.follower.counters()["keeper_behind"] <= 40)
        assert min(behind[2:]) > 40, "it went on although few waited"
        monkeypatch.setattr(keeping_module, "_TRAFFIC", 1_000_000)
        await until(lambda: daemon.follower is not None and not daemon.follower.counters()["keeper_behind"])


async def test_while_too_many_receipts_wait_to_be_followed_further_ones_wait_and_reads_do_not(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeping_module, "_FAR_BEHIND", 10)
    async with running_bus(directory=home, retention=KEPT) as daemon, connected(daemon) as bus:
        await caught_up(daemon)
        gate = Gate(monkeypatch)
        await bus.emit([make_request("session.started", "codex", session=f"s{number}") for number in range(11)])
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(bus.emit, make_request("session.started", "codex", session="late"))
            # Asked on the same connection: the second and the third stand behind the emission, which waits.
            for _ in range(3):
                assert (await bus.status()).ledger.head == 11
            gate.open.set()
        assert (await bus.status()).ledger.head == 12


async def test_a_follower_that_cannot_read_the_log_holds_up_nobody(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keeping_module, "_FAR_BEHIND", 10)

    def fail(_follower: StateFollower, _through: int | None = None) -> bool:
        raise InternalError("the disk is away", code="ledger_failed")

    async with running_bus(directory=home, retention=KEPT) as daemon, connected(daemon) as bus:
        await caught_up(daemon)
        monkeypatch.setattr(StateFollower, "step", fail)
        for _ in range(2):
            await bus.emit([make_request("session.started", "codex", session=f"s{number}") for number in range(11)])
        assert (await bus.status()).ledger.head == 22


@pytest.mark.parametrize("most_behind", [keeping_module._MOST_BEHIND, -1])
async def test_the_rest_after_a_piece_is_by_what_it_used_of_the_processor_and_not_by_how_long_it_took(
    home: Path, monkeypatch: pytest.MonkeyPatch, most_behind: int
) -> None:
    """Beside other programs a piece takes long, and the state would be there the later the more they do.

    Behind traffic it rests, however far behind it is.
    """
    monkeypatch.setattr(keeping_module, "_MOST_BEHIND", most_behind)
    rests: list[float] = []
    used = itertools.count()

    async def note(seconds: float) -> None:
        rests.append(seconds)
        await checkpoint()

    monkeypatch.setattr(keeping_module, "time", SimpleNamespace(thread_time=lambda: float(next(used))))
    monkeypatch.setattr(keeping_module, "anyio", SimpleNamespace(**vars(anyio) | {"sleep": note}))
    async with running_bus(directory=home, retention=KEPT) as daemon:
        await daemon.bus.emit("alice", [emission()])
        await until(lambda: rests)
    assert set(rests) == {keeping_module._REST_FACTOR}, "each piece used a second"
