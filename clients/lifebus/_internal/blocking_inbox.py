"""Questions to people for scripts without an event loop."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from anyio.from_thread import BlockingPortal

from lifebus.inbox import QuestionInbox
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.questions import AnswerAction, Question, QuestionInfo
from lifebus_transports.messages.steering import DecidedApproval


class BlockingInbox:
    """`lifebus.inbox.QuestionInbox` without an event loop: its calls block; the methods and errors are the same."""

    def __init__(self, portal: BlockingPortal, inbox: QuestionInbox) -> None:
        self._portal = portal
        self._inbox = inbox

    def ask(self, question: Question) -> QuestionInfo:
        """Ask a person, and return when the question is durable.  A repeated call with the same id asks nobody twice.

        Raises:
            StateConflict: another question has this id.
        """
        return self._portal.call(self._inbox.ask, question)

    def questions(self, *, open_only: bool = True) -> list[QuestionInfo]:
        """Return the questions that wait for an answer; without `open_only`, all that are kept."""
        return self._portal.call(partial(self._inbox.questions, open_only=open_only))

    def show(self, question_id: str) -> QuestionInfo:
        """Return a question.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return self._portal.call(self._inbox.show, question_id)

    def wait(self, question_id: str) -> QuestionInfo:
        """Return a question once it is answered or withdrawn, which may take days.

        Raises:
            InvalidRequest: there is none of this id.
        """
        return self._portal.call(self._inbox.wait, question_id)

    def answer(
        self,
        question_id: str,
        action: AnswerAction | str,
        *,
        message: str = "",
        modifications: Mapping[str, Any] | None = None,
        responder: str | None = None,
    ) -> QuestionInfo:
        """Answer a question as `responder`, by default the name of the user; see `QuestionInbox.answer`.

        Raises:
            StateConflict: it is settled already; the text says by whom, when and how.
            InvalidRequest: no question has this id, or the question does not allow this answer.
        """
        give = partial(self._inbox.answer, message=message, modifications=modifications, responder=responder)
        return self._portal.call(give, question_id, action)

    def withdraw(self, question_id: str) -> QuestionInfo:
        """Withdraw a question whose answer nobody needs any more.

        Raises:
            StateConflict: it was answered already.
        """
        return self._portal.call(self._inbox.withdraw, question_id)

    def decide_approval(
        self,
        approval_id: str,
        decision: ApprovalDecision | str,
        *,
        scope: DecisionScope | str = DecisionScope.TURN,
        responder: str | None = None,
    ) -> DecidedApproval:
        """Decide an approval for which an app-server waits, and return when the app-server has accepted the decision.

        Raises:
            StateConflict: ``approval_settled``; ``session_deleted``.
            InvalidRequest: ``no_approval``.
        """
        decide = partial(self._inbox.decide_approval, scope=scope, responder=responder)
        return self._portal.call(decide, approval_id, decision)
