"""The verbs of the inbox (docs/inbox.md)."""

from typing import Final

import anyio
import msgspec

from lifebus_contract.questions import QuestionInfo
from lifebus_supervisor.api.table import Handlers, Work, durable_handlers
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_transports.messages.inbox import (
    AnswerQuestion,
    AskQuestion,
    QuestionPage,
    QuestionsQuery,
    ShowQuestion,
    WithdrawQuestion,
)

_PAGE_BYTES: Final = 196_608
"""So many bytes of questions stand in one page, or one question."""


class InboxVerbs:
    """Serves the verbs of an inbox."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._settled: dict[str, anyio.Event] = {}
        inbox.listen(self._on_change)

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        served: dict[str, Work] = {
            "inbox_ask": self._ask,
            "inbox_list": self._list,
            "inbox_show": self._show,
            "inbox_answer": self._answer,
            "inbox_withdraw": self._withdraw,
        }
        return durable_handlers(served)

    async def _ask(self, body: AskQuestion) -> QuestionInfo:
        return await self._inbox.ask(body.question)

    async def _list(self, body: QuestionsQuery) -> QuestionPage:
        page: list[QuestionInfo] = []
        size = 0
        for info in self._inbox.questions(open_only=body.open_only):
            place = info.question.asked_at_ms, info.question.question_id
            if body.after is not None and place <= body.after:
                continue
            size += len(msgspec.msgpack.encode(info))
            if page and (len(page) >= body.limit or size > _PAGE_BYTES):
                last = page[-1].question
                return QuestionPage(questions=tuple(page), next=(last.asked_at_ms, last.question_id))
            page.append(info)
        return QuestionPage(questions=tuple(page))

    async def _show(self, body: ShowQuestion) -> QuestionInfo:
        info = self._inbox.require(body.question_id)
        if info.is_open and body.wait_ms:
            settled = self._settled.setdefault(body.question_id, anyio.Event())
            with anyio.move_on_after(body.wait_ms / 1000):
                await settled.wait()
        return self._inbox.require(body.question_id)

    async def _answer(self, body: AnswerQuestion) -> QuestionInfo:
        return await self._inbox.answer(body.question_id, body.answer)

    async def _withdraw(self, body: WithdrawQuestion) -> QuestionInfo:
        return await self._inbox.withdraw(body.question_id)

    def _on_change(self, info: QuestionInfo) -> None:
        if not info.is_open and (settled := self._settled.pop(info.question.question_id, None)):
            settled.set()
