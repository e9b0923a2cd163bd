"""What the API needs of an adaptor: who calls, and where the one answer goes."""

from collections.abc import Hashable
from typing import Protocol

from lifebus_contract import LifebusError


class Peer(Protocol):
    """The other end of one connection."""

    @property
    def identity(self) -> Hashable:
        """The same for every call of a connection, and for no other connection."""
        ...

    @property
    def is_operator(self) -> bool:
        """Whether it may change what is kept for everybody (`Access.OPERATOR`)."""
        ...

    def send(self, number: int, verb: str, body: object) -> bool:
        """Send a message that answers nothing; False when the peer is gone or does not read.

        Whatever answers the message names it by `number` (`Call.in_reply_to`).
        """
        ...


class Call(Protocol):
    """One call: `answer` or `refuse` is called once, at once or later, and never for a verb without an answer."""

    @property
    def peer(self) -> Peer:
        """Who calls."""
        ...

    @property
    def in_reply_to(self) -> int:
        """The number of the message that this call answers; of use to `response` alone."""
        ...

    def answer(self, body: object) -> object:
        """Send the answer."""
        ...

    def refuse(self, fault: LifebusError) -> object:
        """Send why there is none."""
        ...
