"""Tickets: what a page in a browser shows instead of the token where it cannot set headers."""

import base64
from collections.abc import Callable
from typing import Final

TICKET_S: Final = 30.0
"""How long a ticket may be used, once."""

_MAX_OPEN: Final = 4_096


class Tickets:
    """Tickets that were given out and not used yet; `clock` is monotonic, in seconds."""

    def __init__(self, clock: Callable[[], float], entropy: Callable[[int], bytes]) -> None:
        self._clock = clock
        self._entropy = entropy
        self._open: dict[str, float] = {}

    def give(self) -> str:
        """Return a new ticket; the oldest one goes where too many are open."""
        self._sweep()
        if len(self._open) >= _MAX_OPEN:
            del self._open[next(iter(self._open))]
        ticket = base64.urlsafe_b64encode(self._entropy(32)).rstrip(b"=").decode()
        self._open[ticket] = self._clock() + TICKET_S
        return ticket

    def use(self, ticket: str) -> bool:
        """Whether a ticket is good; it is not any more afterwards."""
        # A dictionary is no leak by time: what is guessed are 256 random bits, hashed with a key of the process.
        until = self._open.pop(ticket, None)
        return until is not None and self._clock() < until

    def _sweep(self) -> None:
        now = self._clock()
        # They were given in the order in which they end.
        while self._open and (first := next(iter(self._open))) and self._open[first] <= now:
            del self._open[first]
