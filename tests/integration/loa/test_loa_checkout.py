"""Loa's own scripts under the runtime, where somebody has a checkout of it: what they end with is what is done.

Each script is first run by hand in a project of its own, so that the expectation is the script's own, of whatever
version the checkout is.
"""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

import lifebus
from lifebus.loa.protocol import Phase, StartRun
from lifebus.loa.runtime import Runtime
from lifebus_contract.runs import RunInfo, RunStatus
from support.loa.checkout import CHECKOUT, PULL_REQUEST, VARIABLE, LoaProject, loa_project
from support.running import connected, running_bus, short_directory

pytestmark = [
    pytest.mark.skipif(CHECKOUT is None, reason=f"set {VARIABLE} to the path of a checkout of 0xHoneyJar/loa"),
    pytest.mark.timeout(300),
]

AUDIT = (".claude/scripts/post-pr-audit.sh", "--pr-url", PULL_REQUEST)
ORCHESTRATOR = ".claude/scripts/post-pr-orchestrator.sh"
ASKING_A_MODEL = ("--skip-audit", "--skip-doc-test", "--skip-flatline", "--skip-bridgebuilder")
"""Options of the orchestrator that pass over what asks a model; it refuses those that its version does not have."""
CYCLE = (
    "bash",
    ".claude/scripts/lib/scheduled-cycle-lib.sh",
    "invoke",
    ".claude/skills/scheduled-cycle-template/contracts/example-schedule.yaml",
)
CYCLE_EVENTS = ("cycle.start", "cycle.phase", "cycle.complete", "cycle.error")
RETRIES = 1
DECIDING = ("CI", "GITHUB_ACTIONS", "CLAWDBOT_GATEWAY_TOKEN", "ANTHROPIC_API_KEY")
"""Variables by which the audit decides what an error means and whether it asks a model: as by hand, there are none."""


@pytest.fixture
def folder() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


@asynccontextmanager
async def runtime_in(project: LoaProject, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Runtime]:
    for name in DECIDING:
        monkeypatch.delenv(name, raising=False)
    for name, value in project.environment.items():
        monkeypatch.setenv(name, value)
    async with running_bus() as daemon, connected(daemon, "loa") as bus, lifebus.Workspace(project.root) as files:
        yield Runtime(bus, files, state_dir=project.root.parent / "state")


async def finished(runtime: Runtime, *phases: Phase) -> RunInfo:
    """Run phases until they are over, or a person is asked; who is asked ends the run."""
    await runtime.run(StartRun(run_id="release", phases=phases, retry_pause_ms=1))
    await runtime.wait("release", 240)
    found = await runtime.look("release")
    await runtime.abort("release")
    return found


def skipped(project: LoaProject) -> list[str]:
    """Return the options of `ASKING_A_MODEL` that this version of the orchestrator has."""
    text = (project.root / ORCHESTRATOR).read_text()
    return [one for one in ASKING_A_MODEL if f"{one})" in text]


def codes(run: RunInfo) -> dict[str, list[int | None]]:
    return {step.step_id: [one.outcome.code if one.outcome else None for one in step.tries] for step in run.steps}


@pytest.mark.parametrize(
    ("line", "gh_works"),
    [("plain", True), ("// TO" + "DO: later", True), ('password = "hunter2"', True), ("plain", False)],
    ids=["clean", "left to do", "password", "without gh"],
)
async def test_the_audit_leads_to_what_its_code_means(
    folder: Path, line: str, gh_works: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("by-hand", "run"):
        (folder / name).mkdir()
    expected = loa_project(folder / "by-hand", line, gh_works=gh_works).code_by_hand(*AUDIT)
    project = loa_project(folder / "run", line, gh_works=gh_works)
    async with runtime_in(project, monkeypatch) as runtime:
        run = await finished(runtime, Phase(phase="audit", command=AUDIT, max_retries=RETRIES))
    tries = 1 + RETRIES if expected == 1 or 64 <= expected <= 78 else 1
    assert codes(run) == {"audit": [expected] * tries}
    assert run.status is (RunStatus.COMPLETED if expected == 0 else RunStatus.WAITING)


async def test_the_orchestrator_stops_at_its_checkpoint_and_goes_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = loa_project(folder)
    words = ("--pr-url", PULL_REQUEST, *skipped(project))
    settings = ("env", "BUILD_CMD=make build", "TEST_CMD=make test")
    async with runtime_in(project, monkeypatch) as runtime:
        run = await finished(
            runtime,
            Phase(phase="validate", command=(ORCHESTRATOR, *words)),
            Phase(phase="resume", command=(*settings, ORCHESTRATOR, "--resume", *words)),
        )
    assert codes(run) == {"validate": [0], "resume": [0]}
    assert run.status is RunStatus.COMPLETED
    assert json.loads((project.root / ".run" / "post-pr-state.json").read_text())["state"] == "READY_FOR_HITL"
    assert list((project.root / ".run").rglob("*PR-E2E-PASSED*")) != []


async def test_a_scheduled_cycle_runs_its_five_phases(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project = loa_project(folder)
    if not all((project.root / path).exists() for path in CYCLE if path.startswith(".claude/")):
        pytest.skip("this version of Loa has no scheduled cycles, or no example of one")
    async with runtime_in(project, monkeypatch) as runtime:
        run = await finished(runtime, Phase(phase="cycle", command=CYCLE))
    assert (codes(run), run.status) == ({"cycle": [0]}, RunStatus.COMPLETED)
    records = (project.root / ".run" / "cycles.jsonl").read_text().splitlines()
    assert [sum(f'"{name}"' in line for line in records) for name in CYCLE_EVENTS] == [1, 5, 1, 0]
