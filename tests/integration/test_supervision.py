"""Supervision in a running broker: real hook processes, real telemetry files, a harness that is really killed."""

import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import psutil
import pytest
from msgspec import structs

import lifebus
from lifebus_broker.state.degradation import Cause, lost
from lifebus_contract import (
    CallbackResponse,
    CapabilityRequest,
    DispatchEnvelope,
    LifecycleEvent,
    Receipt,
    RequirementLevel,
)
from lifebus_supervisor.configuration.settings import TelemetrySettings, TickSettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.supervision.rules.emissions import emissions_of
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding
from support.clients.hook_box import PATIENT_COMMAND
from support.integration.serving import serving
from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import connected, settings_in, short_directory

SESSION = "0000000b-b50b-70a5-873f-cddb668c29d4"
START = {"hook_event_name": "SessionStart", "session_id": SESSION, "source": "startup"}
PROMPT = {"hook_event_name": "UserPromptSubmit", "session_id": SESSION, "turn_id": "t1"}

HARNESS = """
import json, subprocess, sys
for line in sys.stdin:
    subprocess.run(json.loads(line)["command"], input=json.loads(line)["payload"].encode(), check=True)
    print("called", flush=True)
"""
"""A harness that calls hooks as it is told, and lives until it is killed."""


class Harness:
    """A process that calls our hook."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def call(self, payload: dict[str, str]) -> None:
        command = [*PATIENT_COMMAND, "codex"]
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"command": command, "payload": json.dumps(payload)}) + "\n")
        stdin.flush()
        assert stdout.readline() == "called\n"

    def kill(self) -> None:
        psutil.Process(self._process.pid).send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)


@contextmanager
def harness(daemon: Daemon) -> Iterator[Harness]:
    environment = {
        "LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir),
        "LIFEBUS_STATE_DIR": str(daemon.settings.state_dir),
    }
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", HARNESS], stdin=pipe, stdout=pipe, text=True, env=environment) as made:
        try:
            yield Harness(made)
        finally:
            made.kill()


@asynccontextmanager
async def supervising(home: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Daemon]:
    """A broker that ticks twenty times a second and looks at Codex's files below `home`."""
    for name in ("CLAUDE", "CODEX"):
        monkeypatch.setenv(f"LIFEBUS_{name}_HOME", str(home / name.lower()))
    monkeypatch.setenv("HOME", str(home))
    with short_directory() as directory:
        calm = settings_in(directory, hook_answer_ms=PATIENCE_MS)
        quick = structs.replace(calm, ticks=TickSettings(interval_ms=50), telemetry=TelemetrySettings())
        async with running(quick) as daemon:
            yield daemon


async def until(bus: lifebus.Bus, event: str, count: int = 1) -> list[Receipt]:
    """The receipts up to the one with the event, that often."""
    seen: list[Receipt] = []
    with anyio.fail_after(PATIENCE_S):
        async for item in bus.receipts(since="start"):
            assert isinstance(item, Receipt)
            seen.append(item)
            if sum(one.event == event for one in seen) == count:
                return seen
    raise AssertionError("the stream ended")


def rollout(home: Path) -> Path:
    path = home / "codex/sessions/2026/11/22" / f"rollout-2026-11-22T10-00-00-{SESSION}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def token_count(used: int) -> str:
    info = {"last_token_usage": {"total_tokens": used}, "model_context_window": 1000}
    return json.dumps({"type": "event_msg", "payload": {"type": "token_count", "info": info}}) + "\n"


async def test_a_killed_harness_is_noticed_and_its_session_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervising(tmp_path, monkeypatch) as daemon, connected(daemon) as bus:
        with harness(daemon) as running_harness:
            await anyio.to_thread.run_sync(running_harness.call, START)
            await anyio.to_thread.run_sync(running_harness.call, PROMPT)
            await until(bus, "frame.opened")
            running_harness.kill()
            seen = await until(bus, "session.ended")
    assert [one.telemetry_summary.get("frame_end") for one in seen if one.event == "frame.ended"] == ["abandoned"]
    assert seen[-1].telemetry_summary["session_end"] == "abandoned"


async def test_pressure_in_a_file_is_told_by_its_level_and_reaches_clients_with_its_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[DispatchEnvelope] = []

    async def keep(dispatch: DispatchEnvelope) -> CallbackResponse:
        asked.append(dispatch)
        return CallbackResponse.ok()

    async with (
        supervising(tmp_path, monkeypatch) as daemon,
        connected(daemon, "watcher") as watcher,
        connected(daemon) as bus,
        serving(watcher, keep, [LifecycleEvent.CONTEXT_PRESSURE_OBSERVED]),
    ):
        with harness(daemon) as running_harness:
            path = rollout(tmp_path)
            path.write_text("")
            await anyio.to_thread.run_sync(running_harness.call, START | {"transcript_path": str(path)})
            await until(bus, "session.started")
            for used, count in ((100, 1), (650, 2), (950, 3)):
                with path.open("a") as file:
                    file.write(token_count(used) * 3)
                seen = await until(bus, "context.pressure_observed", count)
    levels = [one.telemetry_summary["context_pressure"] for one in seen if one.event == "context.pressure_observed"]
    assert levels == ["low", "moderate", "critical"]
    assert [
        (one.telemetry["context_pressure"], one.telemetry["context_used_pct"], one.telemetry["context_used_tokens"])
        for one in asked
    ] == [("low", 10, 100), ("moderate", 65, 650), ("critical", 95, 950)]


async def test_a_driven_tick_returns_what_it_found_and_status_tells_of_the_harness(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with supervising(tmp_path, monkeypatch) as daemon, connected(daemon) as bus:
        with harness(daemon) as running_harness:
            path = rollout(tmp_path)
            await anyio.to_thread.run_sync(running_harness.call, START | {"transcript_path": str(path)})
            await until(bus, "session.started")
            ticked = await bus.tick("codex", SESSION)
            status = await bus.status()
    assert ticked.receipts[0].event == "supervisor.tick"
    assert (ticked.receipts[0].client_id, ticked.receipts[0].harness_session_id) == ("test", SESSION)
    (codex,) = [one for one in status.harnesses if one.adapter_id == "codex"]
    assert codex.sessions == 1
    assert codex.last_event is not None
    assert codex.last_hook_age_s is not None
    assert codex.last_tick_age_s is not None


async def test_ticks_that_find_nothing_can_be_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervising(tmp_path, monkeypatch) as daemon, connected(daemon) as bus:
        with harness(daemon) as running_harness, anyio.fail_after(PATIENCE_S):
            await anyio.to_thread.run_sync(running_harness.call, START)
            async for receipt in bus.ticks("codex"):
                assert (receipt.event, receipt.sequence) == ("supervisor.tick", None)
                break


async def test_what_a_session_has_lost_is_known_to_the_first_who_asks_after_a_restart() -> None:
    need = CapabilityRequest(capability="context_pressure", level=RequirementLevel.REQUIRED)
    with short_directory() as directory:
        async with running(settings_in(directory)) as daemon:
            manifest = daemon.bus.registry.require("codex").manifest
            gone = lost(manifest, Cause.TELEMETRY_MISSING, "no file", 1, {})
            findings = [
                SupervisionFinding(event=LifecycleEvent.SESSION_STARTED, telemetry={}),
                SupervisionFinding(event=LifecycleEvent.CAPABILITY_DEGRADED, telemetry={}, degradations=gone),
            ]
            await daemon.bus.emit("test", emissions_of(findings, manifest, ("codex", SESSION), daemon.bus.ids))
        async with running(settings_in(directory)) as daemon, connected(daemon) as bus:
            assert (await bus.negotiate("codex", [need], session=SESSION)).outcome == "unsupported"
            assert (await bus.negotiate("codex", [need], session="another")).outcome == "satisfied"


async def test_many_clients_may_tick_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with supervising(tmp_path, monkeypatch) as daemon, connected(daemon) as bus:
        ticked: list[int] = []

        async def tick() -> None:
            ticked.append(len((await bus.tick("codex")).receipts))

        with anyio.fail_after(PATIENCE_S):
            async with anyio.create_task_group() as tasks:
                for _ in range(100):
                    tasks.start_soon(tick)
    assert ticked == [1] * 100
