"""A whole Loa workflow over a broker: five phases, one that is busy at first, and an audit that needs a person."""

import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any

import msgspec
import pytest

import lifebus
from lifebus.loa.protocol import Fault, Phase, RuntimeFault, StartRun
from lifebus.loa.runtime import Runtime
from lifebus.loa.types import (
    Cost,
    EscalationContext,
    EscalationRequest,
    EscalationResponse,
    LoaEvent,
    ResponseAction,
)
from lifebus_contract import StateConflict
from lifebus_contract.runs import RunInfo, RunStatus, StepStatus
from support.paths import REPOSITORY
from support.running import connected, running_bus, short_directory

SKILLS = REPOSITORY / "tests" / "data" / "loa" / "skills"
ANSWERED_AT = "2026-02-03T04:05:06.000Z"
PHASES = ("preflight", "discovery", "design", "implementation", "audit")
REQUEST = EscalationRequest(
    reason="Which licence?", phase="design", context=EscalationContext(), suggested_actions=("MIT", "AGPL")
)


def command(phase: str) -> tuple[str, ...]:
    script = SKILLS / f"{phase}.py"
    return (sys.executable, str(script)) if script.exists() else ("/bin/sh", str(SKILLS / f"{phase}.sh"))


def start(run_id: str, **options: Any) -> StartRun:
    phases = tuple(Phase(phase=name, command=command(name)) for name in PHASES)
    return StartRun(run_id=run_id, phases=phases, retry_pause_ms=1, **options)


def tries(run: RunInfo) -> dict[str, list[int | None]]:
    return {step.step_id: [one.outcome.code if one.outcome else None for one in step.tries] for step in run.steps}


@pytest.fixture
def root() -> Iterator[Path]:
    with short_directory() as directory:
        project = directory / "project"
        project.mkdir()
        (project / "README.md").touch()
        yield project


@asynccontextmanager
async def runtime_in(root: Path) -> AsyncIterator[Runtime]:
    state, home = root.parent / "loa-state", root.parent / "broker"
    home.mkdir(exist_ok=True)
    async with running_bus(directory=home) as daemon, connected(daemon, "loa") as bus, lifebus.Workspace(root) as files:
        yield Runtime(bus, files, state_dir=state)


def checkpoint(run_id: str, phase: str, file: Path) -> dict[str, Any]:
    content = file.read_bytes()
    artifact = {
        "path": file.name,
        "size_bytes": len(content),
        "checksum": f"sha256:{sha256(content).hexdigest()}",
        "description": "what it left",
    }
    return {
        "version": 1,
        "execution_id": run_id,
        "phase": phase,
        "created_at": "2026-02-03T04:05:06Z",
        "exit_code": 0,
        "duration_ms": 5,
        "summary": "The design is there.",
        "decisions": [],
        "artifacts": [artifact],
        "errors": [],
        "house": {"kept": True},
    }


async def test_a_workflow_recovers_by_itself_asks_where_it_must_and_ends_as_the_person_decides(root: Path) -> None:
    async with runtime_in(root) as runtime:
        await runtime.run(start("release"))
        blocked = await runtime.wait("release", 60)
        assert blocked.status is RunStatus.WAITING
        assert tries(await runtime.look("release")) == {
            "preflight": [0],
            "discovery": [75, 0],
            "design": [0],
            "implementation": [0],
            "audit": [2],
        }
        assert (root / "discovery.txt").read_text() == "discovery: retry 1 of 3\n"

        (name,) = [step.question_id for step in blocked.steps if step.question_id]
        question = (await runtime.question(name)).question
        assert (question.step_id, question.run_id) == ("audit", "release")
        (root / "code.txt").write_text("clean\n")
        answer = EscalationResponse(
            responded_at=ANSWERED_AT, responder="ada", action=ResponseAction.RETRY, message="cleaned up"
        )
        await runtime.respond(name, answer)
        assert await runtime.response(name, 30) == msgspec.structs.replace(answer, responded_at=ANSWERED_AT)
        with pytest.raises(StateConflict, match="ada"):
            await runtime.respond(name, msgspec.structs.replace(answer, action=ResponseAction.ABORT))

        done = blocked
        while not done.status.is_over:
            done = await runtime.wait("release", 60)
        assert done.status is RunStatus.COMPLETED
        assert {step.status for step in done.steps} == {StepStatus.DONE}
        assert [(event.event, event.phase) for event in await runtime.logs("release")] == [
            ("phase_start", "preflight"),
            ("phase_complete", "preflight"),
            ("phase_start", "discovery"),
            ("phase_start", "discovery"),
            ("phase_complete", "discovery"),
            ("phase_start", "design"),
            ("phase_complete", "design"),
            ("phase_start", "implementation"),
            ("phase_complete", "implementation"),
            ("phase_start", "audit"),
            ("escalation_triggered", "audit"),
            ("phase_start", "audit"),
            ("phase_complete", "audit"),
        ]


async def test_a_run_goes_on_from_a_checkpoint_and_not_from_one_whose_files_have_changed(root: Path) -> None:
    (root / "design.md").write_text("design\n")
    async with runtime_in(root) as runtime:
        document = checkpoint("first", "design", root / "design.md")
        name = await runtime.persist(document)
        assert await runtime.restore(name) == await runtime.restore("design") == document
        assert await runtime.restore("audit") is None
        begun = await runtime.run(start("second", from_checkpoint=name))
        assert [step.step_id for step in begun.steps] == ["implementation", "audit"]
        assert (await runtime.wait("second", 60)).status is RunStatus.WAITING
        assert (await runtime.abort("second")).status is RunStatus.ABORTED
        assert (await runtime.abort("second")).status is RunStatus.ABORTED

        (root / "design.md").write_text("another design\n")
        with pytest.raises(RuntimeFault, match=r"design\.md") as refused:
            await runtime.run(start("third", from_checkpoint=name))
        assert refused.value.fault is Fault.REFUSED
        with pytest.raises(RuntimeFault, match="no checkpoint") as missing:
            await runtime.run(start("third", from_checkpoint="ckpt_00000000000000000000000000"))
        assert missing.value.fault is Fault.NOT_FOUND


async def test_costs_and_own_events_are_kept_beside_the_standard_ones(root: Path) -> None:
    async with runtime_in(root) as runtime:
        await runtime.run(start("release"))
        await runtime.wait("release", 60)
        own = LoaEvent(event="com.example.seen", timestamp="2020-01-01T00:00:00.000Z", phase="audit", data={"n": [1]})
        await runtime.log("release", own)
        for dollars in (0.1, 0.2, 0.000001):
            cost = Cost(phase="audit", tokens_input=5, tokens_output=2, api_calls=1, estimated_usd=dollars)
            await runtime.record_cost("release", cost)
    async with runtime_in(root) as runtime:
        total = await runtime.total_cost("release")
        assert (total.estimated_usd, total.tokens_input, total.api_calls) == (0.300001, 15, 3)
        assert (await runtime.logs("release"))[0] == own


async def test_an_escalation_of_loas_own_waits_for_a_person_and_comes_back_with_what_was_changed(root: Path) -> None:
    async with runtime_in(root) as runtime:
        info = await runtime.ask(REQUEST)
        name = info.question.question_id
        assert await runtime.response(name, 0) is None
        changes = {"licence": "MIT", "years": [2026], "notes": {"short": True}}
        answer = EscalationResponse(
            responded_at=ANSWERED_AT,
            responder="ada",
            action=ResponseAction.MODIFY,
            message="as discussed",
            modifications=changes,
        )
        await runtime.respond(name, answer)
        assert await runtime.response(name, 0) == answer
