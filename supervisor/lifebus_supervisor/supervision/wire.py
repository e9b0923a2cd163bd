"""What an app-server told of one session that is not on record yet."""

from dataclasses import dataclass, field
from typing import Final

from msgspec import Struct

from lifebus_adapters.app_server import ThreadClosed, ThreadOpened
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted

SOURCE: Final = "app_server"
"""The source of facts that an app-server told."""

Shared = ThreadOpened | ThreadClosed | TurnStarted | TurnEnded
"""The facts that hooks tell too."""

_MOST_WAITING: Final = 256


class Waiting(Struct, frozen=True):
    """A fact that is left to the hooks for now.

    `mark` says which one it is of all that were told; it came in this `tick`, after so many `starts` of the session.
    """

    fact: Shared
    mark: str
    tick: int
    starts: int


@dataclass(slots=True, kw_only=True)
class Wire:
    """The line to one session's app-server.

    `base` counts the compactions that were on record when it was first heard, `proofs` those that it has told of since,
    by their keys.  `waiting` holds what is left to the hooks, in order.
    """

    base: int
    proofs: dict[str, Compacted] = field(default_factory=dict[str, Compacted])
    waiting: list[Waiting] = field(default_factory=list[Waiting])

    def join(self, compactions: int) -> None:
        """Note that the thread is opened anew: compactions that were told elsewhere meanwhile are none of ours."""
        self.base = max(self.base, compactions - len(self.proofs))

    def untold(self, compactions: int) -> int:
        """How many compactions it told of that are not among those on record."""
        return len(self.proofs) - (compactions - self.base)

    def wait(self, waiting: Waiting) -> None:
        """Leave a fact to the hooks; of very many the first is forgotten."""
        self.waiting = [*self.waiting, waiting][-_MOST_WAITING:]
