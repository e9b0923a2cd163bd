"""What the engine of runs needs from its neighbours, named as protocols, and the small values they exchange."""

from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct

from lifebus_broker.ports import NewRecord
from lifebus_contract import LifebusError
from lifebus_contract.questions import Question, QuestionAnswer, QuestionInfo
from lifebus_supervisor.runtime.run_records import RunRecord

Recorded = Callable[["Progress | LifebusError"], None]
"""Takes what became of records: how the run stands now, or why nothing was written."""


class Progress(Struct, frozen=True, kw_only=True):
    """Where the records of a run are: `number` is the newest one, `records` those behind the number that was named.

    `appended` is False where others had recorded something meanwhile: nothing was written, and the caller decides again
    by the records that it gets.
    """

    number: int
    appended: bool
    records: tuple[RunRecord, ...] = ()


class RunPort(Protocol):
    """Where an executor records what happens to its run: the table in this process, or a broker by its verbs."""

    def record(self, run_id: str, owner: str, after_number: int, records: Sequence[RunRecord], done: Recorded) -> None:
        """Append records behind number `after_number` in one atomic write; call `done` on the event loop afterwards."""
        ...


class Questions(Protocol):
    """The inbox, as runs need it."""

    async def ask(self, question: Question, also: Sequence[NewRecord] = ()) -> QuestionInfo:
        """Make a question durable, with other records in the same append; one that is there stays as it is.

        Raises:
            LifebusError: nothing was written.
        """
        ...

    async def answer(self, question_id: str, answer: QuestionAnswer) -> QuestionInfo:
        """Make an answer durable, once.

        Raises:
            LifebusError: there is no such question, it is settled, or nothing was written.
        """
        ...

    async def withdraw(self, question_id: str) -> QuestionInfo:
        """Take a question back that nobody needs answered any more.

        Raises:
            LifebusError: there is no such question, or nothing was written.
        """
        ...

    def get(self, question_id: str) -> QuestionInfo:
        """Return a question as it stands.

        Raises:
            LifebusError: there is none.
        """
        ...

    def listen(self, listener: Callable[[QuestionInfo], None]) -> None:
        """Have a function called with each question that was answered or withdrawn, once that is durable."""
        ...
