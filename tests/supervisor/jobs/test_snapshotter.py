"""The saver: what asks for which save, bursts that cost one, and saves that fail and hurt nobody."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import anyio
import pytest

from lifebus_broker.ports import StoredReceipt
from lifebus_broker.snapshots.files import SnapshotFiles
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_contract import Degradation, InternalError, LifecycleEvent, RetryClass, SupportState, encode_json
from lifebus_supervisor.jobs import snapshotter as saving
from lifebus_supervisor.jobs.snapshotter import RunningMark, Snapshotter, trigger_of
from support.patience import PATIENCE_S
from support.receipts import receipt
from support.snapshots.logs import PINS, HeldLog, log_of

T = TypeVar("T")
SCENE, SESSION = SaveType.SCENE, SaveType.SESSION
PRESSURE = LifecycleEvent.CONTEXT_PRESSURE_OBSERVED


class Bench:
    """A saver over a log in memory, and what it was asked to run; `grow` lets the log reach further."""

    def __init__(self, directory: Path) -> None:
        self.all = log_of(9, 60).kept
        self.log = HeldLog([])
        self.follower = StateFollower(self.log)
        self.files = SnapshotFiles(directory)
        self.broken = False
        self.saver = Snapshotter(self.use, self.files, lambda: PINS, anyio.current_time)

    async def use(self, work: Callable[[StateFollower, Any], T]) -> T:
        if self.broken:
            raise InternalError("the disk is gone")
        await anyio.lowlevel.checkpoint()
        self.follower.advance()  # it follows by itself
        return work(self.follower, self.log)

    def grow(self, count: int, event: LifecycleEvent) -> None:
        """Let the log grow, and tell the saver that each new row is of an event."""
        start = len(self.log.kept)
        self.log.kept += self.all[start : start + count]
        text = encode_json(receipt(1, event=event))
        stored = range(start + 1, start + 1 + count)
        self.saver.on_commit(
            [
                StoredReceipt(position=p, adapter_id="codex", harness_session_id="s", sequence=p, receipt=text)
                for p in stored
            ]
        )

    def saved(self) -> list[tuple[SaveType, int]]:
        return [(one.save_type, one.timestamp_event_id) for one in self.files.all()[0]]


@pytest.fixture(autouse=True)
def without_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_REST_S", "_REST_FACTOR", "_PIECE_REST_S"):
        monkeypatch.setattr(saving, name, 0.0)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[None]:
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bench.saver.run)
        yield
        tasks.cancel_scope.cancel()


async def until(condition: Callable[[], bool]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.lowlevel.checkpoint()


@pytest.mark.parametrize(
    ("event", "summary", "wanted"),
    [
        (LifecycleEvent.FRAME_ENDED, {}, SCENE),
        (LifecycleEvent.SESSION_ENDED, {}, SESSION),
        (LifecycleEvent.CONTEXT_COMPACTED, {}, SESSION),
        (PRESSURE, {"context_pressure": "critical"}, SESSION),
        (PRESSURE, {"context_pressure": "high"}, None),
        (PRESSURE, {"note": '"context_pressure":"critical"'}, None),
        (LifecycleEvent.FRAME_OPENED, {"event": "frame.ended"}, None),
        (LifecycleEvent.FRAME_OPENED, {"note": '"event":"session.ended"'}, None),
        (LifecycleEvent.SESSION_ENDING, {}, None),
        (LifecycleEvent.SUPERVISOR_TICK, {}, None),
    ],
)
def test_the_bytes_of_a_receipt_ask_for_a_save(event: LifecycleEvent, summary: Any, wanted: SaveType | None) -> None:
    made = receipt(1, event=event, telemetry_summary=summary, client_id='"event":"session.ended"')

    assert trigger_of(encode_json(made)) is wanted


def test_what_a_receipt_says_of_capabilities_before_its_event_does_not_hide_it() -> None:
    lost = Degradation(
        capability="frame_start",
        current_support=SupportState.UNAVAILABLE,
        event="capability.degraded",
        evidence="",
        observed_at_epoch_s=0,
        previous_support=SupportState.NATIVE,
        retry_class=RetryClass.SAFE_RETRY,
    )
    made = receipt(1, event=LifecycleEvent.SESSION_ENDED, capability_degradations=(lost,))

    assert trigger_of(encode_json(made)) is SESSION


@pytest.mark.parametrize("text", [b"", b"{}", b'{"event":"', b'{"event":"frame.ended'])
def test_bytes_that_are_no_receipt_ask_for_nothing(text: bytes) -> None:
    assert trigger_of(text) is None


async def test_a_burst_makes_one_save_at_its_last_boundary(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    for _ in range(20):
        bench.grow(1, LifecycleEvent.FRAME_ENDED)

    async with running(bench):
        await until(lambda: bench.saver.made == 1)

    assert bench.saved() == [(SCENE, 20)]


async def test_what_ends_while_a_save_is_under_way_is_saved_as_well(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with running(bench):
        for round_ in range(1, 6):
            bench.grow(3, LifecycleEvent.FRAME_ENDED)
            await until(lambda end=3 * round_: (SCENE, end) in bench.saved())  # type: ignore[misc]

    assert [position for _, position in bench.saved()] == [15, 12, 9]


async def test_the_end_of_a_session_wins_over_that_of_a_frame(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.grow(5, LifecycleEvent.FRAME_ENDED)
    bench.grow(5, LifecycleEvent.SESSION_ENDED)
    bench.grow(5, LifecycleEvent.FRAME_ENDED)

    async with running(bench):
        await until(lambda: bench.saver.made == 1)

    assert bench.saved() == [(SESSION, 15)]


async def test_what_ends_nothing_is_not_saved(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    async with running(bench):
        bench.grow(30, LifecycleEvent.FRAME_OPENED)
        for _ in range(50):
            await anyio.lowlevel.checkpoint()

    assert (bench.saver.made, bench.saved()) == (0, [])


async def test_a_save_that_fails_is_counted_and_the_next_boundary_saves(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.broken = True
    async with running(bench):
        bench.grow(5, LifecycleEvent.SESSION_ENDED)
        await until(lambda: bench.saver.counters()["saves_failed"] == 1)
        bench.broken = False
        bench.grow(5, LifecycleEvent.FRAME_ENDED)
        await until(lambda: bench.saver.made == 1)

    assert bench.saved() == [(SCENE, 10)]
    assert bench.saver.counters() == {"saves": 1, "saves_failed": 1}


async def test_a_disk_that_takes_no_snapshot_is_counted_and_an_operator_is_told(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("no directory")
    bench = Bench(tmp_path / "taken" / "snapshots")
    bench.grow(5, LifecycleEvent.SESSION_ENDED)

    async with running(bench):
        await until(lambda: bench.saver.failed == 1)
        with pytest.raises(Exception, match="the snapshot cannot be written"):
            await bench.saver.save(SaveType.CAMPAIGN)


async def test_a_defect_of_saving_ends_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = Bench(tmp_path)

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(saving, "take_snapshot", fail)
    async with running(bench):
        for count in (1, 2):
            bench.grow(1, LifecycleEvent.FRAME_ENDED)
            await until(lambda count=count: bench.saver.failed == count)  # type: ignore[misc]


async def test_at_the_end_a_session_is_saved_if_there_is_time(tmp_path: Path) -> None:
    bench = Bench(tmp_path)
    bench.grow(30, LifecycleEvent.FRAME_OPENED)

    await bench.saver.finish(0.0)
    assert bench.saved() == []

    await bench.saver.finish(PATIENCE_S)
    assert bench.saved() == [(SESSION, 30)]


def test_a_mark_that_was_left_tells_of_a_crash(tmp_path: Path) -> None:
    mark = RunningMark(tmp_path / "running")

    assert not mark.set()
    assert mark.set()
    mark.remove()
    assert not mark.set()
