"""The routes of questions to people: those that wait, and a person's answer (docs/inbox.md)."""

import time
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from lifebus_contract import LifebusError
from lifebus_contract.fields import MAX_INTEGER, Identifier
from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo, QuestionKind, ValueKind
from lifebus_transports.http.operations.errors import ErrorBody, HttpRefusal, refuse
from lifebus_transports.http.operations.operation import OK, Operation, RouteReply, RouteRequest, Served
from lifebus_transports.http.ports import OperatorPeer
from lifebus_transports.messages.inbox import AnswerQuestion, AskingOrder, QuestionPage, QuestionsQuery

_CHANNEL = "gateway"


class QuestionPlace(Struct, frozen=True, kw_only=True, rename="camel"):
    """A question."""

    question_id: Identifier


class InboxQuery(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """Which questions: those that wait, with `all` settled ones too; `after` is the `next` of the page before."""

    all: bool = False
    after: Annotated[str, Meta(max_length=300, pattern=r"^[0-9]{1,16}:.")] | None = None
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class ModifiableItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A value that an answer may change; with `choices` it must be one of them."""

    name: str
    kind: ValueKind
    choices: tuple[Any, ...]
    help: str | None


class AnswerItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """What a person decided, who that was, and by which way it came; the time is in milliseconds since 1970."""

    action: AnswerAction
    responder: str
    channel: str
    message: str
    responded_at_ms: int


class QuestionItem(Struct, frozen=True, kw_only=True, rename="camel"):
    """A question as the inbox has it; times are in milliseconds since 1970.

    `runId` and `stepId` name the step that waits, where a flow asks.  `actions` are the answers that are allowed.
    """

    question_id: str
    kind: QuestionKind
    client_id: str
    run_id: str | None
    step_id: str | None
    title: str
    reason: str
    context: dict[str, Any]
    suggested_actions: tuple[str, ...]
    actions: tuple[AnswerAction, ...]
    modifiable: tuple[ModifiableItem, ...]
    asked_at_ms: int
    answer: AnswerItem | None
    withdrawn_at_ms: int | None


class QuestionsAnswer(Struct, frozen=True, kw_only=True, rename="camel"):
    """Questions in the order in which they were asked; `next` leads to those behind them."""

    status: Literal["ok"] = OK
    data: tuple[QuestionItem, ...]
    next: str | None


class AnswerBody(Struct, frozen=True, kw_only=True, rename="camel", forbid_unknown_fields=True):
    """How a person answers: one of the question's `actions`; `modifications` with `modify` alone."""

    action: AnswerAction
    responder: Identifier = _CHANNEL
    message: Annotated[str, Meta(max_length=8_192)] = ""
    modifications: dict[str, Any] = {}


class AnsweredQuestion(Struct, frozen=True, kw_only=True, rename="camel"):
    """The question with its answer, which is durable."""

    status: Literal["ok"] = OK
    question: QuestionItem


class QuestionNotFound(Struct, frozen=True, kw_only=True, rename="camel"):
    """There is no such question."""

    status: Literal["not_found"] = "not_found"
    code: Literal["no_question"] = "no_question"
    question_id: str
    message: str


OPERATIONS = (
    Operation(
        name="questions",
        method="GET",
        path="/api/questions",
        summary="Lists the questions that wait for a person.",
        tag="questions",
        query=InboxQuery,
        answers={200: QuestionsAnswer},
    ),
    Operation(
        name="answerQuestion",
        method="POST",
        path="/api/questions/{questionId}/answer",
        summary="Answers a question; what waits for it goes on.",
        tag="questions",
        place=QuestionPlace,
        body=AnswerBody,
        answers={200: AnsweredQuestion, 404: QuestionNotFound, 409: ErrorBody},
    ),
)


def served() -> Served:
    """Return what serves each operation."""
    return {"questions": _list, "answerQuestion": _answer}


async def _list(asked: RouteRequest) -> QuestionsAnswer:
    query: InboxQuery = asked.query
    wanted = QuestionsQuery(open_only=not query.all, after=_place_of(query.after), limit=query.limit)
    page: QuestionPage = await asked.calls.call(asked.peer, "inbox_list", wanted)
    following = None if page.next is None else f"{page.next[0]}:{page.next[1]}"
    return QuestionsAnswer(data=tuple(map(_item, page.questions)), next=following)


async def _answer(asked: RouteRequest) -> AnsweredQuestion:
    question_id: str = asked.place.question_id
    body: AnswerBody = asked.body
    try:
        answer = QuestionAnswer(
            action=body.action,
            responder=body.responder,
            message=body.message,
            modifications=body.modifications,
            responded_at_ms=time.time_ns() // 1_000_000,
            channel=_CHANNEL,
        )
        wanted = AnswerQuestion(question_id=question_id, answer=answer)
    except ValueError as fault:
        raise HttpRefusal(refuse(400, "invalid_request", "the answer does not fit", (str(fault)[:512],))) from None
    try:
        # The token is the proof that the caller may answer what the broker's user may.
        info: QuestionInfo = await asked.calls.call(OperatorPeer(), "inbox_answer", wanted)
    except LifebusError as fault:
        if fault.code != "no_question":
            raise
        missing = QuestionNotFound(question_id=question_id, message=fault.detail)
        raise HttpRefusal(RouteReply(404, missing)) from None
    return AnsweredQuestion(question=_item(info))


def _place_of(text: str | None) -> AskingOrder | None:
    """Return the place that a page ended with.

    Raises:
        HttpRefusal: it is none.
    """
    if text is None:
        return None
    number, _, question_id = text.partition(":")
    if int(number) > MAX_INTEGER:
        raise HttpRefusal(refuse(400, "invalid_request", "`after` is the `next` of a page"))
    return int(number), question_id


def _item(info: QuestionInfo) -> QuestionItem:
    asked, answer = info.question, info.answer
    return QuestionItem(
        question_id=asked.question_id,
        kind=asked.kind,
        client_id=asked.client_id,
        run_id=asked.run_id,
        step_id=asked.step_id,
        title=asked.title,
        reason=asked.reason,
        context=asked.context,
        suggested_actions=asked.suggested_actions,
        actions=asked.actions,
        modifiable=tuple(
            ModifiableItem(name=one.name, kind=one.kind, choices=one.choices, help=one.help) for one in asked.modifiable
        ),
        asked_at_ms=asked.asked_at_ms,
        answer=None
        if answer is None
        else AnswerItem(
            action=answer.action,
            responder=answer.responder,
            channel=answer.channel,
            message=answer.message,
            responded_at_ms=answer.responded_at_ms,
        ),
        withdrawn_at_ms=info.withdrawn_at_ms,
    )
