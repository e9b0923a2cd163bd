"""Actions in a process that is killed: argv are its directory, the first key and the number of keys.

Everything outside is written line by line into the file `effects` before it is answered, and each outcome into the file
`told`.  An approval is pending until it stands among the effects; a job that stands there is the same job.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import anyio
import anyio.lowlevel

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.extensions import ActionRequest
from lifebus_contract.jobs import Enqueued, NewJob
from lifebus_supervisor.actions.actions import Actions
from lifebus_supervisor.actions.keys import ActionKeys
from lifebus_supervisor.actions.performing import Performers
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from support.actions.boxes import DONE, SCOPE, approval, enqueue, steer, upsert
from support.extensions.queue import MadeUpQueue
from support.transcripts.boxes import box_over

KINDS = ("steer", "decide", "enqueue", "upsert")


class Outside:
    """What is outside of the broker: an app-server and a queue, as two files say them."""

    def __init__(self, directory: Path) -> None:
        self._effects, self._told = directory / "effects", directory / "told"
        self._queue = MadeUpQueue()

    def lines(self) -> list[str]:
        return self._effects.read_text().splitlines() if self._effects.exists() else []

    def add(self, line: str) -> None:
        _append(self._effects, line)

    def tell(self, line: str) -> None:
        _append(self._told, line)

    async def approval(self, approval_id: str) -> PendingApproval | None:
        return None if f"decide {approval_id}" in self.lines() else approval(approval_id)

    async def decide(
        self, approval: PendingApproval, decision: ApprovalDecision, scope: DecisionScope, by: str
    ) -> ControlOutcome:
        await anyio.lowlevel.checkpoint()
        if f"decide {approval.approval_id}" in self.lines():
            return ControlOutcome(ControlState.LATE)
        self.add(f"decide {approval.approval_id}")
        await anyio.lowlevel.checkpoint()
        return DONE

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
            await before("outside")
        await anyio.lowlevel.checkpoint()
        self.add(f"steer {text}")
        await anyio.lowlevel.checkpoint()
        return DONE

    def is_settled(self, approval_id: str) -> bool:
        return False

    async def steered(self, action_id: str, asked: str | None) -> ControlOutcome | None:
        return None

    async def enqueue(self, job: NewJob) -> Enqueued:
        if f"enqueue {job.payload['name']}" not in self.lines():
            self.add(f"enqueue {job.payload['name']}")
        return await self._queue.enqueue(job)


def _append(path: Path, line: str) -> None:
    """Append a line by one call of the system: whole, or not at all."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


async def main(directory: Path, first: int, count: int) -> None:
    """Ask for every action of these keys, several at once, each twice."""
    outside = Outside(directory)
    async with aclosing(await SqliteLedger.open(directory / "ledger.db")) as ledger:
        box = await box_over(ledger.journal, "s1")
        async with anyio.create_task_group() as tasks:
            performers = Performers(transcripts=box.store, sessions=box.marks, jobs=outside, control=outside)
            actions = Actions(ActionKeys(ledger.journal, box.clock), performers, tasks)

            async def ask(number: int) -> None:
                for kind in KINDS:
                    name = f"{kind}-{number}"
                    outcome = await actions.execute(request(kind, name), SCOPE, requested_by="tests")
                    code = (outcome.details or {}).get("code", "")
                    outside.tell(f"{kind} {name} {outcome.status.value} {code}")

            for number in range(first, first + count):
                await asyncio.gather(ask(number), ask(number), ask(max(0, number - 3)))


def request(kind: str, name: str) -> ActionRequest:
    """Return the request of a key."""
    types = {
        "steer": ("turn.steer.create", steer(name)),
        "decide": ("approval.decide", {"approvalId": name, "decision": "accept"}),
        "enqueue": ("queue.enqueue", enqueue(payload={"name": name})),
        "upsert": ("transcript.upsert", upsert(name, message_id=name)),
    }
    action_type, payload = types[kind]
    return ActionRequest(action_type=action_type, payload=payload, idempotency_key=name)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])))
