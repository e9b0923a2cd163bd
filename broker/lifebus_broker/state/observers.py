"""How far each observer has told its story, folded from the notes about it (docs/ledger.md, "State").

A note's body is a MessagePack map of origins to numbers.  The higher number counts, so that a summary of many notes can
be written at any time and the notes before it dropped.
"""

from collections import OrderedDict
from typing import Final

import msgspec

MAX_ORIGINS: Final = 1_024
"""Origins that are remembered; the one that was silent longest is forgotten first."""

_bodies: Final = msgspec.msgpack.Decoder(dict[str, int])


def note_of(throughs: dict[str, int]) -> bytes:
    """Return the body of a note that says how far origins have got."""
    return msgspec.msgpack.encode(throughs)


class Origins:
    """The newest observation of each origin that is recorded."""

    def __init__(self) -> None:
        self._through: OrderedDict[str, int] = OrderedDict()

    def apply(self, body: bytes) -> None:
        """Take one note into account.

        Raises:
            msgspec.DecodeError: the body is no such note.
        """
        for origin, through in _bodies.decode(body).items():
            self._through[origin] = max(through, self._through.pop(origin, 0))
        while len(self._through) > MAX_ORIGINS:
            self._through.popitem(last=False)

    def through(self, origin: str) -> int:
        """Return the number of an origin's newest recorded observation, 0 where none is known."""
        return self._through.get(origin, 0)

    def summary(self) -> bytes:
        """Return the body of one note that says the same as all those applied so far."""
        return note_of(self._through)
