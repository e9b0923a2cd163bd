"""Logs for tests: one in memory, whole or pruned, that counts what is read of it; and the base of a ledger file."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from lifebus_broker.ledger.log import LinkedRecord, LogLine
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import dump_stores


class MemoryLog:
    """Implements `log.LogSource`; `read` counts the lines that were handed out."""

    def __init__(self, lines: Sequence[LogLine], floor: int = 0, base: bytes | None = None) -> None:
        self.all_lines = list(lines)
        self.floor = floor
        self.dump = base
        self.read = 0

    @property
    def head(self) -> int:
        return self.all_lines[-1].position if self.all_lines else self.floor

    def base(self) -> bytes | None:
        return self.dump

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        start = self.all_lines[0].position if self.all_lines else 1
        for line in self.all_lines[max(after, self.floor) - start + 1 : max(0, through - start + 1)]:
            self.read += 1
            yield line

    def records(self, prefix: str) -> Iterator[Record]:
        return iter(())

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        return iter(())


def base_at(path: Path, position: int) -> bytes:
    """Return what has to stand for a ledger file's receipts up to a position, once they are pruned."""
    with SqliteLog(path) as log:
        return dump_stores(StateFollower(log).stores_at(position))
