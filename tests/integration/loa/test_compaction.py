"""Loa's `compact` over a broker: the phases that are over and not preserved, each session once, and the log has it."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

import lifebus
from lifebus.loa.compaction import AGGRESSIVE, phases_to_compact
from lifebus.loa.runtime import Runtime
from lifebus.loa.types import CompactionOptions, StandardEvent
from lifebus_contract.flows import HarnessPrompt, StepDefinition
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, TryInfo
from support.flows import flow, step
from support.imitation_claude import ImitationClaude
from support.patience import PATIENCE_S
from support.running import connected, running_bus

FIRST = "0192f0c1-7a55-4610-8755-000000000001"
SECOND = "0192f0c1-7a55-4610-8755-000000000002"


def asking(name: str, *needs: str, arguments: tuple[str, ...] = ()) -> StepDefinition:
    return step(name, *needs, command=None, prompt=HarnessPrompt(adapter_id="claude", text=name, arguments=arguments))


def options(*preserved: str, aggressive: bool = False) -> CompactionOptions:
    return CompactionOptions(aggressive=aggressive, preserve_phases=preserved)


@asynccontextmanager
async def finished(root: Path, *steps: StepDefinition) -> AsyncGenerator[tuple[lifebus.Bus, Runtime, str]]:
    """A run that is over, and the runtime that speaks for it."""
    async with (
        running_bus() as daemon,
        connected(daemon, "loa") as bus,
        lifebus.Workspace(root) as files,
        asyncio.timeout(PATIENCE_S),
    ):
        run = await bus.flows.submit(flow(root, *steps))
        while not run.status.is_over:
            run = await bus.flows.wait(run.run_id, run.number)
        assert run.status is RunStatus.COMPLETED
        yield bus, Runtime(bus, files), run.run_id


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImitationClaude:
    folder = tmp_path / "claude"
    folder.mkdir()
    made = ImitationClaude(folder)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


async def test_phases_that_are_over_are_compacted_and_the_log_has_each(tmp_path: Path, claude: ImitationClaude) -> None:
    claude.answers("design", FIRST)
    claude.answers("build", SECOND)
    claude.answers("audit", SECOND)
    root = tmp_path / "root"
    root.mkdir()
    steps = (
        asking("design"),
        asking("build", "design"),
        asking("audit", "build", arguments=("--resume", SECOND)),
        step("tests", "audit"),
    )
    async with finished(root, *steps) as (_, runtime, run_id):
        found = await runtime.compact(run_id, options("design", aggressive=True))
        assert (found.phases, found.reason) == (("build",), "")
        assert claude.seen("compact", "design") is None
        assert claude.seen("compact", "audit") is None
        seen = claude.seen("compact", "build")
        assert seen is not None
        assert seen[-1] == f"/compact {AGGRESSIVE}"
        # The audit has the same context as the build: neither is touched where one of them is preserved.
        assert (await runtime.compact(run_id, options("audit"))).phases == ("design",)
        seen = claude.seen("compact", "design")
        assert seen is not None
        assert seen[-1] == "/compact"
        logged = [one for one in await runtime.logs(run_id) if one.event == StandardEvent.CONTEXT_COMPACTION.value]
        assert [one.phase for one in logged] == ["build", "design"]
        data = logged[0].data
        assert data is not msgspec.UNSET
        assert (data["session"], data["tokens_after"]) == (f"claude/{SECOND}", 2_597)


async def test_where_nothing_is_compacted_each_phase_says_why(tmp_path: Path, claude: ImitationClaude) -> None:
    claude.answers("design", FIRST)
    claude.says("compact", "design", "not_compacted")
    root = tmp_path / "root"
    root.mkdir()
    async with finished(root, asking("design"), step("tests", "design")) as (bus, runtime, run_id):
        found = await runtime.compact(run_id, options())
        assert found.phases == ()
        assert "`design`: Not enough messages to compact." in found.reason
        assert "`tests`: the step is a program" in found.reason
        nothing = await runtime.compact(run_id, options("design", "tests"))
        assert (nothing.phases, nothing.reason) == ((), "no phase has a context to be compacted")
        logged = [one.event for one in await runtime.logs(run_id)]
        assert StandardEvent.CONTEXT_COMPACTION.value not in logged
        assert "lifebus.context_compacted" not in [one.event for one in await bus.flows.events(run_id)]


def run_of(**sessions: str | None) -> RunInfo:
    """A run whose phases were tried once, in these sessions."""
    steps = tuple(
        StepInfo(step_id=name, tries=(TryInfo(number=1, started_at_ms=1, session=one and ("claude", one)),))  # type: ignore[arg-type]
        for name, one in sessions.items()
    )
    pending = StepInfo(step_id="later")
    return RunInfo(
        run_id="r",
        name="f",
        client_id="c",
        root="/",
        owner="broker",
        status=RunStatus.RUNNING,
        started_at_ms=1,
        steps=(*steps, pending),
    )


def test_each_session_once_and_none_of_a_preserved_phase() -> None:
    run = run_of(a="x", b="y", c="x", d=None)
    assert phases_to_compact(run, ()) == ["a", "b", "d"]
    assert phases_to_compact(run, ("c",)) == ["b", "d"]
    assert phases_to_compact(run, ("a", "b", "d")) == []
