"""What a conversation with Loa's runtime brings to the person at its other end."""

from collections.abc import AsyncIterator
from typing import cast

import anyio
from msgspec import structs

from lifebus.loa.handlers import Handlers
from lifebus.loa.protocol import EscalationEvent, RunRequest
from lifebus.loa.runtime import Runtime
from lifebus_contract.questions import Question, QuestionInfo, QuestionKind
from lifebus_contract.runs import RunInfo, RunStatus, StepInfo, StepStatus

RUN = RunInfo(
    run_id="r-1",
    name="r",
    client_id="flow",
    root="/r",
    owner="broker",
    status=RunStatus.RUNNING,
    started_at_ms=1,
    steps=(StepInfo(step_id="design"),),
)
ASKING = structs.replace(
    RUN,
    status=RunStatus.WAITING,
    question_id="q_budget",
    steps=(StepInfo(step_id="design", status=StepStatus.ASKING, question_id="q_design"),),
)


class OneRun:
    """A runtime with one run, which asks about its budget and about a phase."""

    async def resume(self, run_id: str) -> RunInfo:
        return structs.replace(RUN, run_id=run_id)

    async def follow(self, _: str) -> AsyncIterator[RunInfo]:
        for one in (RUN, ASKING, ASKING, structs.replace(RUN, status=RunStatus.ABORTED)):
            yield one

    async def question(self, question_id: str) -> QuestionInfo:
        about = None if question_id == "q_budget" else "design"
        kind = QuestionKind.BUDGET if about is None else QuestionKind.ESCALATION
        return QuestionInfo(
            question=Question(
                question_id=question_id,
                kind=kind,
                client_id="flow",
                run_id="r-1",
                step_id=about,
                title="t",
                reason="why",
                asked_at_ms=1,
            )
        )


async def test_questions_about_a_run_as_a_whole_are_brought_as_those_of_its_phases_are_and_each_once() -> None:
    brought: list[EscalationEvent] = []

    async def tell(event: EscalationEvent) -> None:
        brought.append(event)

    async with anyio.create_task_group() as group:
        handlers = Handlers(cast("Runtime", OneRun()), group, tell)
        await handlers.handle("resume", RunRequest(run_id="r-1"))
    # Loa knows phases: what is about none of them is about the run.
    assert [(one.escalation_id, one.request.phase, one.run_id) for one in brought] == [
        *(("q_budget", "r-1", "r-1"), ("q_design", "design", "r-1"))
    ]
