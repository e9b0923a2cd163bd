"""Questions and answers for tests, and an inbox over a real ledger."""

from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract.questions import AnswerAction, Modifiable, Question, QuestionAnswer
from lifebus_supervisor.runtime.inbox.inbox import Inbox

AT_MS = 1_790_000_000_000
"""When questions are asked: 2026-09-21T14:13:20Z."""

MODIFIABLE = (
    Modifiable(name="depth", kind="integer", choices=(1, 2, 3)),
    Modifiable(name="branch", kind="text"),
    Modifiable(name="force", kind="truth"),
    Modifiable(name="files", kind="list"),
)


def question(name: str = "q_1", **changes: Any) -> Question:
    """Return a question."""
    fields: dict[str, Any] = {
        "question_id": name,
        "client_id": "alice.flows",
        "run_id": "r1",
        "step_id": "audit",
        "title": "audit is blocked",
        "reason": "the credentials have expired",
        "suggested_actions": ("log in again", "skip the audit"),
        "modifiable": MODIFIABLE,
        "asked_at_ms": AT_MS,
    }
    return Question(**{**fields, **changes})


def answer(action: AnswerAction = AnswerAction.RETRY, **changes: Any) -> QuestionAnswer:
    """Return an answer of Alice's, five seconds after the question."""
    fields: dict[str, Any] = {"action": action, "responder": "alice", "responded_at_ms": AT_MS + 5_000}
    return QuestionAnswer(**{**fields, **changes})


@asynccontextmanager
async def ledger_in(directory: Path) -> AsyncIterator[SqliteLedger]:
    """A ledger that is quick and not safe from a power failure."""
    async with aclosing(await SqliteLedger.open(directory / "ledger.db", durability="relaxed")) as ledger:
        yield ledger


async def inbox_of(ledger: SqliteLedger, clock: Callable[[], int] = lambda: AT_MS) -> Inbox:
    """Return the inbox as a broker that starts now has it."""
    inbox = Inbox(ledger.journal, clock)
    await inbox.open()
    return inbox
