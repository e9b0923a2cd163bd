"""Actions over any journal, with real transcripts, a queue that takes every job, and an app-server that is made up."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
from anyio.abc import TaskGroup

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.ports import Journal
from lifebus_contract import BrokerBusy, LifebusError, StateConflict
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope
from lifebus_contract.jobs import Enqueued, NewJob
from lifebus_supervisor.actions.actions import Actions
from lifebus_supervisor.actions.keys import KEEP, ActionKeys
from lifebus_supervisor.actions.performing import Performers
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from support.extensions.queue import MadeUpQueue
from support.transcripts.boxes import Box, box_over

DONE = ControlOutcome(ControlState.DONE)
SCOPE = ActionScope(project_id="p1", source_session_id="s1", turn_id="t1")


class AppServer:
    """Approvals that wait, and turns that take everything; what was said to it is in `decided` and `steers`.

    `answer` is what it answers, `gate` holds it back until it is set.
    """

    def __init__(self, *approvals: PendingApproval) -> None:
        self.approvals = {one.approval_id: one for one in approvals}
        self.decided: list[tuple[str, str, str]] = []
        self.steers: list[tuple[str, str, str]] = []
        self.known: dict[str, ControlOutcome] = {}
        self.searched: list[str | None] = []
        self.settled: set[str] = set()
        self.answer = DONE
        self.fault: Exception | None = None
        self.gate = anyio.Event()
        self.gate.set()

    async def approval(self, approval_id: str) -> PendingApproval | None:
        return self.approvals.get(approval_id)

    def is_settled(self, approval_id: str) -> bool:
        return approval_id in self.settled

    async def decide(
        self, approval: PendingApproval, decision: ApprovalDecision, scope: DecisionScope, by: str
    ) -> ControlOutcome:
        self.decided.append((approval.approval_id, decision.value, scope.value))
        await self.gate.wait()
        if self.answer == DONE:
            self.approvals.pop(approval.approval_id, None)
        return self._answer()

    async def steer(  # noqa: PLR0917  as it is asked for
        self,
        thread_id: str,
        turn_id: str,
        text: str,
        action_id: str | None,
        by: str,
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> ControlOutcome:
        if before is not None:
            await before("observer")
        self.steers.append((thread_id, turn_id, text))
        await self.gate.wait()
        return self._answer()

    async def steered(self, action_id: str, asked: str | None) -> ControlOutcome | None:
        self.searched.append(asked)
        return self.known.get(action_id)

    def _answer(self) -> ControlOutcome:
        if self.fault is not None:
            raise self.fault
        return self.answer


class Queue(MadeUpQueue):
    """A queue whose jobs have ids: the same id is the same job; `fault` is what every call is refused with."""

    def __init__(self) -> None:
        super().__init__()
        self.fault: LifebusError | None = None
        self.forgotten: set[str] = set()

    async def enqueue(self, job: NewJob) -> Enqueued:
        if self.fault is not None:
            raise self.fault
        if job.job_id in self.forgotten:
            raise StateConflict("it was done and is forgotten", code="job_exists")
        before = len(self.queued)
        known = next((one for one in self.queued if one.job_id is not None and one.job_id == job.job_id), None)
        answer = await super().enqueue(job)
        if known is not None:
            del self.queued[before:]
        return answer


class ActionBox:
    """Actions and what they act on."""

    def __init__(self, transcripts: Box, journal: Journal, tasks: TaskGroup, keep: int = KEEP) -> None:
        self.transcripts, self.queue = transcripts, Queue()
        self.app_server = AppServer(approval("a1"))
        self.journal = journal
        self.actions = Actions(
            ActionKeys(journal, transcripts.clock, keep),
            Performers(
                transcripts=transcripts.store, sessions=transcripts.marks, jobs=self.queue, control=self.app_server
            ),
            tasks,
        )

    async def ask(
        self, action_type: str, payload: dict[str, Any], scope: ActionScope = SCOPE, **more: Any
    ) -> ActionOutcome:
        request = ActionRequest(action_type=action_type, payload=payload, **more)
        return await self.actions.execute(request, scope, requested_by="tests")

    async def steer(self, text: str = "go on", key: str | None = "k", **more: Any) -> ActionOutcome:
        return await self.ask("turn.steer.create", steer(text), idempotency_key=key, **more)


def approval(approval_id: str, thread: str = "s1", turn: str | None = "t1") -> PendingApproval:
    return PendingApproval(approval_id=approval_id, thread_id=thread, turn_id=turn)


def steer(text: str = "go on") -> dict[str, Any]:
    return {"sessionId": "s1", "turnId": "t1", "input": text}


def upsert(content: str = "text", message_id: str = "m1", **more: Any) -> dict[str, Any]:
    entry = {"messageId": message_id, "turnId": "t1", "role": "system", "type": "note", "status": "complete"}
    return {"sessionId": "s1", "entry": {**entry, "content": content, **more}}


def enqueue(**more: Any) -> dict[str, Any]:
    return {"type": "command", "projectId": "p1", "payload": {"n": 1}, **more}


def code_of(outcome: ActionOutcome) -> object:
    return (outcome.details or {}).get("code")


@asynccontextmanager
async def action_box(journal: Journal, keep: int = KEEP, epoch: str = "e1") -> AsyncGenerator[ActionBox]:
    """Yield actions over a journal; leaving it is the death of their broker."""
    transcripts = await box_over(journal, "s1", "s2", epoch=epoch)
    async with anyio.create_task_group() as tasks:
        try:
            yield ActionBox(transcripts, journal, tasks, keep)
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def fresh_box(keep: int = KEEP) -> AsyncGenerator[ActionBox]:
    ledger = await open_unkept()
    try:
        async with action_box(ledger.journal, keep) as box:
            yield box
    finally:
        await ledger.aclose()


FULL = BrokerBusy("the disk is full", code="disk_full")
