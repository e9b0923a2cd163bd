"""What a ledger's writer does beside appends, in pieces: checkpoints, deleting, giving disk back, watching its room.

The log gets its room at the start, before the first commit that waits for the disk.

Appends go first.  While they come, a piece is followed by a rest as long as it took, and it is about as large as what
is committed in between, so that deleting keeps up with writing; while none come, one piece follows the other.
"""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from lifebus_broker.ledger.retention import PruneDecision, is_short
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.writing.log_room import make_room
from lifebus_broker.process_memory import give_memory_back

CHECKPOINT_BYTES: Final = 16 * 1024 * 1024
"""How much goes into the write-ahead log before it is moved into the file."""

Room = Callable[[], tuple[int, int]]
"""Returns how many bytes of a file system are free, and how many there are."""

Surplus = Callable[[], PruneDecision | None]
"""Returns what a file holds too much, None when it is within its bound; blocks."""

_IDLE_CHECKPOINT_BYTES: Final = 1024 * 1024
_ROOM_BYTES: Final = 5 * _IDLE_CHECKPOINT_BYTES // 4
"""So long the log is from the beginning: what comes singly never makes it longer, because of the checkpoint before."""

_LEAST_LOG_BYTES: Final = 4 * 1024 * 1024
_IDLE_S: Final = 0.2
_REST_S: Final = 5.0
"""So long nothing is written before the memory is given back that was needed for writing."""

_MEASURE_S: Final = 1.0
_ROWS_A_PIECE: Final = 128
_MOST_PIECES: Final = 4
"""After a commit of so many rows one piece more is deleted at once, up to so many pieces."""


class Maintenance:
    """Chooses what is to be done next on a store.

    `log` is the path of the write-ahead log that commits are synced to.  `low_space` says that the file system has less
    room left than is to be left free: then nothing is to be appended, and what frees disk goes on.
    """

    def __init__(
        self,
        store: Store,
        room: Room,
        now: Callable[[], float] = time.monotonic,
        *,
        surplus: Surplus | None = None,
        log: str | None = None,
    ) -> None:
        self._log, self._has_room = log, log is None
        self._surplus, self._trim_at, self._trimmed_epoch_s = surplus, 0.0, 0
        self.low_space = False
        self._spare, self._wal_limit = 0, CHECKPOINT_BYTES
        self._store, self._room, self._now = store, room, now
        self._rest_until = self._measure_at = 0.0
        self._measured_bytes = 0
        self._written_at: float | None = None

    def bound(self, keep: int, spare: int) -> None:
        """Keep the write-ahead log small beside `keep` bytes (0 for any size), and leave `spare` bytes free."""
        self._spare = spare
        self._wal_limit = wal_share(keep) if keep else CHECKPOINT_BYTES

    def timeout(self, *, full: bool) -> float | None:
        """Return for how many seconds work may be waited for, None for ever, before `next_task` is asked while idle."""
        store = self._store
        if full:
            return _MEASURE_S
        if self._frees or not self._has_room:
            return 0
        if store.wal_bytes > _IDLE_CHECKPOINT_BYTES:
            return _IDLE_S
        if self.low_space or store.wal_is_long:
            return _MEASURE_S
        return None if self._written_at is None else _REST_S

    def next_task(self, rows: int, *, full: bool) -> Callable[[], object] | None:
        """Return what is to be done now that `rows` rows were committed (0 while idle), None where nothing is."""
        store = self._store
        idle = not rows
        if rows:
            self._written_at = self._now()
        if self._may_trim:  # before all else: what it frees may be what a full disk waits for
            return self._trim
        # before deleting: the log grows with each commit until it is moved
        if store.wal_bytes > self._wal_limit:
            return lambda: store.checkpoint(self._wal_limit)
        if full:
            return store.probe if idle else None
        if self._frees and (idle or self._now() >= self._rest_until):
            return lambda: self._free(rows)
        return self._idle_task() if idle else None

    def measure(self) -> None:
        """Find out how much room is left: now and then, and when as much was written as would matter."""
        now, written = self._now(), self._store.wal_bytes
        # the file system is asked once a second, or when a MiB was written since
        if now >= self._measure_at or abs(written - self._measured_bytes) > _IDLE_CHECKPOINT_BYTES:
            self._measure_at, self._measured_bytes = now + _MEASURE_S, written
            self.low_space = bool(self._spare) and is_short(*self._room(), self._spare)

    @property
    def _may_trim(self) -> bool:
        """Whether a file that bounds itself may hold too much by now; what was cut before is deleted first."""
        is_done = self._store.pruned == self._store.floor
        return self._surplus is not None and is_done and self._now() >= self._trim_at

    def _trim(self) -> None:
        """Drop the oldest receipts of a file that bounds itself, and the keys that were dropped before the last trim.

        So keys are known for longer than their receipts are kept, and do not grow without bound either.
        """
        decision = None if self._surplus is None else self._surplus()
        self._trim_at = self._now() + _MEASURE_S
        if decision is not None:
            # one trim behind the receipts: an emitter that retries soon still finds its key
            self._store.forget_tombstones(self._trimmed_epoch_s)
            self._trimmed_epoch_s = int(time.time())
            self._store.prune_to(decision.floor, b"", self._trimmed_epoch_s)

    def _idle_task(self) -> Callable[[], object] | None:
        if not self._has_room:
            return self._make_room
        if self._store.wal_bytes > _IDLE_CHECKPOINT_BYTES:
            return self._store.checkpoint
        if self._store.wal_is_long:
            return self._store.truncate_wal
        return self._rest if self._rests else None

    def _make_room(self) -> None:
        self._has_room = True
        if self._log is not None and not self.low_space:
            make_room(self._log, _ROOM_BYTES)

    @property
    def _rests(self) -> bool:
        """Whether nothing was written for so long that its memory is better given back."""
        return self._written_at is not None and self._now() - self._written_at >= _REST_S

    def _rest(self) -> None:
        self._written_at = None
        self._store.shrink_memory()
        give_memory_back()

    @property
    def _frees(self) -> bool:
        """Whether there is something to delete or to give back."""
        return self._store.pruned < self._store.floor or self._store.has_free_pages

    def _free(self, rows: int) -> None:
        """Do one piece."""
        began = self._now()
        if self._store.pruned < self._store.floor:
            self._store.prune_step(min(1 + rows // _ROWS_A_PIECE, _MOST_PIECES))
        else:
            self._store.vacuum()
        # a rest as long as the piece took: appends get at least half of the disk
        self._rest_until = 2 * self._now() - began


def wal_share(keep: int) -> int:
    """Return how many bytes of a limit are for the write-ahead log."""
    return min(max(keep // 8, _LEAST_LOG_BYTES), CHECKPOINT_BYTES)


def room_on(directory: Path) -> tuple[int, int]:
    """Return how many bytes of a directory's file system are free for us, and how many there are."""
    found = os.statvfs(directory)
    return found.f_bavail * found.f_frsize, found.f_blocks * found.f_frsize
