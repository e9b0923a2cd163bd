"""Receipts as rows of a table, as CSV and as Parquet (docs/receipt-tables.md).

The columns are those of the contract, under its names and in an order that stays; new ones are added at the end.
"""

import csv
import io
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import IO, TYPE_CHECKING, Final

import msgspec

from lifebus.cli.exit_codes import UsageError
from lifebus.cli.read.receipt_pages import ReceiptPage

if TYPE_CHECKING:
    from arro3.core import RecordBatch, Schema

_ROW_GROUP: Final = 65_536
"""Receipts of one group of a Parquet file: what a reader may skip, and what is held until it is written."""


class ReceiptColumns(msgspec.Struct, frozen=True):
    """A receipt whose parts that are no text and no number stay as the JSON that they are."""

    receipt_id: str
    sequence: int | None
    at_epoch_s: int
    adapter_id: str
    harness_session_id: str | None
    harness_run_id: str | None
    harness_task_id: str | None
    client_id: str
    event: str
    event_id: str
    invocation_id: str
    parent_receipt_id: str | None
    integration_mode: str
    idempotency_key: str | None
    status: str
    failure_class: str | None
    retry_class: str | None
    schema_version: str
    telemetry_summary: msgspec.Raw
    payload_receipts: msgspec.Raw
    capability_degradations: msgspec.Raw
    warnings: msgspec.Raw


_FIELDS: Final = ReceiptColumns.__struct_fields__
COLUMNS: Final = ("epoch", "position", *_FIELDS)
"""The names of the columns, in their order."""

_NUMBERS: Final = frozenset({"position", "sequence", "at_epoch_s"})
_DECODER: Final = msgspec.json.Decoder(ReceiptColumns)

Cell = str | int | None


def rows_of(page: ReceiptPage) -> Iterator[tuple[Cell, ...]]:
    """Yield the rows of a page."""
    for one in page.rows:
        found = _DECODER.decode(one.receipt)
        cells = (getattr(found, name) for name in _FIELDS)
        yield (page.epoch, one.position, *(bytes(c).decode() if isinstance(c, msgspec.Raw) else c for c in cells))


def csv_text(rows: Iterable[tuple[Cell, ...]]) -> bytes:
    """Return rows as CSV (RFC 4180, with the line ends of Unix); nothing at all stands for null."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue().encode()


def check_parquet(out: IO[bytes]) -> None:
    """Refuse Parquet where it cannot be made, or goes to a terminal.

    Raises:
        UsageError: says what to do.
    """
    if out.isatty():
        raise UsageError(
            "--format parquet: that is nothing for a terminal; write it to a file, with > receipts.parquet"
        )
    try:
        import_module("arro3.io")
    except ImportError:
        raise UsageError("--format parquet needs arro3; run: pip install 'lifebus[parquet]'") from None


def write_parquet(pages: Iterable[ReceiptPage], out: IO[bytes]) -> None:
    """Write pages as one Parquet file; what is held does not grow with their number.

    Raises:
        Exception: what reading the pages raised.
    """
    from arro3.core import RecordBatchReader  # noqa: PLC0415  an extra
    from arro3.io import write_parquet as write  # noqa: PLC0415  an extra

    schema, faults = _schema(), list[BaseException]()

    def batches() -> "Iterator[RecordBatch]":
        try:
            for page in pages:
                yield _batch(page, schema)
        except BaseException as fault:
            # The writer is not Python, and would raise its own error with nothing but the text of this one.
            faults.append(fault)
            raise

    try:
        write(
            RecordBatchReader.from_batches(schema, batches()),
            out,
            compression="zstd(3)",
            max_row_group_size=_ROW_GROUP,
            skip_arrow_metadata=True,
        )
    except Exception:
        if faults:
            raise faults[0] from None
        raise


def _schema() -> "Schema":
    from arro3.core import DataType, Field, Schema  # noqa: PLC0415  an extra

    kinds = {True: DataType.int64(), False: DataType.string()}
    return Schema([Field(name, kinds[name in _NUMBERS], nullable=True) for name in COLUMNS])


def _batch(page: ReceiptPage, schema: "Schema") -> "RecordBatch":
    from arro3.core import Array, RecordBatch  # noqa: PLC0415  an extra

    columns = zip(*rows_of(page), strict=True) if page.rows else ((),) * len(COLUMNS)
    arrays = [Array(list(cells), schema.field(number).type) for number, cells in enumerate(columns)]
    # Its stubs name a type that only newer Pythons have.
    return RecordBatch.from_arrays(arrays, schema=schema)  # pyright: ignore[reportUnknownMemberType]
