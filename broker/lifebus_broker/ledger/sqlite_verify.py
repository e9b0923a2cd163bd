"""Check a ledger file against itself: chain, sequences, keys, heads, notes (design 4.4, 4.5).

Reads in pieces on a connection of its own, so that neither the writer nor other readers wait, and the
write-ahead log can be reset meanwhile.

Above: sqlite (boot, `verify`), command line.  Below: sqlite_schema, drafting, fold.
"""

from contextlib import closing
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
from msgspec import Struct

from lifebus_broker.fold.facts import NO_LINK, link_after, sequence_after
from lifebus_broker.fold.session import INITIAL, SessionState, advance
from lifebus_broker.ledger.drafting import emitter_key_of, frames_text, key_of, state_from
from lifebus_broker.ledger.sqlite_format import require_format
from lifebus_broker.ledger.sqlite_notes import check_notes_of
from lifebus_broker.ledger.sqlite_schema import executor, open_reader
from lifebus_contract import Receipt

__all__ = ["verify"]

_PIECE: Final = 2048
_MOST: Final = 20
_DECODER: Final = msgspec.json.Decoder(Receipt)

_ROWS: Final = """
SELECT r.position, r.stream, r.previous, r.sequence, r.at_epoch_s, r.event, r.status, r.ended, r.open_frames,
  r.harness_sequence, r.link, r.receipt, s.adapter_id, s.harness_session_id, s.first_position
FROM rows r LEFT JOIN streams s USING (stream) WHERE r.position > ? ORDER BY r.position LIMIT ?"""
_BEFORE: Final = """
SELECT position, sequence, link, ended, open_frames, harness_sequence FROM rows WHERE position = ?1 AND stream = ?2
UNION ALL
SELECT position, sequence, link, ended, open_frames, harness_sequence FROM bases WHERE position = ?1 AND stream = ?2"""


def verify(path: Path, tail: int | None = None, vfs: str | None = None) -> list[str]:
    """Return what is wrong with the newest `tail` rows, or with the whole ledger; at most 20 findings.

    Of the journal the ends of every stream are looked at, or everything.

    Raises:
        apsw.Error: the file cannot be read at all.
        InternalError: it is of another format.
    """
    with closing(open_reader(path, vfs=vfs)) as connection:
        require_format(connection)
        wrong = _Check(connection).run(tail) + check_notes_of(connection, whole=tail is None)
        return wrong[:_MOST]


class _Row(Struct, frozen=True):
    """A row as `_ROWS` selects it."""

    position: int
    stream: int
    previous: int
    sequence: int | None
    at_epoch_s: int
    event: str
    status: str
    ended: int
    open_frames: str | None
    harness_sequence: int | None
    link: bytes
    receipt: bytes
    adapter_id: str | None
    session: str | None
    first_position: int | None


class _Seen(Struct, frozen=True):
    """What the row before left behind in its stream."""

    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK
    state: SessionState = INITIAL


class _Check:
    """One pass over the rows, in position order."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._execute = executor(connection)
        self._wrong: list[str] = []
        self._seen: dict[int, _Seen] = {}
        self._keys = 0

    def run(self, tail: int | None) -> list[str]:
        """Return the findings of one pass."""
        pruned, pointed = self._meta("pruned"), self._meta("pointed")
        pointers = dict(self._execute("SELECT stream, position FROM tips WHERE position > ?", (pruned,)).fetchall())
        head = self._execute("SELECT max(position) FROM rows").fetchone()[0] or pruned
        expected = max(pruned, head - tail if tail is not None else 0) + 1
        newest: dict[int, int] = {}
        while expected <= head and len(self._wrong) < _MOST:
            for values in self._execute(_ROWS, (expected - 1, _PIECE)).fetchall():
                row = _Row(*values)
                if row.position != expected and row.position != self._skip():
                    self._note(row.position, f"position {expected} is missing")
                expected = row.position + 1
                self._check(row)
                if row.position <= pointed:
                    newest[row.stream] = row.position
        if tail is None and self._meta("pruned") == pruned and not self._wrong:
            self._check_index(pointers, newest, pruned)
        return self._wrong[:_MOST]

    def _skip(self) -> int:
        """Return the first position that is left, and forget the streams: rows were pruned meanwhile."""
        self._seen.clear()
        return self._meta("pruned") + 1

    def _check(self, row: _Row) -> None:
        """Compare one row with its receipt and with the row before it in its stream."""
        try:
            receipt = _DECODER.decode(row.receipt)
            link_after(row.link, row.receipt)
        except (msgspec.DecodeError, UnicodeError, TypeError):  # text where bytes belong is damage as well
            self._note(row.position, "does not hold a receipt")
            return
        before = self._seen.get(row.stream) or self._before(row)
        session = receipt.harness_session_id
        sequence = sequence_after(before.sequence, session)
        state = advance(before.state, receipt.event, receipt.telemetry_summary)
        link = link_after(before.link, row.receipt)
        self._compare(row, "link (hash chain)", row.link, link)
        self._compare(row, "previous position", row.previous, before.position)
        self._compare(row, "sequence", (row.sequence, receipt.sequence), (sequence, sequence))
        self._compare(row, "stream", (row.adapter_id, row.session), (receipt.adapter_id, session or ""))
        columns = (receipt.at_epoch_s, receipt.event, receipt.status)
        self._compare(row, "search columns", (row.at_epoch_s, row.event, row.status), columns)
        folded = (state.ended, frames_text(state), state.harness_sequence)
        self._compare(row, "head", (row.ended, row.open_frames, row.harness_sequence), folded)
        if receipt.idempotency_key is not None:
            self._check_key(row, key_of(receipt.client_id, receipt.adapter_id, receipt.idempotency_key))
            self._check_emitter_key(row, emitter_key_of(receipt))
        self._seen[row.stream] = _Seen(row.position, sequence or 0, row.link, state)

    def _check_key(self, row: _Row, key: str) -> None:
        self._keys += 1
        found = self._execute("SELECT position FROM keys WHERE key = ?", (key,)).fetchone()
        self._compare(row, "idempotency key", found, (row.position,))

    def _check_emitter_key(self, row: _Row, key: str | None) -> None:
        """Look for the reporter's key: it stands for this receipt or for an earlier one."""
        if key is not None:
            found = self._execute("SELECT position <= ? FROM keys WHERE key = ?", (row.position, key)).fetchone()
            if found is not None or not self._meta("pruned"):  # it may have been pruned with its receipt
                self._compare(row, "the emitter's idempotency key", found, (1,))

    def _check_index(self, pointers: dict[int, int], newest: dict[int, int], pruned: int) -> None:
        """Compare what only a pass over everything can tell."""
        if pointers != newest:
            self._wrong.append("the pointers to the newest rows differ from the rows")
        count = self._execute("SELECT count(*) FROM keys WHERE position > ?", (pruned,)).fetchone()[0]
        if count < self._keys:
            self._wrong.append(f"{count} idempotency keys for {self._keys} receipts")
        found = self._execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            self._wrong.append(f"SQLite: {str(found)[:200]}")

    def _before(self, row: _Row) -> _Seen:
        """Return what a row continues that is not part of this pass."""
        if row.position == row.first_position:
            return _Seen()
        found = self._execute(_BEFORE, (row.previous, row.stream)).fetchone()
        if found is None:
            return _Seen()
        position, sequence, link, *state = found
        return _Seen(position, sequence or 0, link, state_from(*state))

    def _compare(self, row: _Row, what: str, stored: Any, expected: Any) -> None:
        if stored != expected:
            self._note(row.position, f"{what} does not match")

    def _note(self, position: int, what: str) -> None:
        if position > self._meta("pruned"):  # else it was pruned since it was read, with what it stands on
            self._wrong.append(f"row {position}: {what}")

    def _meta(self, key: str) -> int:
        return int(self._execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()[0])
