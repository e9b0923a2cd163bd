"""Make a ledger file from an export: every receipt and note is drafted anew, as it was at first, and compared.

So numbers, links, keys and heads are not copied but follow again from the receipts, by the code that an append runs;
what does not come out as the export says it is refused, by its position.
"""

from collections.abc import Iterator
from contextlib import closing
from hashlib import sha256
from itertools import islice
from pathlib import Path
from typing import Final

import apsw
import msgspec
from msgspec.structs import force_setattr

from lifebus_broker.exports.lines import HeadLine, RecordLine, StreamLine, TombstoneLine, body_of
from lifebus_broker.exports.writer import ExportSource
from lifebus_broker.ledger.batching import Batch, emitter_key_of, key_of
from lifebus_broker.ledger.log import LogLine
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.sqlite.format import create, set_meta
from lifebus_broker.ledger.sqlite.schema import Execute, executor, open_writer
from lifebus_broker.ledger.sqlite.statements import KEEP_BASE
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ports import NewReceipt, NewRecord
from lifebus_contract import InvalidRequest, LifebusError, Receipt
from lifebus_contract.codec import decode_receipt

_BATCH: Final = 512
_STREAM: Final = "INSERT INTO streams SELECT ?1, ?2, ?3, ?4, ?5, checksum(?1, ?2, ?3, ?4, ?5)"
_TEN: Final = "?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10"
_BASE_ROW: Final = f"INSERT INTO bases SELECT {_TEN}, checksum({_TEN})"
_TOMBSTONE: Final = "INSERT INTO tombstones SELECT ?1, ?2, ?3, checksum(?1, ?2, ?3)"
_SEVEN: Final = "?1, ?2, ?3, ?4, ?5, ?6, ?7"
_NOTES: Final = f"INSERT INTO note_streams SELECT {_SEVEN}, checksum({_SEVEN})"


def build_ledger(source: ExportSource, path: Path, epoch: str) -> None:
    """Write the ledger of an export into an empty file, as a history of its own; blocks.

    Raises:
        InvalidRequest: the export does not follow (code ``export_damaged``); the text names the first bad position.
        apsw.Error: the file cannot be written.
    """
    with closing(open_writer(path, durability="relaxed")) as connection:  # who asked syncs it when it is whole
        create(connection, epoch)
        with connection:
            _write_past(source, executor(connection))
    with closing(Store.open(path, epoch=epoch, durability="relaxed")) as store:
        lines = source.lines(source.floor, source.head)
        while batch := list(islice(lines, _BATCH)):
            _write_lines(store, batch)
        for items in _note_batches(source.journal()):
            _write_notes(store, items)
        store.checkpoint()


def _write_past(source: ExportSource, execute: Execute) -> None:
    """Write what is left of pruned receipts and dropped notes, on which all else goes on."""
    set_meta(execute, floor=source.floor, pruned=source.floor, pointed=source.floor)
    base = source.base()
    if base is not None:
        execute(KEEP_BASE, (source.floor, base, sha256(base).digest()))
    for number, head in enumerate(source.heads(), 1):
        _write_head(execute, number, head, source.floor)
    for one in source.tombstones():
        _insert(execute, _TOMBSTONE, _tombstone(one), f"the tombstone {one.key}")
    tips = (item for item in source.journal() if isinstance(item, StreamLine))
    for number, tip in enumerate(tips, 1):
        link = bytes.fromhex(tip.link)
        values = (number, tip.stream, tip.floor, tip.floor, 0, link, link)
        _insert(execute, _NOTES, values, f"the notes `{tip.stream[:64]}`")


def _write_head(execute: Execute, number: int, head: HeadLine, floor: int) -> None:
    where = f"the head of {head.adapter_id[:64]}/{head.session[:64]}"
    if not head.first_position <= head.position <= floor:
        raise _refuse(f"{where}: its positions do not lie up to the floor {floor}")
    stream = (number, head.adapter_id, head.session, head.first_position, head.started_at_epoch_s)
    _insert(execute, _STREAM, stream, where)
    frames = msgspec.json.encode(head.open_frames).decode() if head.open_frames else None
    fold = (int(head.ended), frames, head.harness_sequence, bytes.fromhex(head.link))
    row = (number, head.position, head.sequence, head.at_epoch_s, head.event, head.status, *fold)
    _insert(execute, _BASE_ROW, row, where)


def _tombstone(one: TombstoneLine) -> tuple[object, ...]:
    return bytes.fromhex(one.key), bytes.fromhex(one.digest), one.pruned_at_epoch_s


def _insert(execute: Execute, statement: str, values: tuple[object, ...], where: str) -> None:
    """Insert one row; what is there already cannot be in an export twice."""
    try:
        execute(statement, values)
    except apsw.ConstraintError:
        raise _refuse(f"{where}: it stands there twice") from None


def _write_lines(store: Store, lines: list[LogLine]) -> None:
    """Draft the receipts anew, compare, and commit them."""
    receipts = [_receipt_of(line) for line in lines]
    # without the known keys a repeated one would only fail in the commit, and name no position
    known = store.lookup(_keys(receipts))
    batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known=known)
    for line, receipt in zip(lines, receipts, strict=True):
        _repeat(batch, line, receipt)
    store.write(batch)


def _receipt_of(line: LogLine) -> Receipt:
    try:
        receipt = decode_receipt(line.receipt)
    except LifebusError as fault:
        raise _refuse(f"position {line.position}: it holds no receipt: {fault.detail[:200]}") from None
    if (receipt.idempotency_key is None) != (line.digest is None):
        raise _refuse(f"position {line.position}: its digest does not belong to its idempotency key")
    return receipt


def _repeat(batch: Batch, line: LogLine, receipt: Receipt) -> None:
    """Record the receipt as it was recorded at first; what comes of it must be what the line says."""
    where = f"position {line.position}"
    sequence, place = receipt.sequence, (receipt.adapter_id, receipt.harness_session_id)
    force_setattr(receipt, "sequence", None)
    digest = None if line.digest is None else bytes.fromhex(line.digest)
    (result,) = batch.add([NewReceipt(receipt=receipt, digest=digest)])
    row = result.stored
    if row is None or result.replayed:
        raise _refuse(f"{where}: its idempotency key was there before")
    if row.position != line.position:
        raise _refuse(f"{where}: {row.position} should stand here")
    if row.sequence != sequence:
        raise _refuse(f"{where}: its sequence is {sequence}, and {row.sequence} would follow")
    if row.receipt != line.receipt:
        raise _refuse(f"{where}: its receipt is not in the canonical form")
    if batch.tips[place].link.hex() != line.link:
        raise _refuse(f"{where}: its link does not follow from the receipts before it (hash chain)")


def _keys(receipts: list[Receipt]) -> list[str]:
    """Return the keys that the receipts are filed under, those of their emitters as well."""
    keyed = [one for one in receipts if one.idempotency_key is not None]
    own = [key_of(one.client_id, one.adapter_id, one.idempotency_key or "") for one in keyed]
    return own + [key for key in map(emitter_key_of, keyed) if key is not None]


def _note_batches(items: Iterator[StreamLine | RecordLine]) -> Iterator[list[RecordLine]]:
    """Yield the notes stream by stream, and see that every stream is as long as it says."""
    tip: StreamLine | None = None
    batch: list[RecordLine] = []
    number = 0
    for item in items:
        if isinstance(item, StreamLine):
            yield batch
            _require_end(tip, number)
            tip, batch, number = item, [], item.floor
            continue
        number += 1
        if tip is None or item.stream != tip.stream or item.number != number:
            raise _refuse(f"note {item.number} of `{item.stream[:64]}`: it is not the next one of its stream")
        batch.append(item)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    yield batch
    _require_end(tip, number)


def _require_end(tip: StreamLine | None, number: int) -> None:
    if tip is not None and number != tip.head:
        raise _refuse(f"the notes `{tip.stream[:64]}` end with {number}, not with {tip.head}")


def _write_notes(store: Store, items: list[RecordLine]) -> None:
    """Draft notes of one stream anew, compare their links, and commit them."""
    if not items:
        return
    notes = RecordBatch(store.records.tip_of)
    for item in items:
        try:
            notes.add([NewRecord(item.stream, body_of(item.body))], item.at_epoch_s)
        except ValueError as fault:
            raise _refuse(f"note {item.number} of `{item.stream[:64]}`: {fault}") from None
        if notes.tips[item.stream].link.hex() != item.link:
            raise _refuse(f"note {item.number} of `{item.stream[:64]}`: its link does not follow (hash chain)")
    batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
    store.write(batch, notes)


def _refuse(detail: str) -> InvalidRequest:
    return InvalidRequest(detail, code="export_damaged")
