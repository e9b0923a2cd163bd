"""The write-ahead log has its room on the disk before the first commit, and what stands in the room is no commit."""

import asyncio
import os
import shutil
from pathlib import Path

import pytest

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.writing.log_room import make_room
from support.broker_process import until
from support.receipts import every_receipt, keyed, recorded

ROOM = 1_310_720


def size_of(log: Path) -> int:
    return log.stat().st_size if log.exists() else 0


async def test_commits_do_not_lengthen_the_log_and_a_copy_of_its_files_has_them_all(tmp_path: Path) -> None:
    path, log = tmp_path / "ledger.db", tmp_path / "ledger.db-wal"
    ledger = await SqliteLedger.open(path)
    try:
        await until(lambda: size_of(log) == ROOM)
        stored = await recorded(ledger, keyed(range(20)))
        assert size_of(log) == ROOM
        # as a power cut would leave it: no connection has tidied up
        copied = tmp_path / "copy"
        await asyncio.to_thread(copied.mkdir)
        for name in ("ledger.db", "ledger.db-wal"):
            await asyncio.to_thread(shutil.copy, tmp_path / name, copied / name)
    finally:
        await ledger.aclose()
    again = await SqliteLedger.open(copied / "ledger.db")
    try:
        assert await every_receipt(again) == stored
        assert await again.verify() == []
        assert await recorded(again, keyed(range(20, 21)))
    finally:
        await again.aclose()


@pytest.mark.parametrize("durability", ["relaxed", "none"])
async def test_a_log_that_no_commit_waits_for_needs_no_room(tmp_path: Path, durability: str) -> None:
    ledger = await SqliteLedger.open(tmp_path / "ledger.db", durability=durability)  # type: ignore[arg-type]
    try:
        await recorded(ledger, keyed(range(2)))
        assert size_of(tmp_path / "ledger.db-wal") < ROOM
    finally:
        await ledger.aclose()


def test_a_disk_that_is_too_full_leaves_the_log_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = tmp_path / "log"
    log.write_bytes(b"frames")
    write = os.pwrite

    def half(file: int, data: bytes, at: int) -> int:
        return write(file, data[: len(data) // 2], at)

    def full(file: int, data: bytes, at: int) -> int:
        half(file, data, at)
        raise OSError(28, "No space left on device")

    for what in (half, full):
        monkeypatch.setattr(os, "pwrite", what)
        assert not make_room(str(log), 1_000)
        assert log.read_bytes() == b"frames"
    monkeypatch.setattr(os, "pwrite", write)
    assert make_room(str(log), 1_000)
    assert log.read_bytes() == b"frames" + bytes(994)
    assert not make_room(str(log), 1_000)
    assert not make_room(str(tmp_path / "missing"), 1_000)
