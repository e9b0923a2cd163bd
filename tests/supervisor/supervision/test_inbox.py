"""What passes and hook calls read of the files: taken once, in the order of the reads, by whoever takes it first."""

from pathlib import Path
from typing import Any

from lifebus_adapters import ADAPTERS, HookCall
from lifebus_adapters.adapter import HookReading
from lifebus_adapters.shared.telemetry import Activity, Fact, Usage
from lifebus_supervisor.supervision.ingest import TelemetryInbox
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from support.adapters.calls import call, ids
from support.supervisor.supervised import SupervisedBus, supervised

PRE_COMPACT = {"hook_event_name": "PreCompact", "session_id": "s1", "turn_id": "t1", "transcript_path": "/t/s1"}


def usage(used: int, session: str = "s1") -> Usage:
    return Usage(session=session, used_tokens=used, used_source="file", window_tokens=1_000, window_source="file")


class Box:
    """An inbox beside the supervisor's, and what the monitors observe of it."""

    def __init__(self, rig: SupervisedBus, monkeypatch: Any) -> None:
        self.rig = rig
        self.monitors = [rig.supervisor.monitors.open(("codex", session)) for session in ("s1", "s2")]
        self.inbox = TelemetryInbox(rig.files, rig.supervisor.monitors)
        self.seen: list[tuple[str, int]] = []
        observe = SessionMonitor.observe

        def noted(monitor: SessionMonitor, fact: Fact, *rest: Any, **settings: Any) -> None:
            assert isinstance(fact, Usage)
            self.seen.append((monitor.key[1], fact.used_tokens))
            observe(monitor, fact, *rest, **settings)

        monkeypatch.setattr(SessionMonitor, "observe", noted)

    def take(self, only: SessionMonitor | None = None) -> None:
        self.inbox.take(tick=1, now=1.0, settle_s=1.0, only=only)


def pre_compact(**changes: Any) -> tuple[HookCall, HookReading]:
    native = call("codex", PRE_COMPACT, **changes)
    return native, ADAPTERS["codex"].read(native, ids())


async def test_a_call_takes_what_a_pass_has_read_before_what_it_reads_itself(tmp_path: Path, monkeypatch: Any) -> None:
    async with supervised(tmp_path) as rig:
        box = Box(rig, monkeypatch)
        rig.news("codex", "s1", usage(100))
        rig.news("codex", "s2", usage(7, "s2"))
        assert len(await box.inbox.poll(to_end=False)) == 2  # and the pass waits for the ledger
        rig.news("codex", "s1", usage(970))
        assert await box.inbox.poll_before(*pre_compact(), decides_end=False)
        box.take(only=box.monitors[0])
        assert box.seen == [("s1", 100), ("s1", 970)]
        box.take()
        box.take()
        assert box.seen == [("s1", 100), ("s1", 970), ("s2", 7)]


async def test_only_calls_about_the_context_that_come_in_their_time_are_read_for(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        inbox = TelemetryInbox(rig.files, rig.supervisor.monitors)
        assert not await inbox.poll_before(*pre_compact(spooled_at_epoch_s=1_800_000_000), decides_end=False)
        stop = call("codex", {"hook_event_name": "Stop", "session_id": "s1", "turn_id": "t1"})
        assert not await inbox.poll_before(stop, ADAPTERS["codex"].read(stop, ids()), decides_end=False)
        assert rig.files.followed == []
        rig.news("codex", "s1", Activity(session="s1"))
        assert await inbox.poll_before(*pre_compact(), decides_end=False)
        assert rig.files.followed == [("codex", "s1", "/t/s1")]
