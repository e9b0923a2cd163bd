"""Questions to people, and their answers (docs/inbox.md); approvals, which people decide (docs/steering.md)."""

import time
from collections.abc import Mapping
from getpass import getuser
from typing import Any

from lifebus._internal.connection import Connection
from lifebus._internal.long_wait import WAIT_MS, ask_until
from lifebus_contract import validate
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.questions import AnswerAction, Question, QuestionAnswer, QuestionInfo
from lifebus_transports.messages.inbox import (
    AnswerQuestion,
    AskQuestion,
    QuestionPage,
    QuestionsQuery,
    ShowQuestion,
    WithdrawQuestion,
)
from lifebus_transports.messages.steering import DecidedApproval, PersonDecision
from lifebus_transports.messages.verbs import VERBS


class QuestionInbox:
    """The questions of a broker; every call but `wait` is bounded by `timeout` seconds."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def ask(self, question: Question) -> QuestionInfo:
        """Ask a person, and return when the question is durable.  A repeated call with the same id asks nobody twice.

        Raises:
            StateConflict: another question has this id.
            InvalidRequest: it is too large.
            LifebusError: it was refused, or no answer came.
        """
        return await self._ask("inbox_ask", AskQuestion(question=question))

    async def questions(self, *, open_only: bool = True) -> list[QuestionInfo]:
        """Return the questions in the order in which they were asked.

        By default these are the questions that wait for an answer; without `open_only` they are all that are kept.
        """
        found: list[QuestionInfo] = []
        after = None
        while True:
            body = QuestionsQuery(open_only=open_only, after=after)
            page = await self._connection.ask("inbox_list", body, QuestionPage, timeout=self._timeout)
            found += page.questions
            after = page.next
            if after is None:
                return found

    async def show(self, question_id: str) -> QuestionInfo:
        """Return a question.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return await self._ask("inbox_show", ShowQuestion(question_id=question_id))

    async def wait(self, question_id: str) -> QuestionInfo:
        """Return a question once it is answered or withdrawn.  This may take days, over restarts of the broker.

        Raises:
            InvalidRequest: there is none of this id.
        """
        body = ShowQuestion(question_id=question_id, wait_ms=WAIT_MS)
        return await ask_until(
            lambda: self._ask("inbox_show", body, more=WAIT_MS / 1_000), lambda info: not info.is_open
        )

    async def answer(
        self,
        question_id: str,
        action: AnswerAction | str,
        *,
        message: str = "",
        modifications: Mapping[str, Any] | None = None,
        responder: str | None = None,
        channel: str = "inbox",
    ) -> QuestionInfo:
        """Answer a question, and return it once the answer is durable.

        `responder` says who answers (default: the name of the user).  `action` is one that the question allows, such as
        ``proceed``.  `message` is for whoever asked, `modifications` are values that the answer changes, and `channel`
        says by which means the answer came.

        Raises:
            StateConflict: it is settled already; the text says by whom, when and how.
            InvalidRequest: no question has this id, or the question does not allow this answer.
            LifebusError: it was refused, or no answer came; a second call would be another answer.
        """
        plain = {
            "action": action,
            "responder": responder or _user(),
            "message": message,
            "modifications": dict(modifications or {}),
            "responded_at_ms": time.time_ns() // 1_000_000,
            "channel": channel,
        }
        return await self.give(question_id, validate(plain, QuestionAnswer))

    async def give(self, question_id: str, answer: QuestionAnswer) -> QuestionInfo:
        """Answer a question with a complete answer.  Exactly the same answer may be given again.

        Raises:
            LifebusError: as for `answer`.
        """
        return await self._ask("inbox_answer", AnswerQuestion(question_id=question_id, answer=answer))

    async def withdraw(self, question_id: str) -> QuestionInfo:
        """Withdraw a question whose answer nobody needs any more.

        Raises:
            StateConflict: it was answered already.
            InvalidRequest: there is none of this id.
        """
        return await self._ask("inbox_withdraw", WithdrawQuestion(question_id=question_id))

    async def decide_approval(
        self,
        approval_id: str,
        decision: ApprovalDecision | str,
        *,
        scope: DecisionScope | str = DecisionScope.TURN,
        responder: str | None = None,
    ) -> DecidedApproval:
        """Decide an approval for which an app-server waits, and return when the app-server has accepted the decision.

        `decision` is ``accept``, ``decline`` or `cancel`.  `scope` says how long it holds: for the turn or for the
        session.  `responder` says who decides (default: the name of the user).

        `approval_id` is ``<turnId>:<the request's id as JSON>`` (docs/steering.md, "Approvals").

        Raises:
            StateConflict: ``approval_settled``: somebody decided before, or the turn is over; ``session_deleted``.
            InvalidRequest: ``no_approval``: no app-server that is there waits for it.
            TransportError: ``app_server_unreachable``: nothing was sent.
            DeadlineExceeded: ``outcome_unknown``: it was sent, and the app-server has not said so; or no answer came.
            LifebusError: it was refused.
        """
        plain = {
            "approval_id": approval_id,
            "decision": decision,
            "scope": scope,
            "responder": responder or _user(),
        }
        timeout = self._timeout * VERBS["approval_decide"].timeout_factor
        body = validate(plain, PersonDecision)
        return await self._connection.ask("approval_decide", body, DecidedApproval, timeout=timeout)

    async def _ask(
        self,
        verb: str,
        body: AskQuestion | ShowQuestion | AnswerQuestion | WithdrawQuestion,
        more: float = 0.0,
    ) -> QuestionInfo:
        # What waits is asked of one broker: when that one dies, it is noticed at once and the next one is asked.
        return await self._connection.ask(verb, body, QuestionInfo, timeout=self._timeout + more, lasting=more > 0)


def _user() -> str:
    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name, in a container for instance
        return "unknown"
