"""What is left of idempotency keys whose receipts were pruned: enough to refuse them, in 50 bytes.

See docs/contract.md 6.5.

A key moves from `keys` to here in the transaction that deletes its receipt, so that at every moment one of the two
tables knows it.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any, Final

import apsw
import msgspec
from msgspec import Struct

from lifebus_broker.ledger.batching import key_of
from lifebus_broker.ledger.sqlite.checksums import checksum, unguarded
from lifebus_broker.ledger.sqlite.schema import Execute, executor, open_reader
from lifebus_broker.ledger.sqlite.statements import insert_all, select_all
from lifebus_broker.ports import EMITTER, Known

EXPIRE_STEP: Final = 512
"""Most tombstones that one transaction removes, so that appends need not wait long."""

_KEY_BYTES: Final = 16
_DIGEST_BYTES: Final = 8
_RECEIPTS: Final = "SELECT position, receipt FROM rows WHERE position > ? AND position <= ?"
_KEYS: Final = "SELECT key, digest, position FROM keys WHERE key IN "
_FORGET: Final = "DELETE FROM keys WHERE key IN "
_NEW: Final = "INSERT OR REPLACE INTO tombstones VALUES "
_FIND: Final = "SELECT key, digest, pruned_at_epoch_s, checksum FROM tombstones WHERE key IN "
_ANY: Final = "SELECT EXISTS (SELECT 1 FROM tombstones)"
_REMOVE: Final = "DELETE FROM tombstones WHERE key = ? AND pruned_at_epoch_s < ?"
_FORGET_BEFORE: Final = "DELETE FROM tombstones WHERE pruned_at_epoch_s < ?"
_EXPIRED: Final = "SELECT key FROM tombstones WHERE key > ? AND pruned_at_epoch_s < ? ORDER BY key LIMIT ?"


class _Scope(Struct, frozen=True):
    """What of a receipt makes its keys."""

    client_id: str
    adapter_id: str
    idempotency_key: str | None
    telemetry_summary: dict[str, Any]


_SCOPES: Final = msgspec.json.Decoder(_Scope)


class Tombstones:
    """The writing half, inside the transactions of its store.  `exist` says whether there are any at all."""

    def __init__(self, execute: Execute) -> None:
        self._execute = execute
        self.exist = execute(_ANY).fetchall() == [(1,)]

    def add(self, after: int, last: int, at_epoch_s: int) -> bool:
        """Put the keys of receipts that are being deleted here; say whether there were any."""
        pruned = list(self._keys_between(after, last))
        if not pruned:
            return False
        select_all(self._execute, _FORGET, [key for key, _ in pruned])
        # sorted: neighbours in the tree are written together
        stones = sorted((_hash(key), digest[:_DIGEST_BYTES]) for key, digest in pruned)
        values = chain.from_iterable((*stone, at_epoch_s, checksum(*stone, at_epoch_s)) for stone in stones)
        insert_all(self._execute, _NEW, 4, list(values))
        return True

    def find(self, keys: Sequence[str]) -> dict[str, Known]:
        """Return what is left of the keys that are here (`find_tombstones`)."""
        return find_tombstones(self._execute, keys) if self.exist else {}

    def remove(self, stones: Iterable[bytes], before_epoch_s: int) -> None:
        """Remove tombstones that were put here before a second."""
        for stone in stones:
            self._execute(_REMOVE, (stone, before_epoch_s))

    def forget(self, before_epoch_s: int) -> None:
        """Remove all tombstones that were put here before a second."""
        self._execute(_FORGET_BEFORE, (before_epoch_s,))

    def refresh(self) -> None:
        """Find out again whether there are any."""
        self.exist = self._execute(_ANY).fetchall() == [(1,)]

    def _keys_between(self, after: int, last: int) -> Iterator[tuple[str, bytes]]:
        """Yield the keys that stand for receipts in a span of positions, and their digests.

        Raises:
            apsw.CorruptError: the file says something else than was written.
        """
        keys = [key for _, receipt in self._execute(_RECEIPTS, (after, last)).fetchall() for key in _keys_of(receipt)]
        for key, stored, position in select_all(self._execute, _KEYS, keys):
            digest = unguarded(key, stored, position)
            if digest is None:
                # a damaged digest would refuse the key for ever, so that is an error now
                raise apsw.CorruptError(f"the digest or position of an idempotency key is damaged (row {position})")
            if after < position <= last:  # the key of who reported the event may stand for another receipt
                yield key, digest


def find_tombstones(execute: Execute, keys: Sequence[str]) -> dict[str, Known]:
    """Return, for the keys whose receipts were pruned, the first bytes of their digests, and None for the row.

    Raises:
        apsw.CorruptError: the file says something else than was written.
    """
    names = {_hash(key): key for key in keys}
    found: dict[str, Known] = {}
    for stone, digest, at, check in select_all(execute, _FIND, list(names)):
        if check != checksum(stone, digest, at):
            raise apsw.CorruptError("the tombstone of an idempotency key is damaged")
        found[names[stone]] = (digest, None)
    return found


def expired_tombstones(path: Path, before_epoch_s: int, vfs: str | None = None) -> Iterator[list[bytes]]:
    """Yield the tombstones that were put there before a second, in pieces, on a connection of its own; blocks.

    Raises:
        apsw.Error: the file cannot be read.
    """
    last = b""
    with closing(open_reader(path, vfs=vfs)) as connection:
        execute = executor(connection)
        while True:
            piece = [stone for (stone,) in execute(_EXPIRED, (last, before_epoch_s, EXPIRE_STEP)).fetchall()]
            if not piece:
                return
            yield piece
            last = piece[-1]


def _keys_of(receipt: bytes) -> list[str]:
    """Return the receipt's own key and that of who reported the event, where it has them."""
    try:
        scope = _SCOPES.decode(receipt)
    except (msgspec.DecodeError, UnicodeError, TypeError):  # text where bytes belong is damage as well
        raise apsw.CorruptError("a row does not hold a receipt") from None
    if scope.idempotency_key is None:
        return []
    clients = [scope.client_id, scope.telemetry_summary.get(EMITTER)]
    names = dict.fromkeys(one for one in clients if isinstance(one, str))
    return [key_of(name, scope.adapter_id, scope.idempotency_key) for name in names]


def _hash(key: str) -> bytes:
    return sha256(key.encode(errors="surrogatepass")).digest()[:_KEY_BYTES]
