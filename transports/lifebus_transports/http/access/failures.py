"""How often somebody may fail to prove who they are."""

from collections.abc import Callable
from typing import Final

_PER_SECOND: Final = 5
_LONGEST_S: Final = 60.0


class Failures:
    """Counts failures of all callers together; after five within a second they have to wait, longer each time.

    A right token is let in meanwhile: 256 bits are not guessed, and a page of a stranger must not lock the user out.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._window = self._until = clock()
        self._count = 0
        self._pause_s = 1.0

    def fail(self) -> float:
        """Count a failure; return for how many seconds more failures are answered with that alone, 0 for not at all."""
        now = self._clock()
        if now < self._until:
            return self._until - now
        if now - self._window >= 1.0:
            # A quiet minute forgives what was before.
            if now - self._window > _LONGEST_S:
                self._pause_s = 1.0
            self._window, self._count = now, 0
        self._count += 1
        if self._count <= _PER_SECOND:
            return 0.0
        self._until = now + self._pause_s
        self._pause_s = min(_LONGEST_S, self._pause_s * 2)
        return self._until - now
