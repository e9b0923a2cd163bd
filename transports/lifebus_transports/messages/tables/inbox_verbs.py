"""The verbs of questions to people (docs/inbox.md).  Pure."""

from typing import Final

from lifebus_contract.questions import QuestionInfo
from lifebus_transports.messages.inbox import (
    AnswerQuestion,
    AskQuestion,
    QuestionPage,
    QuestionsQuery,
    ShowQuestion,
    WithdrawQuestion,
)
from lifebus_transports.messages.verb_types import QUESTIONS, Access, Verb

TABLE: Final = (
    Verb(
        name="inbox_ask",
        summary="Asks a person, durably and once.",
        body=AskQuestion,
        answer=QuestionInfo,
        pool=QUESTIONS,
    ),
    Verb(
        name="inbox_list",
        summary="Returns a page of the questions to people.",
        body=QuestionsQuery,
        answer=QuestionPage,
        pool=QUESTIONS,
    ),
    Verb(
        name="inbox_show",
        summary="Returns a question, as soon as it is settled where that is wanted.",
        body=ShowQuestion,
        answer=QuestionInfo,
        pool=QUESTIONS,
        wait_key="wait_ms",
    ),
    Verb(
        name="inbox_answer",
        summary="Settles a question by a person's answer.",
        body=AnswerQuestion,
        answer=QuestionInfo,
        access=Access.OPERATOR,
        pool=QUESTIONS,
    ),
    Verb(
        name="inbox_withdraw",
        summary="Settles a question without an answer.",
        body=WithdrawQuestion,
        answer=QuestionInfo,
        access=Access.OPERATOR,
        pool=QUESTIONS,
    ),
)
"""Their part of the table of verbs."""
