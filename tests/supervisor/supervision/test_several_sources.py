"""Sessions with several files, or one database for all: whose problem a problem is, and what is not lost on the way."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest

from lifebus_adapters.shared.telemetry import Activity, Compacted, Usage
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent, Receipt
from lifebus_supervisor.supervision import monitor_table as table
from lifebus_supervisor.supervision import recording
from lifebus_supervisor.supervision.recording import CLIENT_ID
from lifebus_supervisor.supervision.rules.emissions import emissions_of
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding
from lifebus_supervisor.supervision.supervisor import PassResult
from lifebus_supervisor.tailing.events import FileUpdate
from support.patience import PATIENCE_S
from support.supervisor.supervised import SupervisedBus, facts_of, supervised

SESSION = "s1"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}


def update(path: str, **changes: Any) -> FileUpdate:
    settings: dict[str, Any] = {"adapter_id": "codex", "source_id": "rollout", "session": SESSION}
    return FileUpdate(path=path, **settings | changes)


def losses(receipts: list[Receipt]) -> list[tuple[object, str]]:
    return [
        (one.telemetry_summary.get("cause"), one.status.value) for one in receipts if one.event == "capability.degraded"
    ]


async def test_a_database_that_is_gone_is_missed_by_every_session_it_reported_on(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for session in ("s1", "s2"):
            await rig.hook("codex", START | {"session_id": session})
        facts = tuple(Activity(session=session) for session in ("s1", "s2"))
        rig.files.put(update("/db", session=None, facts=facts))
        await rig.tick()
        rig.files.standing = [update("/db", session=None, problem="missing")]
        assert losses(await rig.tick(3)) == [("telemetry_missing", "degraded")] * 2
        rig.files.standing = []
        rig.files.put(update("/db", session=None))
        assert losses(await rig.tick(3)) == [("telemetry_missing", "observed")] * 2


async def test_a_database_that_cannot_be_read_degrades_the_sessions_it_reported_on(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.files.put(update("/db", session=None, facts=(Activity(session=SESSION),)))
        await rig.tick()
        rig.files.put(update("/db", session=None, unreadable_run=3, evidence="rows of another form"))
        assert losses(await rig.tick(2)) == [("telemetry_unreadable", "degraded")]


async def test_what_a_database_reports_on_one_session_does_not_wake_another(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        quiet = Usage(session="old", used_tokens=900, used_source="x", window_tokens=1_000)
        rig.files.put(update("/db", session=None, facts=(quiet,), history=True))
        rig.files.put(update("/db", session=None, facts=(Activity(session=SESSION),), grown=1))
        await rig.tick(2)
        assert [one for one in await rig.since(0) if one.harness_session_id == "old"] == []


async def test_an_old_file_of_a_session_may_go(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.files.put(update("/old", facts=(Activity(session=SESSION),)))
        rig.files.put(update("/new", facts=(Activity(session=SESSION),)))
        await rig.tick()
        rig.files.standing = [update("/old", problem="missing")]
        assert losses(await rig.tick(5)) == []
        rig.files.standing = [update("/new", problem="missing")]
        assert losses(await rig.tick(5)) == [("telemetry_missing", "degraded")]


async def test_a_file_that_can_be_read_does_not_hide_one_that_cannot(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        recorded: list[Receipt] = []
        for _ in range(4):
            rig.files.put(update("/bad", unreadable_run=3))
            rig.files.put(update("/good", facts=(Activity(session=SESSION),)))
            recorded += await rig.tick()
        assert losses(recorded) == [("telemetry_unreadable", "degraded")]


async def test_nothing_comes_back_as_long_as_another_cause_takes_it_away(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.files.put(update("/f", facts=(Activity(session=SESSION),)))
        await rig.tick()
        rig.files.standing = [update("/f", problem="missing")]
        await rig.tick(2)
        rig.files.standing = []
        rig.files.put(update("/f", unreadable_run=3))
        assert losses(await rig.tick(3)) == []
        rig.files.put(update("/f", facts=(Activity(session=SESSION),)))
        assert [status for _, status in losses(await rig.tick(3))] == ["observed"]


async def test_what_was_polled_survives_a_pass_that_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        rig.files.put(update("/f", facts=(Usage(session=SESSION, used_tokens=9, used_source="x", window_tokens=10),)))

        async def broken(*_: object) -> None:
            raise OSError

        with monkeypatch.context() as patched:
            patched.setattr(rig.supervisor.monitors, "refresh", broken)
            with pytest.raises(OSError):  # noqa: PT011  it is the one above
                await rig.supervisor.tick()
        assert facts_of(await rig.tick()) == ["context.pressure_observed"]


async def test_findings_that_come_to_nothing_do_not_fill_the_ledger(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.tick(2)
        known = SupervisionFinding(
            event=LifecycleEvent.SUPERVISOR_TICK, telemetry={"other": "content"}, key="compacted:1"
        )
        manifest = rig.bus.registry.require("codex").manifest
        await rig.bus.emit(CLIENT_ID, emissions_of([known], manifest, ("codex", SESSION), rig.bus.ids))
        rig.files.put(update("/f", facts=(Compacted(session=SESSION, key="1"),)))
        assert len(await rig.tick(500)) < 15


async def test_a_live_session_is_not_given_up_for_files_that_nobody_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MAX_MONITORS", 4)
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.tick()
        for number in range(20):
            rig.files.put(
                update(f"/{number}", session=f"q{number}", facts=(Activity(session=f"q{number}"),), history=True)
            )
        await rig.tick()
        assert rig.supervisor.monitors.get(("codex", SESSION)) is not None
        assert len(rig.supervisor.monitors) == 4


async def lose_in_many_sessions(rig: SupervisedBus, count: int) -> None:
    for number in range(count):
        session = f"m{number}"
        await rig.hook("codex", START | {"session_id": session})
        rig.files.put(update("/db", session=None, facts=(Activity(session=session),)))
    await rig.tick()
    rig.files.standing = [update("/db", session=None, problem="missing")]


async def test_slow_clients_hold_up_many_sessions_findings_once_and_not_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, all_asked = 0, anyio.Event()

    async def slow(_: DispatchEnvelope) -> CallbackResponse:
        """Answer when all are asked: if one were asked after the other, none would answer before its deadline."""
        nonlocal asked
        asked += 1
        if asked == 40 * 3:
            all_asked.set()
        await all_asked.wait()
        return CallbackResponse.ok()

    monkeypatch.setattr(recording, "_BUDGET_S", 2 * PATIENCE_S)

    async with supervised(tmp_path) as rig:
        await lose_in_many_sessions(rig, 40)
        for client in range(3):
            rig.bus.register(f"slow{client}", [LifecycleEvent.CAPABILITY_DEGRADED], slow, deadline=2 * PATIENCE_S)
        with anyio.fail_after(PATIENCE_S):
            recorded = await rig.tick(2)
        degraded = [one for one in recorded if one.event == "capability.degraded"]
        assert len(degraded) == 40 * (1 + 3)
        assert asked == 40 * 3, "all are asked at once, and none after the other"


async def test_one_pass_answers_all_who_asked_before_it_began(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", START)
        await rig.tick()
        polls = 0
        poll = rig.files.poll

        async def counted() -> Sequence[FileUpdate]:
            nonlocal polls
            polls += 1
            await anyio.lowlevel.checkpoint()
            return await poll()

        rig.files.poll = counted  # type: ignore[method-assign]
        rig.files.put(update("/f", facts=(Usage(session=SESSION, used_tokens=9, used_source="x", window_tokens=10),)))
        results: list[PassResult] = []

        async def ask() -> None:
            results.append(await rig.supervisor.tick())

        rig.clock.seconds += 2
        async with anyio.create_task_group() as tasks:
            for _ in range(50):
                tasks.start_soon(ask)
        assert polls <= 2
        assert {len(one.stored) for one in results} <= {0, 2}
        assert sum(len(one.stored) for one in results) >= 2
