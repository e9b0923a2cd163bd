"""How much a ledger file holds and how old it is, read on a connection of its own, so that the writer does not wait."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

from lifebus_broker.ledger.retention import Held, Limits, PruneDecision, decide
from lifebus_broker.ledger.sqlite.schema import Execute, executor, open_reader
from lifebus_broker.ledger.sqlite.writing.maintenance import wal_share

_ROW_BYTES: Final = 300
"""About what a receipt takes beside its text: columns, key, mark."""

_NOTE_BYTES: Final = 32
_META: Final = "SELECT value FROM meta WHERE key = ?"
_AGED: Final = "SELECT position - 1 FROM seconds WHERE second >= ? ORDER BY second LIMIT 1"
_WEIGHTS: Final = "SELECT position, length(receipt) FROM rows WHERE position > ? ORDER BY position"
_JOURNAL: Final = "SELECT coalesce(sum(bytes + (head - floor) * ?), 0) FROM note_streams"


def bytes_on_disk(path: Path) -> int:
    """Return what the ledger's files take together: database, write-ahead log and its index."""
    return sum(_size(path.with_name(path.name + ending)) for ending in ("", "-wal", "-shm"))


def decide_prune(path: Path, limits: Limits, now_epoch_s: int, vfs: str | None = None) -> PruneDecision | None:
    """Return what is to be dropped from a ledger file now, None when everything may stay; blocks.

    Raises:
        apsw.Error: the file cannot be read.
    """
    with closing(open_reader(path, vfs=vfs)) as connection:
        execute = executor(connection)
        execute("BEGIN")
        oldest = None if limits.keep_s is None else now_epoch_s - limits.keep_s
        pruned = _one(execute, _META, "pruned")
        return decide(
            _held(execute, path, oldest, limits.keep_bytes or 0),
            limits,
            lambda wanted: _lighten(execute, pruned, wanted),
        )


def _held(execute: Execute, path: Path, oldest: int | None, keep: int) -> Held:
    """Return what is held, as of one moment; what is older than the second `oldest` is aged.

    Of the write-ahead log no more counts than its share: no receipt that goes makes it shorter.
    """
    floor = _one(execute, _META, "floor")
    head = max(_one(execute, "SELECT max(position) FROM rows") or 0, floor)
    aged = None if oldest is None else _one(execute, _AGED, oldest)
    # free pages are left out: they are given back, or used again, without another receipt going
    pages = _one(execute, "PRAGMA page_count") - _one(execute, "PRAGMA freelist_count")
    log = min(bytes_on_disk(path) - _size(path), wal_share(keep))
    return Held(
        head=head,
        floor=floor,
        bytes=pages * _one(execute, "PRAGMA page_size") + log - _one(execute, _JOURNAL, _NOTE_BYTES),
        aged=head if aged is None else aged,
    )


def _lighten(execute: Execute, pruned: int, wanted: int) -> int:
    """Return the position up to which rows must go to free so many bytes."""
    position, freed = pruned, 0
    for position, size in execute(_WEIGHTS, (pruned,)):  # noqa: B007  where it stopped is the answer
        freed += size + _ROW_BYTES
        if freed >= wanted:
            break
    return position


def _one(execute: Execute, statement: str, *values: object) -> Any:
    row = execute(statement, values).fetchone()
    return None if row is None else row[0]


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
