"""What a ledger file holds, read by plain SQL on a copy: an outsider's view, without any code of the ledger's own."""

import json
import shutil
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any

import apsw
import msgpack

_HEADER_BYTES = 32
_ROWS = "SELECT position, stream, sequence, link, receipt FROM rows WHERE position > ? ORDER BY position"
_KEYS = "SELECT key, position FROM keys WHERE position > ?"
_NOTES = """
SELECT s.stream, s.head, s.floor, count(n.number), coalesce(min(n.number), s.floor + 1),
  coalesce(max(n.number), s.head), coalesce(sum(length(n.body)), 0) = s.bytes
FROM note_streams s LEFT JOIN notes n USING (id) GROUP BY s.id"""


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


@dataclass
class History:
    """A ledger as it was seen reading after reading: what was there once stays as it was, or is pruned as a prefix.

    `receipts` holds the hash of every receipt by its position minus one.  `answering` are clients that say something
    to requests of others: what they said is found by their name as well.
    """

    answering: tuple[str, ...] = ()

    floor: int = 0
    receipts: list[bytes] = field(default_factory=list[bytes])
    tips: dict[int, tuple[int, bytes]] = field(default_factory=dict[int, tuple[int, bytes]])

    def read(self, path: Path, scratch: Path) -> list[Recorded]:
        """Return the rows that are new since the last reading, having checked what any ledger must fulfil."""
        with closing(_open_copy(path, scratch)) as connection:
            assert connection.execute("PRAGMA integrity_check").get == "ok"
            (floor,) = connection.execute("SELECT value FROM meta WHERE key = 'floor'").fetchone()  # type: ignore[misc]
            assert self.floor <= floor <= len(self.receipts), "rows went that nobody has seen"
            self.floor = floor
            self._check_old(connection)
            head = len(self.receipts)
            rows = [
                Recorded(position, stream, sequence, bytes(link), bytes(receipt))
                for position, stream, sequence, link, receipt in connection.execute(_ROWS, (head,))
            ]
            self._check_new(rows)
            keys = list(connection.execute(_KEYS, (head,)))
            check_keys(rows, [one for one in keys if str(one[0]).split("\x1f")[0] not in self.answering])
            check_records(connection)
        return rows

    def _check_old(self, connection: apsw.Connection) -> None:
        """Every row that was seen before is as it was, unless it lies at or below the floor."""
        last = len(self.receipts)
        found = connection.execute("SELECT position, receipt FROM rows WHERE position <= ? ORDER BY position", (last,))
        kept = [(position, sha256(receipt).digest()) for position, receipt in found if position > self.floor]
        assert kept == list(enumerate(self.receipts[self.floor :], self.floor + 1))

    def _check_new(self, rows: list[Recorded]) -> None:
        """Positions and the sequences of each session go on by one, and every link follows from the one before it."""
        first = len(self.receipts) + 1
        assert [row.position for row in rows] == list(range(first, first + len(rows)))
        for row in rows:
            sequence, link = self.tips.get(row.stream, (0, bytes(32)))
            assert row.sequence == sequence + 1 == row.content["sequence"]
            assert row.link == sha256(link + row.receipt).digest()
            self.tips[row.stream] = (row.sequence, row.link)
            self.receipts.append(sha256(row.receipt).digest())


def read_ledger(path: Path, scratch: Path) -> list[Recorded]:
    """Return every row in position order, having checked what any ledger must fulfil."""
    return History().read(path, scratch)


def check_keys(rows: list[Recorded], keys: list[Any]) -> None:
    """Every keyed receipt is found by its key and by no other; no key stands for two receipts."""
    by_position = {row.position: row.content for row in rows}
    used = [content["idempotency_key"] for content in by_position.values() if content["idempotency_key"]]
    assert len(used) == len(set(used)) == len(keys)
    for key, position in keys:
        assert key.endswith(by_position[position]["idempotency_key"])


def check_records(connection: apsw.Connection) -> None:
    """The notes of each stream are floor + 1 to head, without a hole, and as large as the stream says."""
    for stream, head, floor, count, first, last, sized in connection.execute(_NOTES):
        assert (count, first, last, sized) == (head - floor, floor + 1, head, True), stream


def run_records(path: Path, scratch: Path, run_id: str) -> list[dict[str, Any]]:
    """Return the records of a run as plain data, by SQL and MessagePack alone."""
    query = "SELECT n.body FROM notes n JOIN note_streams s USING (id) WHERE s.stream = ? ORDER BY n.number"
    with closing(_open_copy(path, scratch)) as connection:
        return [msgpack.unpackb(body) for (body,) in connection.execute(query, (f"run/{run_id}",))]


def _open_copy(path: Path, scratch: Path) -> apsw.Connection:
    """Open a copy, so that nothing is touched that belongs to somebody else; a broker may go on with it meanwhile."""
    log = path.with_name(f"{path.name}-wal")
    while True:
        began = _beginning(log)
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir()
        # The file before its log: what comes into the file meanwhile is in the log as well, until that begins anew.
        for part in sorted(path.parent.glob(path.name + "*")):
            shutil.copy(part, scratch)
        if _beginning(log) == began:
            return apsw.Connection(str(scratch / path.name))


def _beginning(log: Path) -> bytes:
    """Return what tells a write-ahead log from the next one in the same file: its header."""
    with log.open("rb") if log.exists() else nullcontext() as file:
        return file.read(_HEADER_BYTES) if file else b""
