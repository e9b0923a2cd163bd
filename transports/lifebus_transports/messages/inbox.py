"""Bodies of the verbs of the inbox: questions to people, and their answers (docs/inbox.md).  Pure."""

from typing import Annotated

from msgspec import Meta

from lifebus_contract.fields import Count, Document, Identifier, refuse_unprintable
from lifebus_contract.questions import Question, QuestionAnswer, QuestionInfo

AskingOrder = tuple[Count, Identifier]
"""The place of a question among all: when it was asked, in milliseconds since the epoch, and its id."""


class AskQuestion(Document, frozen=True, kw_only=True):
    """`inbox_ask`: ask a person; a question that is there already is not asked twice."""

    question: Question


class QuestionsQuery(Document, frozen=True, kw_only=True, omit_defaults=True):
    """`inbox_list`: questions in the order in which they were asked, behind the place `after`."""

    open_only: bool = True
    after: AskingOrder | None = None
    limit: Annotated[int, Meta(ge=1, le=256)] = 64


class QuestionPage(Document, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to `inbox_list`; `next` is the place to go on behind, null where there are no more."""

    questions: tuple[QuestionInfo, ...] = ()
    next: AskingOrder | None = None


class _OfQuestion(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What names a question."""

    question_id: Identifier

    def __post_init__(self) -> None:
        if not self.question_id.isprintable():
            refuse_unprintable(self)


class ShowQuestion(_OfQuestion, frozen=True, kw_only=True, omit_defaults=True):
    """`inbox_show`: one question, as soon as it is settled, or after `wait_ms` as it is then."""

    wait_ms: Annotated[int, Meta(ge=0, le=30_000)] = 0


class AnswerQuestion(_OfQuestion, frozen=True, kw_only=True):
    """`inbox_answer`: settle a question by a person's answer."""

    answer: QuestionAnswer


class WithdrawQuestion(_OfQuestion, frozen=True, kw_only=True):
    """`inbox_withdraw`: settle a question without an answer, because nobody needs one any more."""
