"""What turns of workers need from their neighbours, named as protocols, and the small values they exchange."""

from typing import Protocol

from msgspec import Struct

from lifebus_contract.jobs import AgentInstruction
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState


class OwnThread(Struct, frozen=True):
    """A thread of the broker's own: the observer at whose app-server it is, and its name there."""

    origin: str
    thread: str


class BegunTurn(Struct, frozen=True):
    """What became of a turn that was to begin; `turn` is its id where it did."""

    outcome: ControlOutcome
    turn: str = ""

    @property
    def state(self) -> ControlState:
        """What became of it, in one word."""
        return self.outcome.state


class AppServerThreads(Protocol):
    """Opens threads at app-servers and has turns there.  Each call ends within its own time."""

    async def open(self, source: str, sandbox: str) -> OwnThread | ControlOutcome:
        """Open a thread at the app-server that has the source session's."""
        ...

    async def begin(self, at: OwnThread, text: str, action_id: str, payload: AgentInstruction) -> BegunTurn:
        """Begin a turn; under the same `action_id` an observer begins one at most."""
        ...

    async def begun(self, at: OwnThread, action_id: str) -> BegunTurn | None:
        """Return what became of an earlier `begin`, None where nobody can tell."""
        ...

    async def is_running(self, at: OwnThread, turn: str) -> bool | None:
        """Return whether a turn runs, as far as its observer knows; None where that did not answer."""
        ...

    async def interrupt(self, at: OwnThread, turn: str | None) -> ControlOutcome:
        """End the turn that runs in a thread; `turn` is the one that is meant where that is known."""
        ...

    async def present(self, origin: str, seconds: float) -> str | None:
        """Return the observer of an app-server that takes orders now: that one, or the one that took its place."""
        ...


class SystemMarks(Protocol):
    """Marks sessions as the broker's own (fulfilled by `SessionMarks`)."""

    async def mark_system(self, session_id: str, at_ms: int) -> None:
        """Record that a session belongs to a worker of the broker; durable before the session is used.

        Raises:
            LifebusError: it cannot be made durable now.
        """
        ...
