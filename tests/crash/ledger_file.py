"""What a ledger file holds, read by plain SQL on a copy: an outsider's view, without any code of the ledger's own."""

import json
import shutil
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw


@dataclass(frozen=True)
class Recorded:
    """One row: its place, its link in its stream's chain, and the receipt's bytes."""

    position: int
    stream: int
    sequence: int | None
    link: bytes
    receipt: bytes

    @property
    def content(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.receipt)
        return content


def read_ledger(path: Path, scratch: Path) -> list[Recorded]:
    """Return every row in position order, having checked what any ledger must fulfil."""
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir()
    for part in path.parent.glob(path.name + "*"):
        shutil.copy(part, scratch)
    connection = apsw.Connection(str(scratch / path.name))
    try:
        assert connection.execute("PRAGMA integrity_check").get == "ok"
        found = connection.execute("SELECT position, stream, sequence, link, receipt FROM rows ORDER BY position")
        rows = [
            Recorded(position, stream, sequence, bytes(link), bytes(receipt))
            for position, stream, sequence, link, receipt in found
        ]
        keys = list(connection.execute("SELECT key, position FROM keys"))
    finally:
        connection.close()
    check_order(rows)
    check_keys(rows, keys)
    return rows


def check_order(rows: list[Recorded]) -> None:
    """Positions and the sequences of each session are 1, 2, 3 …, and every link follows from the one before it."""
    assert [row.position for row in rows] == list(range(1, len(rows) + 1))
    tips: dict[int, tuple[int, bytes]] = {}
    for row in rows:
        sequence, link = tips.get(row.stream, (0, bytes(32)))
        assert row.sequence == sequence + 1 == row.content["sequence"]
        assert row.link == sha256(link + row.receipt).digest()
        tips[row.stream] = (row.sequence, row.link)


def check_keys(rows: list[Recorded], keys: list[tuple[str, int]]) -> None:
    """Every keyed receipt is found by its key and by no other; no key stands for two receipts."""
    by_position = {row.position: row.content for row in rows}
    used = [content["idempotency_key"] for content in by_position.values() if content["idempotency_key"]]
    assert len(used) == len(set(used)) == len(keys)
    for key, position in keys:
        assert key.endswith(by_position[position]["idempotency_key"])
