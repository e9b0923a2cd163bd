"""What the engine of runs needs from its neighbours, named as protocols, and the small values they exchange."""

from collections.abc import Callable, Sequence
from typing import Protocol

import anyio
from msgspec import Struct

from lifebus_broker.ports import NewRecord
from lifebus_contract.questions import Question, QuestionAnswer, QuestionInfo
from lifebus_contract.runs import RunInfo
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd
from lifebus_supervisor.runtime.run_records import RunRecord
from lifebus_supervisor.runtime.run_state import RunState


class Progress(Struct, frozen=True, kw_only=True):
    """Where the records of a run are: `number` is the newest one, `records` those behind the number that was named.

    `appended` is False where others had recorded something meanwhile: nothing was written, and the caller decides again
    by the records that it gets.
    """

    number: int
    appended: bool
    records: tuple[RunRecord, ...] = ()


class RunPort(Protocol):
    """Where an executor outside of the broker records what happens to its run; the table fulfils it."""

    async def claim(self, run_id: str, owner: str) -> Progress:
        """Become the one that runs it; returns all of its records."""
        ...

    async def record(self, run_id: str, owner: str, after_number: int, records: Sequence[RunRecord]) -> Progress:
        """Append records behind a number in one atomic write; without records, read what others recorded."""
        ...

    async def wait(self, run_id: str, after_number: int, wait_s: float) -> RunInfo:
        """Return how the run stands once there is more than that, after `wait_s` at the latest."""
        ...


class TryRunner(Protocol):
    """Someone who runs one try of a step."""

    @property
    def is_finishing(self) -> bool:
        """Whether the program of some try has ended and how is not returned yet."""
        ...

    async def run(self, state: RunState, step_id: str, cancelled: anyio.Event) -> ObservedEnd:
        """Run the try that the state says is running, and return how it ended."""
        ...


class Questions(Protocol):
    """The inbox, as runs need it."""

    async def ask(self, question: Question, also: Sequence[NewRecord] = ()) -> QuestionInfo:
        """Make a question durable, with other records in the same append.

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
            LifebusError: there is no such question, it is answered, or nothing was written.
        """
        ...

    def get(self, question_id: str) -> QuestionInfo | None:
        """Return a question as it stands, None where there is none."""
        ...

    def listen(self, listener: Callable[[QuestionInfo], None]) -> None:
        """Have a function called with each question that was asked or settled, once that is durable."""
        ...
