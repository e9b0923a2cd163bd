"""Resume: what was open comes back after a kill -9, has to go on, and nothing is invented.

See docs/ledger.md, "Resume".
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

import lifebus
from lifebus_admin.snapshots.boot import boot_here
from lifebus_broker.ledger.log import encode_line
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.snapshots.compactions.files import DIRECTORY
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_contract import Emission, FrameClass, FrameContext, LifecycleEvent
from lifebus_contract.envelope import PayloadEnvelope
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_directory import snapshot_files
from support.broker_process import BrokerProcess, broker_process
from support.patience import PATIENCE_S
from support.running import settings_in, short_directory

FRAME = FrameContext(frame_id="turn 1", frame_class=FrameClass.TOP_LEVEL)
QUESTION = {"operator_kind": "command_approval", "request_id": 7}
PAYLOAD: PayloadEnvelope = lifebus.make_payload("alice", "text", placements=[("side_channel_context", "preferred")])
KINDS = ("PENDING_CONSENT", "PENDING_HANDOUT", "PENDING_ROLL")


def fact(event: str, frame: FrameContext | None = None, **more: Any) -> Emission:
    return Emission(request=lifebus.make_request(event, "codex", session="s1", frame=frame), **more)


OPENS: tuple[Callable[[], Emission], ...] = (
    lambda: fact("session.started"),
    lambda: fact("frame.opened", FRAME),
    lambda: fact("supervisor.tick", telemetry={"operator": "asked", **QUESTION}),
    lambda: fact("frame.opening", FRAME, payloads=(PAYLOAD,)),
)
"""What opens a frame, asks an operator, and hands over a payload that finds no place."""

SETTLES: dict[str, Callable[[], Emission]] = {
    "PENDING_ROLL": lambda: fact("frame.ended", FRAME),
    "PENDING_CONSENT": lambda: fact("supervisor.tick", telemetry={"operator": "answered", **QUESTION}),
}


@asynccontextmanager
async def bus_in(directory: Path) -> AsyncIterator[tuple[BrokerProcess, lifebus.Bus]]:
    async with (
        broker_process(directory, LIFEBUS_TICKS_ENABLED="false", LIFEBUS_TELEMETRY_ENABLED="false") as broker,
        lifebus.connect("alice", runtime_dir=broker.runtime_dir) as bus,
    ):
        yield broker, bus


async def ready(bus: lifebus.Bus) -> lifebus.State:
    """Resume as soon as the broker has read its ledger."""
    with anyio.fail_after(PATIENCE_S):
        while True:
            try:
                return await bus.saves.resume()
            except lifebus.BrokerBusy:
                await anyio.lowlevel.checkpoint()


async def open_all(bus: lifebus.Bus) -> None:
    """Have one thing of each kind wait for somebody."""
    for opens in OPENS:
        await bus.emit(opens())


def everything(settings: Settings) -> tuple[list[bytes], list[Any]]:
    """Return every byte of the log, and every note of the journal but up to where ends of sessions were looked at."""
    with SqliteLog(settings.ledger_path) as log:
        notes = [one for one in log.records("") if one.stream != "transcript-ends"]
        return [encode_line(line) for line in log.lines(log.floor, log.head)], notes


async def booted(settings: Settings, which: str | None = None) -> dict[str, Any]:
    return await anyio.to_thread.run_sync(boot_here, settings, which, lambda _: None)


async def test_sl_g3_all_three_kinds_of_pending_survive_kill_nine_and_are_presented_again() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with bus_in(directory) as (broker, bus):
            await open_all(bus)
            before = await ready(bus)
            saved = await bus.saves.save("SESSION")
            await broker.kill()
        assert before.pending is not None
        assert tuple(before.pending) == KINDS

        cold = await booted(settings, saved.snapshot_id)
        async with bus_in(directory) as (_, bus):
            after = await ready(bus)

        assert after.raw == before.raw
        assert cold["pending_state"] == before.pending


async def test_resume_i1_and_i2_what_was_open_has_to_go_on_and_is_not_bypassed() -> None:
    with short_directory() as directory:
        async with bus_in(directory) as (broker, bus):
            await open_all(bus)
            await broker.kill()
        left = list(KINDS)
        async with bus_in(directory) as (broker, bus):
            for kind, settles in SETTLES.items():
                await bus.emit(fact("supervisor.tick"))
                assert list((await ready(bus)).pending or {}) == left
                await bus.emit(settles())
                left.remove(kind)
                assert list((await ready(bus)).pending or {}) == left
            rest = (await ready(bus)).pending
            await broker.kill()
        async with bus_in(directory) as (_, bus):
            assert (await ready(bus)).pending == rest
        assert left == ["PENDING_HANDOUT"]


async def test_resume_i3_nothing_is_invented_and_nothing_is_recorded() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with bus_in(directory) as (broker, bus):
            await open_all(bus)
            visible = await ready(bus)
            saved = await bus.saves.save("SESSION")
            await bus.emit(fact("frame.ended", FRAME))
            await bus.emit(fact("session.ended"))
            before = everything(settings)
            for _ in range(3):
                await ready(bus)
                await bus.saves.save("SESSION")
            assert everything(settings) == before
            await broker.kill()

        view = await booted(settings, saved.snapshot_id)
        async with bus_in(directory) as (_, bus):
            await ready(bus)

        assert view["position"] == saved.position == visible.position
        assert view["pending_state"] == visible.pending
        assert view["sessions"][0]["last_event"] == LifecycleEvent.FRAME_OPENING
        assert everything(settings) == before


async def test_resume_i4_stale_compactions_are_built_again_and_nobody_notices() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        async with bus_in(directory) as (broker, bus):
            await open_all(bus)
            visible = await ready(bus)
            await bus.saves.save("SESSION")
            await broker.terminate()
        view = await booted(settings)
        kept = settings.state_dir / DIRECTORY / SessionRecap.policy_id
        kept.mkdir(parents=True)
        (stale,) = [kept / f"{name}.json" for name in _recaps(settings)]
        stale.write_bytes(b'{"a recap":"of something else"}\n')

        again = await booted(settings)

        assert again == view
        assert view["pending_state"] == visible.pending
        assert not stale.exists()


def _recaps(settings: Settings) -> tuple[str, ...]:
    (snapshot, *_) = snapshot_files(settings).all()[0]
    return snapshot.compaction_ids


async def test_who_waits_for_a_person_is_in_saves_and_boots_and_survives_kill_nine() -> None:
    facts: dict[str, str | int | bool | None] = {"waiting_for": "permission", "waiting_kind": "Bash"}

    def waiting(state: dict[str, Any]) -> list[tuple[str, str]]:
        (session,) = state["sessions"]
        return [(wait["waiting_for"], wait["kind"]) for wait in session.get("waits", ())]

    with short_directory() as directory:
        settings = settings_in(directory)
        async with bus_in(directory) as (broker, bus):
            await bus.emit(fact("session.started"))
            await bus.emit(fact("supervisor.tick", telemetry={"waiting": "begun", **facts}))
            begun = waiting(json.loads((await ready(bus)).raw))
            saved = await bus.saves.save("SESSION")
            await broker.kill()
        assert begun == waiting(await booted(settings, saved.snapshot_id)) == [("permission", "Bash")]
        async with bus_in(directory) as (broker, bus):
            assert waiting(json.loads((await ready(bus)).raw)) == begun
            await bus.emit(fact("supervisor.tick", telemetry={"waiting": "ended", **facts}))
            assert waiting(json.loads((await ready(bus)).raw)) == []
            answered = await bus.saves.save("SESSION")
            await broker.kill()
        assert waiting(await booted(settings, answered.snapshot_id)) == []
