"""One pass over the rows of a ledger file in position order: chain, sequences, columns, keys, heads."""

from collections.abc import Iterator
from typing import Any, Final

import apsw
import msgspec
from msgspec import Struct, structs

from lifebus_broker.ledger.batching import emitter_key_of, frames_text, key_of, state_from
from lifebus_broker.ledger.sqlite.checksums import unguarded
from lifebus_broker.ledger.sqlite.schema import MARK_EVERY, MISREAD, executor, meta_of, snapshot
from lifebus_broker.state.session_head import INITIAL, HeadState, next_head
from lifebus_broker.state.stream_digests import NO_LINK, link_after, sequence_after
from lifebus_contract import Receipt

_PIECE: Final = 2048
_DECODER: Final = msgspec.json.Decoder(Receipt)

_ROWS: Final = """
SELECT r.position, r.stream, r.previous, r.sequence, r.at_epoch_s, r.event, r.status, r.ended, r.open_frames,
  r.harness_sequence, r.link, r.receipt, s.adapter_id, s.harness_session_id, s.first_position
FROM rows r LEFT JOIN streams s USING (stream) WHERE r.position > ? ORDER BY r.position LIMIT ?"""
_BEFORE: Final = """
SELECT position, sequence, link, ended, open_frames, harness_sequence FROM rows WHERE position = ?1 AND stream = ?2
UNION ALL
SELECT position, sequence, link, ended, open_frames, harness_sequence FROM bases WHERE position = ?1 AND stream = ?2"""
_SECOND_BEFORE: Final = "SELECT second FROM seconds WHERE position <= ? ORDER BY second DESC LIMIT 1"
_TIPS: Final = "SELECT stream, position FROM tips WHERE position > ?"
_STALE_TIPS: Final = """
SELECT t.stream, t.position FROM tips t LEFT JOIN bases b USING (stream)
WHERE t.position <= ?1 AND t.position > coalesce(b.position, 0)"""
_HEADLESS: Final = """
SELECT stream, first_position FROM streams
WHERE first_position <= ? AND stream NOT IN (SELECT stream FROM bases)"""


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
    """What the next row of a stream continues."""

    position: int = 0
    sequence: int = 0
    link: bytes = NO_LINK
    state: HeadState = INITIAL
    computed: bytes | None = None
    """The link that the row should have, where it has another: the next row may continue either."""


def _as_written(row: _Row) -> _Seen:
    """Return what the next row continues where this one cannot be folded: what its own columns say."""
    return _Seen(
        row.position, row.sequence or 0, row.link, state_from(row.ended, row.open_frames, row.harness_sequence)
    )


class RowsCheck:
    """The pass, and what the heads of the streams say once it has seen every row."""

    def __init__(self, connection: apsw.Connection, *, numbered: bool = True) -> None:
        self._numbered = numbered
        self._connection = connection
        self._execute = executor(connection)
        self._wrong: list[str] = []
        self._seen: dict[int, _Seen] = {}
        self._second: int | None = None
        # what continues one of these cannot be compared, and a damaged row is one finding
        self._missing: list[tuple[int, int]] = []
        self._aside: set[int] = set()
        self._foreign: set[int] = set()
        self._floor = self._first_pruned = self._pointed = self._head = 0
        self._pointers: dict[int, int] = {}
        self._newest: dict[int, int] = {}

    def run(self, tail: int | None, most: int) -> list[str]:
        """Return the findings about the newest `tail` rows, or about all."""
        with snapshot(self._connection):
            begun = meta_of(self._execute)
            self._head = max(self._one("SELECT max(position) FROM rows") or 0, begun["floor"])
            self._first_pruned, self._pointed = begun["pruned"], begun["pointed"]
            if tail is None:
                self._pointers = dict(self._execute(_TIPS, (begun["pruned"],)).fetchall())
        following = 1 if tail is None else max(self._head - tail, 0) + 1
        while following <= self._head and len(self._wrong) < most:
            with snapshot(self._connection):
                following = self._piece(following)
        return self._wrong[:most]

    def check_slice(self, following: int, rows: int) -> tuple[int, int]:
        """Check up to so many rows from a position on; return where to go on, and the newest position."""
        with snapshot(self._connection):
            begun = meta_of(self._execute)
            self._head = max(self._one("SELECT max(position) FROM rows") or 0, begun["floor"])
            self._pointed = begun["pointed"]
            return self._piece(following, rows), self._head

    @property
    def findings(self) -> list[str]:
        """What was found so far."""
        return self._wrong

    def check_streams(self) -> list[str]:
        """Return what is wrong with the pointers and heads, as far as the pass over all rows shows it.

        After a damaged row, and when something was pruned meanwhile, it cannot say anything.
        """
        with snapshot(self._connection) as execute:
            pruned = meta_of(execute)["pruned"]
            # the pointers were read before the pass: what was pruned since makes them differ without damage
            if self._wrong or pruned != self._first_pruned:
                return []
            astray = sorted(set(self._pointers.items()) ^ set(self._newest.items()))
            wrong = [
                f"row {position}: the pointer of stream {stream} is not as the rows say" for stream, position in astray
            ]
            for stream, position in execute(_STALE_TIPS, (pruned,)).fetchall():
                wrong.append(f"row {position}: the pointer of stream {stream} leads to a row that was pruned")
            for stream, position in execute(_HEADLESS, (self._head,)).fetchall():
                if stream not in self._seen:
                    wrong.append(f"row {position}: stream {stream} holds no receipt")
        return wrong

    def _piece(self, following: int, rows: int = _PIECE) -> int:
        """Check some rows as of one moment; return the position to go on with."""
        meta = meta_of(self._execute)
        self._floor = meta["floor"]
        if following <= meta["pruned"]:  # where the ledger begins, or what was pruned meanwhile
            following = meta["pruned"] + 1
            self._seen.clear()
        if self._second is None or following <= self._floor:
            self._second = self._one(_SECOND_BEFORE, max(following - 1, self._floor)) or 0
        try:
            for values in executor(self._connection)(_ROWS, (following - 1, rows)):
                row = _Row(*values)
                if row.position != following:
                    self._note(following, "is missing")
                    self._missing.append((following, row.position - 1))
                # from the row found, so that one missing range is one finding
                following = row.position + 1
                self._check_safely(row)
        except UnicodeDecodeError:
            # one row holds it, and those behind it can be read
            self._note(following, "holds text that is none")
            self._aside.add(following)
            return following + 1
        except MISREAD as fault:
            self._note(following, f"cannot be read ({type(fault).__name__}: {str(fault)[:160]})")
            # where a page cannot be read, SQLite gives no row behind it either: the pass ends here
            return self._head + 1
        return following

    def _check_safely(self, row: _Row) -> None:
        """Compare one row; a value of the wrong kind is damage as well."""
        try:
            receipt = _DECODER.decode(row.receipt)
            # a link of the wrong type would only fail at the next row, and be reported there
            link_after(row.link, row.receipt)
        except (msgspec.DecodeError, UnicodeError, TypeError):
            self._set_aside(row, "does not hold a receipt")
            return
        try:
            self._check(row, receipt)
        except MISREAD as fault:
            self._set_aside(row, f"what belongs to it cannot be read ({type(fault).__name__})")

    def _set_aside(self, row: _Row, what: str) -> None:
        """Note a row that the next one of its stream cannot be compared with."""
        self._note(row.position, what)
        self._aside.add(row.position)

    def _is_unusable(self, position: object) -> bool:
        """Whether a row is missing, or was set aside: what leads to it is not wrong for that."""
        if not isinstance(position, int):
            return False
        return position in self._aside or any(first <= position <= last for first, last in self._missing)

    def _check(self, row: _Row, receipt: Receipt) -> None:
        """Compare one row with its receipt and with the row before it in its stream; the first difference counts."""
        session = receipt.harness_session_id
        if (row.adapter_id, row.session) != (receipt.adapter_id, session or ""):
            # of a stream whose name was changed, every row would be a finding
            if row.stream in self._foreign:
                self._aside.add(row.position)
            else:
                self._foreign.add(row.stream)
                self._set_aside(row, "stream does not match")
            return
        columns = (receipt.at_epoch_s, receipt.event, receipt.status)
        wrong = None if (row.at_epoch_s, row.event, row.status) == columns else "search columns"
        if self._is_unusable(row.previous):
            seen = _as_written(row)
        else:
            seen, differs = self._continued(row, receipt)
            wrong = differs or wrong
        # keys, marks and seconds of pruned rows go before the rows themselves
        if wrong is None and row.position > self._floor:
            wrong = next(self._lacks(row, receipt), None)
        if wrong is not None:
            self._note(row.position, f"{wrong} does not match")
        self._seen[row.stream] = seen
        # pointers lag behind the rows: only those up to `pointed` must be right
        if row.position <= self._pointed:
            self._newest[row.stream] = row.position

    def _continued(self, row: _Row, receipt: Receipt) -> tuple[_Seen, str | None]:
        """Return what the next row continues, and the first thing in which this one does not continue its own."""
        before = self._seen.get(row.stream) or self._before(row)
        sequence = sequence_after(before.sequence, receipt.harness_session_id)
        claimed = sequence if self._numbered else None
        state = next_head(before.state, receipt.event, receipt.telemetry_summary)
        link = link_after(before.link, row.receipt)
        if row.link != link and (before.computed is None or row.link != link_after(before.computed, row.receipt)):
            # the receipt is what is wrong, or the link: the next row shows which, and the columns stand for the state
            return structs.replace(_as_written(row), computed=link), "link (hash chain)"
        folded = (state.ended, frames_text(state), state.harness_sequence)
        pairs: tuple[tuple[str, object, object], ...] = (
            ("previous position", row.previous, before.position),
            ("sequence", (row.sequence, receipt.sequence), (sequence, claimed)),
            ("head", (row.ended, row.open_frames, row.harness_sequence), folded),
        )
        wrong = next((what for what, stored, expected in pairs if stored != expected), None)
        return _Seen(row.position, sequence or 0, row.link, state), wrong

    def _lacks(self, row: _Row, receipt: Receipt) -> Iterator[str]:
        """Yield what of the tables beside the rows does not lead to this one."""
        if receipt.idempotency_key is not None:
            key = key_of(receipt.client_id, receipt.adapter_id, receipt.idempotency_key)
            if self._position_of(key) != row.position:
                yield "idempotency key"
            further = emitter_key_of(receipt)
            if further is not None and not self._is_known(further, row.position):
                yield "the emitter's idempotency key"
        if row.sequence is not None and row.sequence % MARK_EVERY == 0:
            statement = "SELECT count(*) FROM marks WHERE stream = ? AND position = ?"
            if self._one(statement, row.stream, row.position) != 1:
                yield "mark"
        if receipt.at_epoch_s > (self._second or 0):
            self._second = receipt.at_epoch_s
            first = self._one("SELECT position FROM seconds WHERE second = ?", receipt.at_epoch_s)
            if first != row.position and not self._is_unusable(first):
                yield "the index by time"

    def _is_known(self, emitter_key: str, position: int) -> bool:
        """Whether the key stands for a receipt up to a position, or may have done so for one that was pruned."""
        found = self._position_of(emitter_key)
        return self._floor > 0 if found is None else 0 < found <= position

    def _position_of(self, key: str) -> int | None:
        """Return where a key leads: 0 where it is not what was written, None where it is unknown."""
        found = self._first("SELECT digest, position FROM keys WHERE key = ?", key)
        if found is None:
            return None
        return int(found[1]) if unguarded(key, found[0], found[1]) is not None else 0

    def _before(self, row: _Row) -> _Seen:
        """Return what a row continues that is not part of this pass."""
        if row.position == row.first_position:
            return _Seen()
        found = self._first(_BEFORE, row.previous, row.stream)
        if found is None:
            return _Seen()
        position, sequence, link, *state = found
        return _Seen(position, sequence or 0, link, state_from(*state))

    def _note(self, position: int, what: str) -> None:
        self._wrong.append(f"row {position}: {what}")

    def _one(self, statement: str, *values: object) -> Any:
        found = self._first(statement, *values)
        return None if found is None else found[0]

    def _first(self, statement: str, *values: object) -> Any:
        # to its end: a read that is left open outlasts its transaction, and the log cannot be cut off meanwhile
        return next(iter(self._execute(statement, values).fetchall()), None)
