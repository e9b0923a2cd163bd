"""Questions to a person, and the answers: wire types (docs/inbox.md).

A question is durable, is answered once, and has no time limit unless whoever asks sets one.
"""

from enum import StrEnum
from typing import Annotated, Any, Literal

from msgspec import Meta

from lifebus_contract.fields import Count, Detail, Document, Identifier, Label, Metadata, refuse_unprintable

ValueKind = Literal["text", "integer", "truth", "list", "any"]
"""Of which kind a value is that an answer may change."""


class AnswerAction(StrEnum):
    """What a person decides."""

    PROCEED = "proceed"
    """Go on as if the step had been done."""
    RETRY = "retry"
    """Do the step again, with a fresh series of tries."""
    ABORT = "abort"
    """End the run."""
    MODIFY = "modify"
    """Do the step again with other values."""


class QuestionKind(StrEnum):
    """Why a person is asked."""

    ESCALATION = "escalation"
    """A step says that it is blocked, or its tries are used up."""
    ALERT = "alert"
    """A step cannot be started: somebody has to repair the configuration."""
    APPROVAL = "approval"
    """A step is to begin only when somebody agrees."""
    BUDGET = "budget"
    """A limit of time, tokens or money is about to be exceeded."""


class Modifiable(Document, frozen=True, kw_only=True, omit_defaults=True):
    """One value that an answer may change; with `choices` it must be one of them."""

    name: Identifier
    kind: ValueKind = "text"
    choices: Annotated[tuple[Any, ...], Meta(max_length=64)] = ()
    help: Label | None = None


class Question(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Something that only a person can settle.  Times are milliseconds since the epoch.

    `run_id` and `step_id` name the run and step that wait for it, if one does.  `context` belongs to the asker; it is
    shown and never interpreted.  `actions` are the answers that are allowed.
    """

    question_id: Identifier  # the asker's, unique
    kind: QuestionKind = QuestionKind.ESCALATION
    client_id: Identifier  # who asks
    run_id: Identifier | None = None
    step_id: Identifier | None = None
    title: Label  # in one line
    reason: Detail  # why a person is asked
    context: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty
    suggested_actions: Annotated[tuple[Detail, ...], Meta(max_length=16)] = ()  # shown to the person
    actions: Annotated[tuple[AnswerAction, ...], Meta(min_length=1, max_length=4)] = tuple(AnswerAction)
    modifiable: Annotated[tuple[Modifiable, ...], Meta(max_length=64)] = ()  # what `modify` may change
    asked_at_ms: Count  # milliseconds since 1970

    def __post_init__(self) -> None:
        if not f"{self.question_id}{self.client_id}{self.run_id}{self.step_id}{self.title}".isprintable():
            refuse_unprintable(self)


class QuestionAnswer(Document, frozen=True, kw_only=True, omit_defaults=True):
    """What a person decided; `responder` says who, and `channel` by which means the answer came."""

    action: AnswerAction
    responder: Identifier
    message: Annotated[str, Meta(max_length=8_192)] = ""
    modifications: Metadata = {}  # noqa: RUF012  msgspec makes a new one each time, and leaves it out when empty
    responded_at_ms: Count
    channel: Identifier = "inbox"

    def __post_init__(self) -> None:
        if self.modifications and self.action is not AnswerAction.MODIFY:
            raise ValueError(f"modifications: only the action `modify` has some, not `{self.action.value}`")


class Notification(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A notification of a question on one channel: how often it was tried, when it arrived, or why it did not."""

    channel: Identifier
    tries: Count = 0
    delivered_at_ms: Count | None = None
    fault: Detail | None = None


class QuestionInfo(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A question as the inbox has it.  `withdrawn_at_ms` is set if nobody needs the answer any more."""

    question: Question
    answer: QuestionAnswer | None = None
    withdrawn_at_ms: Count | None = None
    notifications: tuple[Notification, ...] = ()
    reminders: Count = 0

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        return self.answer is None and self.withdrawn_at_ms is None
