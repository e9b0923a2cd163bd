"""How long the disk keeps a commit waiting, on the average of the newest ones.  Pure."""

from typing import Final

QUICK_S: Final = 0.001
"""So long a commit may wait for the disk, on average, where the event loop waits with it."""

_COUNTED: Final = 32
"""Of about so many waits the average is: a disk may take long now and then, and be quick."""


class DiskPace:
    """The average of the waits; a disk that is not known yet counts as slow, as if it had been so once."""

    def __init__(self) -> None:
        self._average_s, self._count = 2 * QUICK_S, 1

    @property
    def is_quick(self) -> bool:
        """Whether the event loop may wait for this disk."""
        return self._average_s <= QUICK_S

    def note(self, waited_s: float) -> None:
        """Learn how long a commit waited while nobody else computed: it waited for the disk alone."""
        # Two clocks made the difference, so that it may be below zero where nothing was waited for.
        self._count = min(self._count + 1, _COUNTED)
        self._average_s += (max(waited_s, 0.0) - self._average_s) / self._count

    def note_contended(self, waited_s: float) -> None:
        """Learn how long a commit waited for the disk and for the interpreter's lock, which others may have held.

        So long waits say nothing about the disk, and only short ones count.
        """
        if waited_s <= QUICK_S:
            self.note(waited_s)
