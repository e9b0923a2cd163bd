"""A pipe whose messages come, come late, come twice or never, and a publisher that may start again."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from itertools import count
from typing import Generic, TypeVar

M = TypeVar("M")
L = TypeVar("L")


class LossyPipe(ABC, Generic[M, L]):
    """What a publisher of the history `log` sent and nobody has got yet; `past` are the histories before it."""

    def __init__(self, begin: Callable[[str], L]) -> None:
        self.log = begin("e1")
        self.past: list[L] = []
        self.pipe: list[M] = []
        self._begin = begin
        self._beacons = count(1)
        self._changed: dict[str, int] = {}

    def restart(self, *, new_history: bool) -> None:
        """Start the broker again: what it knew of changes is gone, beacon numbers begin elsewhere."""
        self._changed = {}
        self._beacons = count(1_000 * (len(self.past) + 1) + next(self._beacons))
        if new_history:
            self.past.append(self.log)
            self.log = self._begin(f"e{len(self.past) + 1}")

    def deliver(self, place: int, *, times: int = 1) -> None:
        """Take a message out of the pipe, if there are so many, and let it arrive so many times."""
        for message in self.pipe[place : place + 1]:
            del self.pipe[place]
            for _ in range(times):
                self._receive(message)

    @abstractmethod
    def _receive(self, message: M) -> None:
        """Let a message arrive."""
