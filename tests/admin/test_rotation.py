"""Backups in a folder: each checked before it has its name, so many kept, and the oldest removed last."""

from pathlib import Path

import pytest

from lifebus_admin.ledger_files.rotation import rotate
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.backup_files import backups_in, newest_in
from support.running import settings_in
from support.snapshots.ledgers import change_rows, make_ledger

MORNING = 1_790_000_000
HOUR_S = 3_600


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    found = settings_in(tmp_path)
    found.state_dir.mkdir(mode=0o700)
    make_ledger(found.ledger_path, 20)
    return found


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_so_many_are_kept_each_is_sound_and_nothing_else_is_touched(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    folder.mkdir()
    (folder / "mine.db").write_bytes(b"mine")
    (folder / "ledger-20000101T000000Z.db.old").write_bytes(b"also mine")
    (folder / "ledger-20000101T000000Z.db").mkdir()
    (folder / "ledger-99999999T999999Z.db").write_bytes(b"no such time")
    removed = [rotate(settings, folder, 2, MORNING + hour * HOUR_S).removed for hour in range(4)]
    assert removed == [(), (), ("ledger-20260921T141320Z.db",), ("ledger-20260921T151320Z.db",)]
    assert [one.path.name for one in backups_in(folder)] == ["ledger-20260921T161320Z.db", "ledger-20260921T171320Z.db"]
    assert len(names(folder)) == 6
    assert newest_in(folder) == backups_in(folder)[-1]
    assert [verify(one.path) for one in backups_in(folder)] == [[], []]


def test_a_backup_that_is_not_sound_is_told_and_the_older_ones_stay(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    for hour in range(2):
        rotate(settings, folder, 2, MORNING + hour * HOUR_S)
    before = names(folder)
    change_rows(settings.ledger_path, "UPDATE rows SET status = 'other' WHERE position = 3")
    with pytest.raises(LifebusError, match="nothing was backed up") as refused:
        rotate(settings, folder, 2, MORNING + 2 * HOUR_S)
    assert refused.value.code == "ledger_damaged"
    assert "row 3" in refused.value.detail
    assert names(folder) == before


def test_a_folder_without_its_parent_is_not_made(settings: Settings, tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        rotate(settings, tmp_path / "disk" / "backups", 2, MORNING)
