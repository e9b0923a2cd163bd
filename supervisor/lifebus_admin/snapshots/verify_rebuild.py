"""Proves a ledger: keeps a snapshot and the log, builds all else again, and compares every byte.

Only the lines of the log, and what is kept of pruned ones, are taken from the ledger.  Of these a new ledger file
is written in a scratch directory, receipt by receipt, as an append would; its stores and tables must be the live ones.
"""

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import closing
from hashlib import sha256
from itertools import zip_longest
from pathlib import Path
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_admin.ledger_files.files import ledger_file, regular_file
from lifebus_broker.exports.jsonl_log import JsonlLog
from lifebus_broker.exports.lines import HeadLine, RecordLine, StreamLine, TombstoneLine
from lifebus_broker.exports.writer import ExportSource, write_export
from lifebus_broker.ledger.log import LinkedRecord, LogLine, LogSource, encode_line
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.reader import Reader
from lifebus_broker.ledger.sqlite.schema import executor
from lifebus_broker.ledger.sqlite.transfer.copy import copy_ledger
from lifebus_broker.ledger.sqlite.transfer.exporter import SqliteExport, finish_pruning
from lifebus_broker.ledger.sqlite.transfer.importer import build_ledger
from lifebus_broker.ports import Record
from lifebus_broker.snapshots.boot import KeptFiles, cold_boot
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.files import SnapshotFiles, find_snapshot
from lifebus_broker.snapshots.frozen import FrozenMap, thaw
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import pinned_revisions
from lifebus_broker.state.stores import REDUCER_VERSION, Stores
from lifebus_broker.state.working_set import compile_working_set, encode_working_set
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_directory import present_pins, snapshot_files

_KEYS: Final = "SELECT key, hex(digest), position FROM keys ORDER BY key"
_SHOWN: Final = 160


class ComparedPart(Struct, frozen=True, kw_only=True):
    """One thing that was compared: its bytes up to the first difference, their number and SHA-256."""

    name: str
    bytes: int
    sha256: str
    difference: str | None


class RebuildComparison(Struct, frozen=True, kw_only=True):
    """What a rebuild came to: from the snapshot and so many lines, up to a position."""

    snapshot_id: str
    position: int
    lines: int
    parts: list[ComparedPart]


def rebuild(settings: Settings, which: str | None = None) -> RebuildComparison:
    """Build a ledger and its stores from a snapshot and the log alone, and compare them with the live ones; blocks.

    Works beside a running broker, on a copy of one moment; nothing is written but a scratch directory, which goes.

    Raises:
        ColdBootError: the snapshot cannot be booted from the log.
        LifebusError: there is no such snapshot, or the ledger cannot be read.
        OSError: there is no room for the copy.
    """
    pins = present_pins(configured_adapters(settings))
    path = regular_file(ledger_file(settings))
    files = snapshot_files(settings)
    with SqliteLog(path) as log:
        snapshot = find_snapshot(files, which, log.floor)
    with tempfile.TemporaryDirectory(prefix=".rebuild-", dir=settings.state_dir) as scratch:
        live, rebuilt = Path(scratch, "live.db"), Path(scratch, "rebuilt.db")
        for file in (live, rebuilt):
            # Private before anything is written into it.
            file.touch(mode=0o600)
        with user_errors(path):
            # A copy of one moment: the broker goes on writing.
            copy_ledger(path, live)
            finish_pruning(live)
            _build(snapshot, files, pins, live, rebuilt)
            return _compare(settings, snapshot, pins, live, rebuilt)


def _build(snapshot: SaveSnapshot, files: SnapshotFiles, pins: FrozenMap, live: Path, rebuilt: Path) -> None:
    """Take the log out of the live ledger, boot the snapshot from that, and write a new ledger of it."""
    export = live.with_suffix(".jsonl")
    with SqliteExport(live) as source:
        with export.open("wb") as file:
            # Only the log is taken over; everything else has to follow from it.
            write_export(_LogAlone(source), REDUCER_VERSION, file.write)
        log = JsonlLog.open(export)
        # Refuses before any comparison where the snapshot is not proved by this log.
        revisions = pinned_revisions(source, files.pinned(log.head))
        cold_boot(snapshot, log, pins, revisions, kept=KeptFiles(supplement=files.supplement(snapshot)))
        epoch = source.epoch
    build_ledger(log, rebuilt, epoch)


def _compare(
    settings: Settings, snapshot: SaveSnapshot, pins: FrozenMap, live: Path, rebuilt: Path
) -> RebuildComparison:
    caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
    with SqliteExport(live) as one, SqliteExport(rebuilt) as other:
        known = StateFollower(one, caches, writing=False).advance()
        replayed = StateFollower(other).advance()
        parts = [
            _part("log", _lines(one), _lines(other)),
            _part("facts ledger", known.facts.dump(), replayed.facts.dump()),
            _part("unlock state", known.capabilities.dump(), replayed.capabilities.dump()),
            _part("story state", known.sessions.dump(), replayed.sessions.dump()),
            _part("working set", _working(known, pins), _working(replayed, pins)),
            _part("session heads", _heads(live), _heads(rebuilt)),
            _part("keys", _keys(live), _keys(rebuilt)),
        ]
        lines = one.head - one.floor
    return RebuildComparison(snapshot_id=snapshot.snapshot_id, position=known.position, lines=lines, parts=parts)


def _part(name: str, live: Iterable[bytes], rebuilt: Iterable[bytes]) -> ComparedPart:
    """Compare piece by piece; nothing is held but two pieces."""
    size, hashed = 0, sha256()
    for number, (one, other) in enumerate(zip_longest(live, rebuilt, fillvalue=b"")):
        if one != other:
            shown = f"piece {number}: live {one[:_SHOWN]!r}, rebuilt {other[:_SHOWN]!r}"
            return ComparedPart(name=name, bytes=size, sha256=hashed.hexdigest(), difference=shown)
        size += len(one)
        hashed.update(one)
    return ComparedPart(name=name, bytes=size, sha256=hashed.hexdigest(), difference=None)


def _lines(log: LogSource) -> Iterator[bytes]:
    return map(encode_line, log.lines(log.floor, log.head))


def _working(stores: Stores, pins: FrozenMap) -> tuple[bytes]:
    return (encode_working_set(compile_working_set(stores, thaw(pins))),)


def _heads(path: Path) -> Iterator[bytes]:
    with closing(Reader(path)) as reader:
        yield from map(msgspec.json.encode, reader.sessions(None))


def _keys(path: Path) -> Iterator[bytes]:
    with closing(Reader(path)) as reader:
        yield from map(msgspec.json.encode, executor(reader.connection)(_KEYS))


class _LogAlone:
    """A ledger without its journal: the log, and what is kept of pruned lines (`exports.writer.ExportSource`)."""

    def __init__(self, whole: ExportSource) -> None:
        self._whole = whole

    @property
    def epoch(self) -> str:
        return self._whole.epoch

    @property
    def floor(self) -> int:
        return self._whole.floor

    @property
    def head(self) -> int:
        return self._whole.head

    def base(self) -> bytes | None:
        return self._whole.base()

    def heads(self) -> Iterator[HeadLine]:
        return self._whole.heads()

    def tombstones(self) -> Iterator[TombstoneLine]:
        return self._whole.tombstones()

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        return self._whole.lines(after, through)

    def records(self, prefix: str) -> Iterator[Record]:  # noqa: ARG002  as the protocol has it
        return iter(())

    def chain(self, stream: str) -> Iterator[LinkedRecord]:  # noqa: ARG002  as the protocol has it
        return iter(())

    def journal(self) -> Iterator[StreamLine | RecordLine]:
        return iter(())
