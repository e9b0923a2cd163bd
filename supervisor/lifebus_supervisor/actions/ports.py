"""What actions need from their neighbours, named as protocols, and the small values they exchange."""

from collections.abc import Awaitable, Callable, Sequence
from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from lifebus_broker.ports import NewRecord
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.transcripts import TranscriptEntry


class EntryWriter(Protocol):
    """The transcripts, as far as actions write them (fulfilled by `TranscriptStore`)."""

    async def upsert(
        self, session_id: str, entry: TranscriptEntry, beside: Sequence[NewRecord] = ()
    ) -> TranscriptEntry:
        """Merge an entry, and have `beside` recorded in the same append, also where the entry changes nothing.

        Raises:
            LifebusError: it was refused, and nothing was recorded.
        """
        ...


class PendingApproval(Struct, frozen=True, kw_only=True):
    """An approval that an app-server waits for.  `approval_id` is never used for another one."""

    approval_id: str
    thread_id: str
    turn_id: str | None


class ControlState(StrEnum):
    """What became of something that an app-server was to be told."""

    DONE = "done"
    LATE = "late"
    """A person or the server has settled it before; nothing was sent."""
    REFUSED = "refused"
    """The server answered with an error."""
    UNREACHABLE = "unreachable"
    """Nothing was sent: no proxy of that thread is there."""
    UNKNOWN = "unknown"
    """It was sent, and nobody saw an answer."""


class ControlOutcome(Struct, frozen=True):
    """What became of it; `message` is what the server said, or why nothing was sent."""

    state: ControlState
    message: str = ""


class AppServerControl(Protocol):
    """Steers app-servers.  Each call ends within its own time, with an outcome and no exception for what may happen.

    `decide` is safe to repeat: an approval is answered at most once, whoever asks.  `steer` is not.
    """

    async def approval(self, approval_id: str) -> PendingApproval | None:
        """Return an approval that is pending now, None where it is not, or never was.

        Raises:
            LifebusError: nobody can tell now.
        """
        ...

    def is_settled(self, approval_id: str) -> bool:
        """Whether `approval` found that it was asked, and is settled."""
        ...

    async def decide(
        self, approval: PendingApproval, decision: ApprovalDecision, scope: DecisionScope, by: str
    ) -> ControlOutcome:
        """Answer an approval for somebody, unless somebody else has."""
        ...

    async def steer(  # noqa: PLR0917  whom, what, under which name
        self,
        thread_id: str,
        turn_id: str,
        text: str,
        action_id: str | None,
        by: str,
        before: Callable[[str], Awaitable[None]] | None = None,
    ) -> ControlOutcome:
        """Tell a turn that runs something more, for somebody; `action_id` is under what `steered` finds it again.

        `before` is awaited with whom it is about to be given to: what it records is what `steered` has to be asked
        with.  Where it raises, nothing is given.
        """
        ...

    async def steered(self, action_id: str, asked: str | None) -> ControlOutcome | None:
        """Return what became of an earlier `steer` that `asked` had last: `UNREACHABLE` where it was never sent.

        None where nobody can tell any more whether it was.
        """
        ...
