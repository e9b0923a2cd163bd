"""What an iterator does where history is gone: it raises, yields the gap, or has its user's function handle it."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Final, Literal

from lifebus._internal.view import Gap, Position
from lifebus_contract import LifebusError

GapHandler = Callable[[Gap], object]
"""A function that is called with a gap; if it returns an awaitable, this is awaited."""

OnGap = Literal["raise"] | GapHandler
"""What keeps gaps out of the items: raise `GapFound`, or call a function and continue."""

_WHY: Final = {
    "pruned": "the broker keeps less",
    "deleted": "their thread was deleted",
    "epoch_changed": "the ledger holds another history",
    "hole": "the ledger lacks them",
}


_NEXT: Final = (
    "asking for the next item goes on behind them; gaps=function is called at gaps and goes on,"
    ' gaps="yield" has them among the items'
)


class GapFound(LifebusError):
    """Receipts or signals that were to come next are gone; the iterator's next step continues after them.

    `gap` says which ones, and `cursor` is the place after them, from which you can follow later.  The iterator's own
    cursor stays before the gap until you ask for the next item, so a program that begins again from there gets the same
    error again.
    """

    def __init__(self, gap: Gap, cursor: Position | None = None) -> None:
        super().__init__(f"{_missing(gap)}; {_NEXT}", code="gap_found")
        self.gap = gap
        self.cursor = cursor


class GapGate:
    """Stands before an iterator and lets no gap pass unknown.

    `gap` is the one that is not known yet, `cursor` the place behind the newest one, None where the broker keeps it.
    A handler that raises or is cancelled is called again with the same gap when the next item is asked for.
    """

    def __init__(self, choice: OnGap | Literal["yield"]) -> None:
        if not callable(choice) and choice not in {"raise", "yield"}:
            raise ValueError(f'gaps is "raise", "yield" or a function, not {choice!r}')
        self.gap: Gap | None = None
        self.cursor: Position | None = None
        self._choice = choice
        self._raised = False

    async def next_of(self, next_item: Callable[[], Awaitable[object]], leave: Callable[[Gap], None]) -> object:
        """Return the next item, or the next gap where gaps are items; `leave` goes on behind a gap that is known.

        Raises:
            GapFound: history is gone, and that is what was chosen.
            StopAsyncIteration: there is none any more.
        """
        if self._raised:
            self.leave(leave)
        while True:
            item = self.gap if self.gap is not None else await next_item()
            if not isinstance(item, Gap):
                return item
            self.gap = item
            await self._handle(item)
            self.leave(leave)
            if self._choice == "yield":
                return item

    def leave(self, leave: Callable[[Gap], None]) -> None:
        """Count the gap as known, where there is one."""
        gap, self.gap, self._raised = self.gap, None, False
        if gap is not None:
            leave(gap)

    async def _handle(self, gap: Gap) -> None:
        if self._choice == "raise":
            self._raised = True
            raise GapFound(gap, self.cursor)
        if callable(self._choice):
            answer = self._choice(gap)
            if inspect.isawaitable(answer):
                await answer


def _missing(gap: Gap) -> str:
    """Say which items are gone, and why."""
    what = "receipts" if gap.thread is None else f"signals of the thread {gap.thread!r}"
    first = gap.after + 1
    which = f"from {first} on" if gap.until is None else str(first) if gap.until == first else f"{first} to {gap.until}"
    return f"{what} {which} are gone: {_WHY[gap.reason]} ({gap.reason})"
