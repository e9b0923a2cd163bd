"""How far the observations of each origin are recorded, reduced from the journal (docs/ledger.md, "State").

A record's body is a MessagePack map of origins to numbers.  The higher number counts, so that one record can sum up all
those before it, which may then be dropped.
"""

from collections import OrderedDict
from typing import Final

import msgspec

MAX_ORIGINS: Final = 1_024
"""Origins that are remembered; the one whose last observation is oldest is forgotten first."""

_bodies: Final = msgspec.msgpack.Decoder(dict[str, int])


def encode_throughs(throughs: dict[str, int]) -> bytes:
    """Return the body of a record that says how far origins are."""
    return msgspec.msgpack.encode(throughs)


class Origins:
    """The newest observation of each origin that is recorded."""

    def __init__(self) -> None:
        self._through: OrderedDict[str, int] = OrderedDict()

    def apply(self, body: bytes) -> None:
        """Apply one record.

        Raises:
            msgspec.DecodeError: the body is not one of `encode_throughs`.
        """
        for origin, through in _bodies.decode(body).items():
            self._through[origin] = max(through, self._through.pop(origin, 0))
        while len(self._through) > MAX_ORIGINS:
            self._through.popitem(last=False)

    def through(self, origin: str) -> int:
        """Return the number of an origin's newest recorded observation, 0 where none is known."""
        return self._through.get(origin, 0)

    def summary(self) -> bytes:
        """Return the body of one record that sums up all those applied so far."""
        return encode_throughs(self._through)
