"""A running broker saves at boundaries, behind everybody's back, and every save is proved by the log."""

import json
from collections.abc import Callable
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
import pytest
from msgspec import structs

import lifebus
from lifebus_admin.snapshots.boot import verify_snapshots
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType
from lifebus_contract import FrameClass, FrameContext, InvalidRequest
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.jobs import snapshotter as saving
from lifebus_supervisor.jobs.state_directory import snapshot_files
from support.patience import PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory

FRAME = FrameContext(frame_id="f1", frame_class=FrameClass.TOP_LEVEL)
SCENE, SESSION, CAMPAIGN = SaveType


@pytest.fixture(autouse=True)
def without_rests(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_REST_S", "_REST_FACTOR", "_PIECE_REST_S"):
        monkeypatch.setattr(saving, name, 0.0)


async def record(bus: lifebus.Bus, *events: str, session: str = "s1") -> None:
    for event in events:
        frame = FRAME if event.startswith("frame.") else None
        await bus.emit(lifebus.make_request(event, "codex", session=session, frame=frame))


def saved(settings: Settings, save_type: SaveType | None = None) -> list[SaveSnapshot]:
    return [one for one in snapshot_files(settings).all()[0] if save_type in (None, one.save_type)]


async def until(condition: Callable[[], object]) -> None:
    with anyio.fail_after(PATIENCE_S):
        while not condition():
            await anyio.lowlevel.checkpoint()


def positions(settings: Settings, save_type: SaveType) -> list[int]:
    return [one.timestamp_event_id for one in saved(settings, save_type)]


async def proved(settings: Settings) -> list[str]:
    verdicts = await anyio.to_thread.run_sync(verify_snapshots, settings)
    return [one.verdict for one in verdicts]


async def test_a_frame_that_ends_saves_a_scene_and_a_session_that_ends_a_session() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        settings = daemon.settings
        await record(bus, "session.started", "frame.opened", "frame.ended")
        await until(lambda: 3 in positions(settings, SCENE))
        assert saved(settings, SESSION) == []
        await record(bus, "session.ended")
        await until(lambda: daemon.snapshots.counters()["saves"] == 2)
        assert positions(settings, SESSION) == [4]
        counters = (await bus.status()).counters
        assert (counters["saves"], counters["saves_failed"]) == (2, 0)
        assert await proved(settings) == ["proved", "proved"]


async def test_an_orderly_stop_saves_a_session_and_a_crash_is_saved_at_the_next_start() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            settings = daemon.settings
            await record(bus, "session.started", "frame.opened")
            assert (settings.state_dir / "running").exists()
        assert positions(settings, SESSION) == [2]
        assert not (settings.state_dir / "running").exists()

        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await record(bus, "frame.opened")
            (settings.state_dir / "running").touch()
            daemon.halt.stop(74)  # as if the disk had failed: nothing is saved at the end
        assert positions(settings, SESSION) == [2]
        async with running_bus(directory=directory):
            await until(lambda: 3 in positions(settings, SESSION))


async def test_a_memory_ledger_saves_nothing_and_says_so() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        for ask in (bus.saves.save("SESSION"), bus.saves.resume(), bus.saves.revise("0" * 16, "why")):
            with pytest.raises(InvalidRequest, match=r"not kept|not durable"):
                await ask


async def test_after_a_cut_a_new_save_is_made_and_the_older_ones_say_that_they_cannot_be_proved() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        settings = daemon.settings
        await record(bus, *["session.started"] * 5, "session.ended")
        await until(lambda: 6 in positions(settings, SESSION))
        await prune(daemon, 3)
        await until(lambda: [one.event_log_range for one in saved(settings, SESSION)].count((4, 6)) == 1)
        assert sorted(await proved(settings)) == ["proved", "unprovable"]


async def prune(daemon: Daemon, floor: int) -> None:
    """Drop receipts as retention does, and tell who has to know."""
    assert daemon.follower is not None
    assert await daemon.bus.ledger.prune(floor, await daemon.follower.dump_at(floor)) == floor
    daemon.snapshots.ask()


async def test_a_revision_through_the_broker_lets_a_snapshot_boot_again(tmp_path: Path) -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with running(settings) as daemon, connected(daemon) as bus:
            await record(bus, "session.started", "session.ended")
            snapshot = await bus.saves.save("SESSION")
            with pytest.raises(InvalidRequest, match="already"):
                await bus.saves.revise(snapshot.snapshot_id, "for no reason")
        manifest = configured_adapters(settings).require("codex").manifest
        (tmp_path / "mine.json").write_text(json.dumps(_plain(manifest) | {"adapter_id": "mine"}))
        later = structs.replace(settings, manifests=(tmp_path / "mine.json",))
        assert await proved(later) == ["wrong"]

        async with running(later) as daemon, connected(daemon) as bus:
            answer = await bus.saves.revise(snapshot.snapshot_id, "one adapter more")

        assert answer.number == 1
        assert [change.split(" and ")[0] for change in answer.changes] == ["`manifests.mine` was absent"]
        assert set(await proved(later)) == {"proved"}


def _plain(manifest: object) -> dict[str, object]:
    plain: dict[str, object] = msgspec.to_builtins(manifest)
    return plain


async def test_saving_and_resuming_write_nothing_to_the_ledger() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, "session.started", "frame.opened")
        await until(lambda: daemon.bus.ledger.status().queued == 0)
        before = daemon.bus.ledger.head, await daemon.bus.ledger.journal.streams()
        first = await bus.saves.save("CAMPAIGN")
        again = await bus.saves.save("CAMPAIGN")
        await bus.saves.resume()
        assert (first.new, again.new) == (True, False)
        assert first.snapshot_id == again.snapshot_id
        assert (daemon.bus.ledger.head, await daemon.bus.ledger.journal.streams()) == before
