"""What a ledger file is and holds, with or without a broker (docs/ledger.md, "Commands")."""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

from msgspec import Struct, structs

from lifebus_admin.ledger_files.files import regular_file
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.format import FORMAT
from lifebus_broker.ledger.sqlite.schema import Execute, executor, open_reader
from lifebus_broker.ledger.sqlite.transfer.swap import files_of
from lifebus_contract import InternalError

_OLDEST: Final = "SELECT position, at_epoch_s FROM rows WHERE position > ? ORDER BY position LIMIT 1"
_NEWEST: Final = "SELECT position, at_epoch_s FROM rows WHERE position > ? ORDER BY position DESC LIMIT 1"
_TABLES: Final = ("meta", "rows", "streams", "keys")


class Edge(Struct, frozen=True, kw_only=True):
    """The oldest or the newest receipt that is kept."""

    position: int
    at_epoch_s: int


class BaseInfo(Struct, frozen=True, kw_only=True):
    """The dump of the stores that stands for what was pruned."""

    position: int
    bytes: int
    sha256: str


class LedgerInfo(Struct, frozen=True, kw_only=True):
    """A ledger file: receipts after `floor` up to `head`.

    `bytes` is what its files take together, `free_bytes` what of the database is free pages.  `tombstones` are keys
    whose receipts were pruned, `deleting` counts receipts below the floor that are not deleted yet.  `caches` and
    `snapshots` count files beside it.
    """

    epoch: str
    floor: int
    head: int
    deleting: int
    rows: int
    sessions: int
    keys: int
    tombstones: int
    note_streams: int
    notes: int
    bytes: int
    database_bytes: int
    wal_bytes: int
    shm_bytes: int
    free_bytes: int
    oldest: Edge | None
    newest: Edge | None
    base: BaseInfo | None
    path: str = ""
    format: int = FORMAT
    durability: str = "full"
    caches: int = 0
    snapshots: int = 0


_LATEST: Final = 2**40
"""No receipt is from so late a second, which no calendar can show."""


def read_info(path: Path, *, beside: Path | None = None, name: Path | None = None) -> LedgerInfo:
    """Return what a ledger file holds; nothing is written.

    `beside` is the state directory of its broker, `name` the path to show where the file will get another one.

    Raises:
        LifebusError: it is not there, cannot be read, or is no ledger that this program knows.
    """
    regular_file(path)
    with user_errors(path), closing(open_reader(path)) as connection:
        execute = executor(connection)
        # one snapshot: beside a broker the counts would otherwise be of different moments
        execute("BEGIN")
        format_ = int(_one(execute, "PRAGMA user_version"))
        names = {str(name) for (name,) in execute("SELECT name FROM sqlite_schema")}
        # an older format is shown as it is: reading must not upgrade a file
        if format_ > FORMAT or not names.issuperset(_TABLES):
            _refuse(path, format_, known=names.issuperset(_TABLES))
        sizes = [file.stat().st_size if file.exists() else 0 for file in files_of(path)]
        found = _read(execute, names, sizes)
    counts = {name: _count(beside, name) for name in ("snapshots", "compactions")}
    return structs.replace(
        found, path=str(name or path), format=format_, caches=counts["compactions"], snapshots=counts["snapshots"]
    )


def _read(execute: Execute, names: set[str], sizes: list[int]) -> LedgerInfo:
    meta: dict[str, Any] = dict(execute("SELECT key, value FROM meta"))
    floor = int(meta["floor"])
    newest = _edge(execute, _NEWEST, floor)
    noted = "note_streams" in names
    return LedgerInfo(
        epoch=str(meta["epoch"]),
        floor=floor,
        head=newest.position if newest else floor,
        # a prune moves the floor first and deletes rows afterwards, in pieces
        deleting=floor - int(meta["pruned"]),
        rows=int(_one(execute, "SELECT count(*) FROM rows WHERE position > ?", floor)),
        sessions=int(_one(execute, "SELECT count(*) FROM streams WHERE harness_session_id <> ''")),
        keys=int(_one(execute, "SELECT count(*) FROM keys")),
        tombstones=int(_one(execute, "SELECT count(*) FROM tombstones")) if "tombstones" in names else 0,
        note_streams=int(_one(execute, "SELECT count(*) FROM note_streams")) if noted else 0,
        notes=int(_one(execute, "SELECT coalesce(sum(head - floor), 0) FROM note_streams")) if noted else 0,
        bytes=sum(sizes),
        database_bytes=sizes[0],
        wal_bytes=sizes[1],
        shm_bytes=sizes[2],
        free_bytes=int(_one(execute, "PRAGMA freelist_count")) * int(_one(execute, "PRAGMA page_size")),
        oldest=_edge(execute, _OLDEST, floor),
        newest=newest,
        base=_base(execute) if "base" in names else None,
    )


def _edge(execute: Execute, statement: str, floor: int) -> Edge | None:
    row = execute(statement, (floor,)).fetchone()
    if row is None:
        return None
    at = int(row[1])
    if not 0 <= at < _LATEST:
        raise ValueError(f"the time of row {row[0]}")
    return Edge(position=row[0], at_epoch_s=at)


def _base(execute: Execute) -> BaseInfo | None:
    row = execute("SELECT position, length(body), hex(sha256) FROM base").fetchone()
    return None if row is None else BaseInfo(position=row[0], bytes=int(row[1]), sha256=row[2].lower())


def _one(execute: Execute, statement: str, *values: int) -> Any:
    return execute(statement, values).fetchone()[0]


def _count(directory: Path | None, name: str) -> int:
    """Return how many files of ours lie in a directory; those that begin with a dot are not finished."""
    if directory is None or not (directory / name).is_dir():
        return 0
    return sum(not entry.name.startswith(".") for entry in (directory / name).rglob("*.json"))


def _refuse(path: Path, format_: int, *, known: bool) -> None:
    if known or format_ > FORMAT:
        detail = f"{path}: a ledger of format {format_}; this program knows {FORMAT}: use a newer lifebus"
        raise InternalError(detail, code="ledger_format")
    raise InternalError(f"{path}: a SQLite database, but no ledger", code="ledger_format")
