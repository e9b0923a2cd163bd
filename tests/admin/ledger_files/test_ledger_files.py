"""The care of ledger files: what is found, what is put in place of what, ledgers of older formats included."""

import os
from pathlib import Path

import apsw
import pytest

from lifebus_admin.ledger_files.backup import back_up, restore
from lifebus_admin.ledger_files.checks import check_ledger
from lifebus_admin.ledger_files.info import read_info
from lifebus_admin.ledger_files.transfer import bring_in, export_to
from lifebus_broker.ledger.sqlite.checksums import checksum
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.transfer.swap import files_of, next_path
from lifebus_broker.snapshots.files import DIRECTORY
from lifebus_broker.state.stores import Stores, dump_stores, reduce_event
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.jobs.state_directory import open_state_directory, save_file
from support.paths import LEDGER_FORMATS
from support.receipts import entry, recorded
from support.running import settings_in

FORMATS = LEDGER_FORMATS


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    made = settings_in(tmp_path)
    made.state_dir.mkdir(mode=0o700)
    return made


async def fill(settings: Settings, count: int = 9, floor: int = 0) -> None:
    ledger = await SqliteLedger.open(settings.ledger_path)
    for n in range(count):
        await recorded(ledger, [entry(n, key=f"k{n}", harness_session_id=f"s{n % 2}")])
    if floor:
        stores = Stores()
        with SqliteLog(settings.ledger_path) as log:
            for line in log.lines(0, floor):
                reduce_event(stores, line)
        await ledger.prune(floor, dump_stores(stores))
    await ledger.aclose()


def change(path: Path, statement: str) -> None:
    """Change a file behind everybody's back, with checksums that agree."""
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("checksum", checksum)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize("version", [1, 2])
def test_a_ledger_of_an_older_format_is_told_backed_up_exported_and_restored(
    settings: Settings, tmp_path: Path, version: int
) -> None:
    connection = apsw.Connection(str(settings.ledger_path))
    connection.execute((FORMATS / f"ledger_format_{version}.sql").read_text("utf-8")).fetchall()
    connection.close()
    old = read_info(settings.ledger_path)
    copy = back_up(settings, tmp_path / "copy")
    end = export_to(settings, tmp_path / "text")
    assert (old.format, copy.format, old.head, copy.head, end.counts.log) == (
        version,
        3,
        end.counts.log,
        old.head,
        old.rows,
    )
    assert read_info(settings.ledger_path).format == version
    for done in (
        restore(settings, tmp_path / "copy", "f" * 32),
        bring_in(settings, tmp_path / "text", "e" * 32, replace=True),
    ):
        assert (done.head, check_ledger(settings).faults) == (old.head, [])
        assert done.aside is not None


async def test_a_backup_takes_the_place_of_a_file_that_is_beyond_repair(settings: Settings, tmp_path: Path) -> None:
    await fill(settings)
    back_up(settings, tmp_path / "copy")
    settings.ledger_path.write_bytes(b"not a database at all" * 999)
    settings.ledger_path.with_name("ledger.db-wal").write_bytes(b"nor a log")
    done = restore(settings, tmp_path / "copy", "f" * 32)
    assert (done.head, check_ledger(settings).faults) == (9, [])
    assert (Path(done.aside or "") / "ledger.db").read_bytes().startswith(b"not a database")
    assert (Path(done.aside or "") / "ledger.db-wal").read_bytes() == b"nor a log"


async def test_a_write_ahead_log_without_its_database_does_not_reach_the_next_one(
    settings: Settings, tmp_path: Path
) -> None:
    await fill(settings)
    back_up(settings, tmp_path / "copy")
    for file in files_of(settings.ledger_path):
        file.unlink(missing_ok=True)
    settings.ledger_path.with_name("ledger.db-wal").write_bytes(b"left over")
    assert restore(settings, tmp_path / "copy", "f" * 32).aside is not None
    assert check_ledger(settings).faults == []


async def test_what_is_being_replaced_is_not_read(settings: Settings) -> None:
    await fill(settings)
    next_path(settings.ledger_path).write_bytes(settings.ledger_path.read_bytes())
    with pytest.raises(LifebusError, match="is being replaced"):
        read_info(settings.ledger_path)


async def test_what_was_left_unfinished_goes_at_the_next_start(settings: Settings) -> None:
    await fill(settings)
    left = [settings.state_dir / f".ledger.db.{2**22 + 1}.tmp{ending}" for ending in ("", "-wal", "-shm")]
    kept = [settings.state_dir / f".{name}.tmp" for name in (f"ledger.db.{os.getpid()}", f"other.{2**22 + 1}")]
    for file in (*left, *kept):
        file.write_bytes(b"half of it")
    async with running(settings):
        assert [file for file in left if file.exists()] == []
        assert all(file.exists() for file in kept)


async def test_restoring_moves_the_snapshots_of_the_old_history_aside(settings: Settings, tmp_path: Path) -> None:
    await fill(settings)
    save_file(settings, "SESSION")
    back_up(settings, tmp_path / "copy")
    done = restore(settings, tmp_path / "copy", "f" * 32)
    assert not (settings.state_dir / DIRECTORY).exists()
    aside = [path.suffix for path in (Path(done.aside or "") / DIRECTORY).iterdir()]
    assert sorted(aside) == [".json", ".supplement"]


async def test_a_snapshot_that_is_not_of_this_log_is_found(settings: Settings) -> None:
    await fill(settings)
    answer = save_file(settings, "SESSION")
    with open_state_directory(settings) as saved:
        saved.compactions.rebuild()
    found = read_info(settings.ledger_path, beside=settings.state_dir)
    assert (found.snapshots, found.caches) == (1, 2)
    assert check_ledger(settings).faults == []
    snapshots = settings.state_dir / DIRECTORY
    kept = {path.name: path.read_bytes() for path in snapshots.iterdir()}
    for file in files_of(settings.ledger_path):
        file.unlink(missing_ok=True)
    await fill(settings, 10)
    change(settings.ledger_path, "UPDATE rows SET receipt = replace(receipt, 'alice', 'alicf') WHERE position = 9")
    faults = check_ledger(settings).faults
    assert [fault.partition(":")[0] for fault in faults] == ["row 9"]
    (name,) = (name for name in kept if name.endswith(".json"))
    (snapshots / name).write_bytes(kept[name].replace(b'"timestamp_event_id":9', b'"timestamp_event_id":8'))
    assert any(name in fault for fault in check_ledger(settings).faults)
    assert answer.position == 9


@pytest.mark.parametrize(
    ("statement", "found"),
    [
        (
            """UPDATE bases SET sequence = 7, checksum = checksum(stream, position, 7, at_epoch_s, event, status, ended,
            open_frames, harness_sequence, link) WHERE stream = 1""",
            "sequence",
        ),
        ("UPDATE base SET body = replace(body, '\"sequence\":2', '\"sequence\":3')", "base"),
        ("UPDATE rows SET link = zeroblob(32) WHERE position = 8", "row 8"),
        ("DELETE FROM keys WHERE position = 7", "row 7"),
    ],
)
async def test_what_does_not_agree_is_named(settings: Settings, statement: str, found: str) -> None:
    await fill(settings, floor=5)
    assert check_ledger(settings).faults == []
    change(settings.ledger_path, statement)
    assert any(found in fault for fault in check_ledger(settings).faults)
