"""What the journal keeps of a question, and the state that follows from it.  Pure.

Each question has a stream of its own.  Its first record is `QuestionAsked`, or `WholeQuestion` where older ones were
dropped.  An *occasion* is a moment at which people are notified: 0 is the question itself, each reminder is the next
number, and so is the end of the question.
"""

from collections.abc import Iterable
from enum import StrEnum
from typing import Final

import msgspec
from msgspec import Struct, structs

from lifebus_broker.ports import Record
from lifebus_contract.questions import Notification, Question, QuestionAnswer, QuestionInfo

NONE_DELIVERED: Final = -1
"""Stands for the newest delivered occasion where there was none."""


class Occasion(StrEnum):
    """Why people are notified."""

    ASKED = "asked"
    REMINDED = "reminded"
    ANSWERED = "answered"
    WITHDRAWN = "withdrawn"

    @property
    def is_over(self) -> bool:
        """Whether it is the last one of its question."""
        return self in (Occasion.ANSWERED, Occasion.WITHDRAWN)


class ChannelState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one channel has done for a question.

    `delivered` is the newest occasion that it has delivered.  `tries` counts all tries, `failures` those in a row that
    failed; after one the next is made at `retry_at_ms`, and `fault` says why it failed.
    """

    delivered: int = NONE_DELIVERED
    delivered_at_ms: int | None = None
    tries: int = 0
    failures: int = 0
    retry_at_ms: int = 0
    fault: str | None = None


class QuestionState(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a question stands; times are milliseconds since the epoch."""

    question: Question
    answer: QuestionAnswer | None = None
    withdrawn_at_ms: int | None = None
    occasion: int = 0
    occasion_at_ms: int = 0
    channels: dict[str, ChannelState] = {}

    @property
    def kind(self) -> Occasion:
        """What the present occasion is."""
        if self.answer is not None:
            return Occasion.ANSWERED
        if self.withdrawn_at_ms is not None:
            return Occasion.WITHDRAWN
        return Occasion.REMINDED if self.occasion else Occasion.ASKED

    @property
    def is_open(self) -> bool:
        """Whether it waits for an answer."""
        return not self.kind.is_over

    def info(self) -> QuestionInfo:
        """Return the question as everybody sees it."""
        return QuestionInfo(
            question=self.question,
            answer=self.answer,
            withdrawn_at_ms=self.withdrawn_at_ms,
            notifications=tuple(
                Notification(channel=name, tries=one.tries, delivered_at_ms=one.delivered_at_ms, fault=one.fault)
                for name, one in self.channels.items()
            ),
            reminders=self.occasion if self.is_open else self.occasion - 1,
        )


class QuestionAsked(Struct, frozen=True, tag="asked", tag_field="record"):
    """A question was asked; `at_ms` is the broker's clock, which the asker's may differ from."""

    question: Question
    at_ms: int


class QuestionAnswered(Struct, frozen=True, tag="answered", tag_field="record"):
    """A person answered it; `at_ms` is the broker's clock."""

    answer: QuestionAnswer
    at_ms: int


class QuestionWithdrawn(Struct, frozen=True, tag="withdrawn", tag_field="record"):
    """Nobody needs the answer any more."""

    at_ms: int


class QuestionReminded(Struct, frozen=True, tag="reminded", tag_field="record"):
    """People are to be reminded."""

    at_ms: int


class NotificationDelivered(Struct, frozen=True, tag="delivered", tag_field="record"):
    """A channel has delivered an occasion."""

    channel: str
    occasion: int
    at_ms: int


class NotificationFailed(Struct, frozen=True, tag="not_delivered", tag_field="record"):
    """A try of a channel failed."""

    channel: str
    retry_at_ms: int
    fault: str


class WholeQuestion(Struct, frozen=True, tag="whole", tag_field="record"):
    """The whole state, whatever was before."""

    state: QuestionState


InboxRecord = (
    QuestionAsked
    | QuestionAnswered
    | QuestionWithdrawn
    | QuestionReminded
    | NotificationDelivered
    | NotificationFailed
    | WholeQuestion
)
"""What the body of a record holds, as JSON."""

_DECODER: Final = msgspec.json.Decoder(InboxRecord)


def encode_record(record: InboxRecord) -> bytes:
    """Return the body of a record."""
    return msgspec.json.encode(record)


def reduce_question(records: Iterable[Record]) -> QuestionState | None:
    """Return the state after the records of a question, None where there are none.

    Raises:
        msgspec.DecodeError: a record cannot be read, or does not belong to a question.
    """
    state: QuestionState | None = None
    for record in records:
        state = apply(state, _DECODER.decode(record.body))
    return state


def apply(state: QuestionState | None, record: InboxRecord) -> QuestionState | None:
    """Return the state after one record; what comes before the question itself has no meaning."""
    if isinstance(record, WholeQuestion):
        return record.state
    if isinstance(record, QuestionAsked):
        return state or QuestionState(question=record.question, occasion_at_ms=record.at_ms)
    if state is None:
        return None
    if isinstance(record, NotificationDelivered | NotificationFailed):
        before = state.channels.get(record.channel, ChannelState())
        return structs.replace(state, channels={**state.channels, record.channel: _tried(before, record)})
    # Whatever settles a question comes once: the first one stays.
    return state if not state.is_open else _next_occasion(state, record)


def _next_occasion(
    state: QuestionState, record: QuestionAnswered | QuestionWithdrawn | QuestionReminded
) -> QuestionState:
    number = state.occasion + 1
    if isinstance(record, QuestionAnswered):
        return structs.replace(state, answer=record.answer, occasion=number, occasion_at_ms=record.at_ms)
    if isinstance(record, QuestionWithdrawn):
        return structs.replace(state, withdrawn_at_ms=record.at_ms, occasion=number, occasion_at_ms=record.at_ms)
    return structs.replace(state, occasion=number, occasion_at_ms=record.at_ms)


def _tried(before: ChannelState, record: NotificationDelivered | NotificationFailed) -> ChannelState:
    tries = before.tries + 1
    if isinstance(record, NotificationDelivered):
        newest = max(before.delivered, record.occasion)
        return ChannelState(delivered=newest, delivered_at_ms=record.at_ms, tries=tries)
    return structs.replace(
        before, tries=tries, failures=before.failures + 1, retry_at_ms=record.retry_at_ms, fault=record.fault
    )
