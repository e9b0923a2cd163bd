"""Checks of a ledger file beside its rows: definitions, own values, base, keys, marks, checksums, SQLite's pages."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import cache, partial
from hashlib import sha256
from typing import Any, Final

import apsw

from lifebus_broker.ledger.sqlite.checksums import checksum, unguarded
from lifebus_broker.ledger.sqlite.schema import MARK_EVERY, Execute, executor, meta_of, snapshot
from lifebus_broker.ledger.sqlite.tables import CHECKED, TABLES
from lifebus_broker.ledger.sqlite.watermark import Watermark, losses

_PIECE: Final = 4096
_EPOCH_DIGITS: Final = 32
_SCHEMA: Final = "SELECT type, name, tbl_name, sql FROM sqlite_schema"
_META: Final = {"epoch", "floor", "pruned", "pointed"}
_HEAD: Final = "SELECT max(position) FROM rows"
_NOTES: Final = "SELECT coalesce(sum(head), 0), coalesce(sum(floor), 0) FROM note_streams"
_KEYS: Final = "SELECT key, digest, position FROM keys{after} ORDER BY key LIMIT ?"
_MARKS: Final = """
SELECT m.stream, m.position, r.stream, r.sequence FROM marks m LEFT JOIN rows r ON r.position = m.position
WHERE (m.stream, m.position) > (?, ?) ORDER BY m.stream, m.position LIMIT ?"""


def check_frame(execute: Execute, noted: Sequence[Watermark]) -> list[str]:
    """Return what is wrong with the file as a whole: if anything is, nothing else is checked."""
    if set(execute(_SCHEMA).fetchall()) != _definitions():
        return ["the definitions of its tables are not those that were written"]
    # in this order: the base is compared with the floor, which is one of the ledger's own values
    for check in (_check_meta, _check_base):
        if wrong := check(execute):
            return wrong
    return losses(noted, standing_of(execute))


def standing_of(execute: Execute) -> Watermark:
    """Return how far the file is."""
    meta = meta_of(execute)
    written, dropped = execute(_NOTES).fetchone()
    return Watermark(meta["epoch"], max(_one(execute, _HEAD) or 0, meta["floor"]), meta["floor"], written, dropped)


def check_keys(connection: apsw.Connection) -> list[str]:
    """Return the keys that are not what was written, or lead to a receipt that was never recorded."""
    wrong: list[tuple[int, str]] = []
    last: tuple[object, ...] = ()
    while True:
        with snapshot(connection) as execute:
            # the floor counts as well: a ledger whose rows were all pruned still has a head
            head = max(_one(execute, _HEAD) or 0, meta_of(execute)["floor"])
            # by key and not by offset: the writer inserts and deletes keys between two pieces
            found: list[Any] = execute(_KEYS.format(after=" WHERE key > ?" if last else ""), (*last, _PIECE)).fetchall()
        for key, stored, position in found:
            if unguarded(key, stored, position) is None:
                wrong.append((position, "the digest or position of an idempotency key is not what was written"))
            elif not 0 < position <= head:
                wrong.append((position, "is missing, an idempotency key leads to it"))
        if len(found) < _PIECE:
            return [f"row {position}: {what}" for position, what in sorted(wrong)]
        last = (found[-1][0],)


def check_marks(connection: apsw.Connection) -> list[str]:
    """Return the marks that lead to no receipt of their session."""
    wrong: list[str] = []
    last: tuple[int, int] = (-1, -1)
    while True:
        with snapshot(connection) as execute:
            found: list[Any] = execute(_MARKS, (*last, _PIECE)).fetchall()
        for stream, position, owner, sequence in found:
            if owner != stream or not sequence or sequence % MARK_EVERY:
                wrong.append(f"row {position}: a mark of stream {stream} leads to it")
        if len(found) < _PIECE:
            return wrong
        last = found[-1][:2]


def checksum_checks(connection: apsw.Connection) -> Iterator[tuple[str, Callable[[], list[str]]]]:
    """Yield the name of each table with checksums, and a check of them."""
    for table, columns in CHECKED.items():
        yield table, partial(_check_table, connection, table, columns)


def check_structure(connection: apsw.Connection) -> list[str]:
    """Return what SQLite itself finds wrong with its pages and indexes."""
    # one finding is enough: SQLite's own texts name pages, which help nobody to repair a ledger
    found = executor(connection)("PRAGMA integrity_check(1)").fetchall()[0][0]
    return [] if found == "ok" else [f"SQLite: {str(found)[:200]}"]


def _check_meta(execute: Execute) -> list[str]:
    """The ledger's own values."""
    for key, value, check in execute("SELECT key, value, checksum FROM meta").fetchall():
        if checksum(key, value) != check:
            return [f"the ledger's own value `{str(key)[:32]}` is not what was written"]
    meta = meta_of(execute)
    if not meta.keys() >= _META or len(meta["epoch"]) != _EPOCH_DIGITS:
        return ["the ledger's own values are not all there"]
    head = max(_one(execute, _HEAD) or 0, meta["floor"])
    if not 0 <= meta["pruned"] <= meta["floor"] or not 0 <= meta["pointed"] <= head:
        return ["the ledger's own values contradict each other"]
    return []


def _check_base(execute: Execute) -> list[str]:
    """What stands for the pruned rows: there since something was pruned, and then for all of them."""
    floor = meta_of(execute)["floor"]
    found: list[Any] = execute("SELECT position, body, sha256 FROM base").fetchall()
    if [position for position, _, _ in found] != ([floor] if floor else []):
        return [f"row {floor}: the base is not there, or is not of the floor"]
    for position, body, digest in found:
        if sha256(body).digest() != digest:
            return [f"row {position}: the base is not what its hash says"]
    return []


def _check_table(connection: apsw.Connection, table: str, columns: str) -> list[str]:
    """Return the rows of a table that are not what was written."""
    key = columns.partition(",")[0]
    last: tuple[object, ...] = ()
    wrong: list[str] = []
    while True:
        after = f" WHERE {key} > ?" if last else ""
        statement = f"SELECT {columns}, checksum FROM {table}{after} ORDER BY {key} LIMIT ?"  # noqa: S608  our own names
        with snapshot(connection) as execute:
            found: list[Any] = execute(statement, (*last, _PIECE)).fetchall()
        for *values, check in found:
            if checksum(*values) != check:
                wrong.append(f"{table}: what is known of {_shown(values[0])} is not what was written")
        if len(found) < _PIECE:
            return wrong
        last = (found[-1][0],)


@cache
def _definitions() -> set[tuple[Any, ...]]:
    """Return what a file of this format says about its tables."""
    with closing(apsw.Connection(":memory:")) as connection:
        execute = executor(connection)
        for statement in TABLES.values():
            execute(statement)
        return set(execute(_SCHEMA).fetchall())


def _shown(key: object) -> str:
    return key.hex() if isinstance(key, bytes) else f"`{str(key)[:64]}`"


def _one(execute: Execute, statement: str) -> Any:
    return execute(statement).fetchone()[0]
