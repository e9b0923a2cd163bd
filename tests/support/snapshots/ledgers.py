"""Ledger files and exports of random histories, to be saved, tampered with and booted from."""

import json
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import anyio
import apsw

from lifebus_broker.exports.writer import write_export
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.transfer.exporter import SqliteExport
from lifebus_broker.ports import NewReceipt
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import REDUCER_VERSION, dump_stores
from support.histories import history
from support.receipts import append


def make_ledger(path: Path, entries: list[NewReceipt] | int, seed: int = 3) -> None:
    """Write a ledger file of a random history."""
    found = history(seed, entries) if isinstance(entries, int) else entries

    async def write() -> None:
        ledger = await SqliteLedger.open(path)
        try:
            for start in range(0, len(found), 512):
                await append(ledger, found[start : start + 512])
        finally:
            await ledger.aclose()

    anyio.run(write)


def prune_ledger(path: Path, floor: int) -> None:
    """Drop the rows of a ledger file up to a position, as retention does."""

    async def prune() -> None:
        with SqliteLog(path) as log:
            base = dump_stores(StateFollower(log).stores_at(floor))
        ledger = await SqliteLedger.open(path)
        try:
            assert await ledger.prune(floor, base) == floor
        finally:
            await ledger.aclose()

    anyio.run(prune)


def make_export(ledger: Path, target: Path) -> None:
    """Write the export of a ledger file."""
    with SqliteExport(ledger) as source, target.open("wb") as file:
        write_export(source, REDUCER_VERSION, file.write)


def change_rows(ledger: Path, *statements: str) -> None:
    """Change a ledger file behind its back."""
    connection = apsw.Connection(str(ledger))
    for statement in statements:
        connection.execute(statement)
    connection.close()


def resealed(export: Path, change: Callable[[list[bytes]], None]) -> None:
    """Change the log of an export, as somebody would who makes its last line right again, and its numbers."""
    lines = export.read_bytes().splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(b'{"digest":'))
    last = max(number for number, line in enumerate(lines) if line.startswith(b'{"digest":'))
    log = lines[first : last + 1]
    change(log)
    header, end = json.loads(lines[0]), json.loads(lines[-1])
    header["header"]["head"] = header["header"]["floor"] + len(log)
    end["end"]["counts"]["log"] = len(log)
    text = b"".join([_encoded(header), *lines[1:first], *log, *lines[last + 1 : -1]])
    end["end"]["sha256"] = sha256(text).hexdigest()
    export.write_bytes(text + _encoded(end))


def _encoded(line: object) -> bytes:
    return json.dumps(line, sort_keys=True, separators=(",", ":")).encode() + b"\n"
