"""The log of a ledger file, read from beginning to end on a connection of its own (docs/ledger.md D4).

Read in pieces, each in a transaction of its own, so that the write-ahead log can be reset meanwhile.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, Self

import apsw
import msgspec
from msgspec import Struct

from lifebus_broker.ledger.batching import key_of
from lifebus_broker.ledger.log import LinkedRecord, LogLine
from lifebus_broker.ledger.sqlite.checks.stream_heads import read_heads
from lifebus_broker.ledger.sqlite.checksums import unguarded
from lifebus_broker.ledger.sqlite.format import require_format
from lifebus_broker.ledger.sqlite.record_chain import BrokenChain, RecordChain, streams_with_ids
from lifebus_broker.ledger.sqlite.schema import executor, open_reader
from lifebus_broker.ledger.sqlite.sealed_file import new_sealed_items
from lifebus_broker.ports import Record
from lifebus_broker.state.sealed import SealedItems
from lifebus_broker.state.stream_digests import Stream, StreamKey
from lifebus_contract import InternalError

_PIECE: Final = 512
_META: Final = "SELECT value FROM meta WHERE key = ?"
_HEAD: Final = "SELECT coalesce(max(position), (SELECT value FROM meta WHERE key = 'floor')) FROM rows"
_ROWS: Final = "SELECT position, link, receipt FROM rows WHERE position > ? AND position <= ? ORDER BY position LIMIT ?"
_KEYS: Final = f"SELECT key, digest, position FROM keys WHERE key IN ({','.join('?' * _PIECE)})"  # noqa: S608  places only


class _Scope(Struct, frozen=True):
    """What of a receipt makes its key."""

    client_id: str
    adapter_id: str
    idempotency_key: str | None


_SCOPES: Final = msgspec.json.Decoder(_Scope)


class SqliteLog:
    """Implements `log.LogSource` on a ledger file that may be written meanwhile.  Used by one thread at a time.

    `floor`, `head` and `base` are as of the moment of asking.  Every method raises `InternalError` with the code
    ``ledger_damaged`` where the file holds something else than was written, and ``ledger_failed`` where it cannot be
    read.
    """

    def __init__(self, path: Path, vfs: str | None = None) -> None:
        """Open the file to read it.

        Raises:
            InternalError: it is not there, no database, or of another format.
        """
        self._path, self._name = path, path.name
        with self._reading():
            self._connection = open_reader(path, vfs=vfs)
        try:
            with self._reading():
                require_format(self._connection)
        except InternalError:
            self._connection.close()
            raise
        self._execute = executor(self._connection)

    def __enter__(self) -> Self:
        """Return the log; leaving closes it."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close the file."""
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._connection.close()

    @property
    def epoch(self) -> str:
        """The random id of this history, as 32 hex digits."""
        with self._reading():
            return str(self._one(_META, "epoch"))

    @property
    def floor(self) -> int:
        """The position of the newest pruned row, 0 while nothing was pruned."""
        with self._reading():
            return int(self._one(_META, "floor"))

    @property
    def head(self) -> int:
        """The position of the newest committed row, `floor` when there is none."""
        with self._reading():
            return max(int(self._one(_HEAD)), int(self._one(_META, "floor")))

    def base(self) -> bytes | None:
        """Return what `Ledger.prune` kept in place of the rows, None where nothing was pruned (log.LogSource.base)."""
        with self._reading():
            found = self._execute("SELECT body, sha256 FROM base").fetchall()
            if not found:
                return None
            body: bytes = found[0][0]
            if sha256(body).digest() == found[0][1]:
                return body or None  # a ledger that drops receipts by itself has no dump for them
        raise self._damaged("the base is not what its hash says")

    def lines(self, after: int, through: int) -> Iterator[LogLine]:
        """Return lines of the log in order (log.LogSource.lines).

        Raises:
            InternalError: also with the code ``history_pruned``, where lines that were asked for are gone by now.
        """
        # what is committed after this moment belongs to the next reading
        through = min(through, self.head)
        while after < through:
            with self._reading():
                piece: list[LogLine] = self._piece(after, through)
            for line in piece:
                # positions have no gaps: a missing one is damage
                if line.position != after + 1:
                    raise self._damaged(f"row {after + 1}: it is missing")
                yield line
                after = line.position
            if not piece:
                raise self._damaged(f"row {after + 1}: it is missing")

    def newest(self) -> dict[StreamKey, Stream]:
        """Return where every stream is, as of one moment, from the file's own tables."""
        with self._reading():
            return read_heads(self._execute)

    def new_sealed_items(self) -> SealedItems:
        """Return a file without a name beside this one (log.LedgerLog.new_sealed_items)."""
        return new_sealed_items(self._path.parent)

    def records(self, prefix: str) -> Iterator[Record]:
        """Return the kept records of some streams (log.LogSource.records)."""
        with self._reading():
            streams = streams_with_ids(self._connection, prefix)
        for number, name in streams:
            yield from (linked.record for linked in self._chain(number, name))

    def chain(self, stream: str) -> Iterator[LinkedRecord]:
        """Return the kept records of one stream with their links (log.LogSource.chain)."""
        with self._reading():
            found = [number for number, name in streams_with_ids(self._connection, stream) if name == stream]
        for number in found:
            yield from self._chain(number, stream)

    def _chain(self, number: int, name: str) -> Iterator[LinkedRecord]:
        records = iter(RecordChain(self._connection, number))
        while True:
            try:
                with self._reading():
                    linked = next(records, None)
            except BrokenChain as fault:
                raise self._damaged(f"notes `{name[:128]}`: {fault}") from None
            if linked is None:
                return
            yield linked

    def _piece(self, after: int, through: int) -> list[LogLine]:
        """Return the next lines, as of one moment."""
        self._execute("BEGIN")
        try:
            # a prune may have happened since the piece before
            if after < self._one(_META, "floor"):
                raise InternalError(f"the rows after {after} were pruned meanwhile", code="history_pruned")
            rows: list[Any] = self._execute(_ROWS, (after, through, _PIECE)).fetchall()
            keys = [self._key(position, receipt) for position, _, receipt in rows]
            bound = keys + [None] * (_PIECE - len(keys))
            found = {key: (digest, at) for key, digest, at in self._execute(_KEYS, bound)}
        finally:
            if self._connection.in_transaction:  # some errors end it by themselves
                self._execute("ROLLBACK")
        return [self._line(row, key, found) for row, key in zip(rows, keys, strict=True)]

    def _key(self, position: int, receipt: bytes) -> str | None:
        """Return the text under which the receipt's own key is stored."""
        try:
            scope = _SCOPES.decode(receipt)
        except (msgspec.DecodeError, UnicodeError, TypeError):  # text where bytes belong is damage as well
            raise self._damaged(f"row {position}: does not hold a receipt") from None
        if scope.idempotency_key is None:
            return None
        return key_of(scope.client_id, scope.adapter_id, scope.idempotency_key)

    def _line(self, row: Any, key: str | None, found: dict[str, tuple[bytes, int]]) -> LogLine:
        position, link, receipt = row
        if not isinstance(link, bytes) or not isinstance(receipt, bytes):
            raise self._damaged(f"row {position}: does not hold a receipt")
        if key is None:
            return LogLine(position, None, link.hex(), receipt)
        stored, at = found.get(key, (b"", 0))
        digest = unguarded(key, stored, at)
        if digest is None or at != position:
            raise self._damaged(f"row {position}: idempotency key does not match")
        return LogLine(position, digest.hex(), link.hex(), receipt)

    def _one(self, statement: str, *values: str) -> Any:
        ((value,),) = self._execute(statement, values).fetchall()  # to its end: a read that goes on holds up the disk
        return value

    @contextmanager
    def _reading(self) -> Generator[None]:
        """Turn what SQLite says of the file into our errors."""
        try:
            yield
        except apsw.Error as fault:
            raise self._failed(fault) from fault
        except (UnicodeDecodeError, AttributeError, TypeError, ValueError) as fault:  # a value is not of its kind
            raise self._damaged(f"a value is not of its kind ({type(fault).__name__})") from fault

    def _failed(self, fault: apsw.Error) -> InternalError:
        detail = f"the ledger {self._name} cannot be read: {type(fault).__name__}: {str(fault)[:200]}"
        return InternalError(detail, code="ledger_failed")

    def _damaged(self, what: str) -> InternalError:
        return InternalError(f"the ledger {self._name} is damaged: {what}", code="ledger_damaged")
