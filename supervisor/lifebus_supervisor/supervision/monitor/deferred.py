"""Facts of an app-server that are left to the hooks for now: both report the same, and one receipt is enough.  Pure."""

from typing import Final

from msgspec import Struct

from lifebus_adapters.app_server.facts import ThreadClosed, ThreadOpened
from lifebus_adapters.shared.telemetry import TurnEnded, TurnStarted

SOURCE: Final = "app_server"
"""The source of facts that an app-server reported."""

SharedFact = ThreadOpened | ThreadClosed | TurnStarted | TurnEnded
"""The facts of an app-server that hooks report too."""

_MAX_DEFERRED: Final = 256


class DeferredFact(Struct, frozen=True):
    """A fact that waits for its hook.

    `mark` identifies it among all of its origin; it came in this `tick`, after so many `starts` of the session.
    """

    fact: SharedFact
    mark: str
    tick: int
    starts: int


def defer(deferred: tuple[DeferredFact, ...], fact: DeferredFact) -> tuple[DeferredFact, ...]:
    """Return the deferred facts with one more; of very many the first is forgotten."""
    return (*deferred, fact)[-_MAX_DEFERRED:]


def is_closing(deferred: tuple[DeferredFact, ...]) -> bool:
    """Whether the end of the thread is among the deferred facts."""
    return any(isinstance(one.fact, ThreadClosed) for one in deferred)
