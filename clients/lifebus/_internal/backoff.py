"""How long to wait before a retry: full jitter within a bound that doubles, so that many clients spread out."""

import random
from collections.abc import Callable

import anyio


class Backoff:
    """Pauses in seconds, drawn evenly from 0 to a bound: `first`, then twice as much each time, up to `longest`.

    `draw` returns a number between two; a test gives its own.
    """

    def __init__(self, first: float, longest: float, draw: Callable[[float, float], float] = random.uniform) -> None:
        self._first, self._longest = first, longest
        self._draw = draw
        self._bound = first

    def next(self) -> float:
        """Return how long the next pause is."""
        # From 0, not from the last bound: clients that failed together must not come back together.
        bound, self._bound = self._bound, min(2 * self._bound, self._longest)
        return self._draw(0, bound)

    async def wait(self) -> None:
        """Wait as long as the next pause is."""
        await anyio.sleep(self.next())

    def reset(self) -> None:
        """Begin again with the shortest pause, after an answer."""
        self._bound = self._first
