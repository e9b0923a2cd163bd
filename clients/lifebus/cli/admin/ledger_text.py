"""What the ledger's commands show to people."""

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from lifebus.cli.terminal import clean, size_text

if TYPE_CHECKING:
    from lifebus_admin.ledger_files.info import Edge, LedgerInfo

_WIDTH = 12


def info_lines(info: "LedgerInfo") -> Iterator[str]:
    """Yield the lines that tell what a ledger file holds."""
    yield _line("file", f"{clean(info.path)}, format {info.format}, durability {info.durability}")
    yield _line("epoch", info.epoch)
    yield _line("receipts", f"{info.rows}: positions {info.floor + 1} to {info.head}" if info.rows else "none")
    yield _line("oldest", _edge_text(info.oldest))
    yield _line("newest", _edge_text(info.newest))
    yield _line("sessions", str(info.sessions))
    yield _line("keys", f"{info.keys}, and {info.tombstones} of pruned receipts")
    yield _line("journal", f"{info.notes} notes in {info.note_streams} streams")
    if info.base is not None:
        yield _line("pruned", f"up to position {info.floor}; the base takes {size_text(info.base.bytes)}")
    else:
        yield _line("pruned", f"up to position {info.floor}" if info.floor else "nothing")
    parts = (
        f"database {size_text(info.database_bytes)}, log {size_text(info.wal_bytes)}, {size_text(info.shm_bytes)} index"
    )
    yield _line("size", f"{size_text(info.bytes)}: {parts}; {size_text(info.free_bytes)} free in it")
    yield _line("beside it", f"{info.caches} compactions, {info.snapshots} snapshots")


def _edge_text(edge: "Edge | None") -> str:
    if edge is None:
        return "none"
    return f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(edge.at_epoch_s))}, position {edge.position}"


def _line(name: str, text: str) -> str:
    return f"{name:<{_WIDTH}}{text}"
