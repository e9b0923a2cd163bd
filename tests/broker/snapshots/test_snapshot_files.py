"""Files of snapshots: whole or not there, refused where anything does not follow, the newest three kept."""

import errno
import os
from pathlib import Path

import pytest

from lifebus_broker.snapshots.files import KEPT, SnapshotFiles
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType, encode_snapshot
from support.snapshots.logs import HeldLog, log_of, saved

LOG = log_of(11, 40)


def at(position: int, save_type: SaveType = SaveType.SESSION) -> SaveSnapshot:
    return saved(HeldLog(LOG.kept[:position]), save_type)


def test_a_snapshot_is_kept_under_its_id_for_its_owner_alone(tmp_path: Path) -> None:
    files, snapshot = SnapshotFiles(tmp_path / "snapshots"), at(9)

    assert files.write(snapshot)

    path = tmp_path / "snapshots" / f"{snapshot.snapshot_id}.json"
    assert path.read_bytes() == encode_snapshot(snapshot)
    assert (path.stat().st_mode & 0o777, path.parent.stat().st_mode & 0o777) == (0o600, 0o700)
    assert files.read(snapshot.snapshot_id) == snapshot
    assert files.all() == ([snapshot], [])


def test_saving_the_same_again_writes_nothing(tmp_path: Path) -> None:
    files, snapshot = SnapshotFiles(tmp_path), at(9)
    files.write(snapshot)
    before = (tmp_path / f"{snapshot.snapshot_id}.json").stat()

    assert not files.write(snapshot)

    after = (tmp_path / f"{snapshot.snapshot_id}.json").stat()
    # Not the whole of it: that it is read is noted in whole seconds.
    assert (after.st_ino, after.st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_the_newest_three_of_each_type_are_kept(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for position in (5, 10, 15, 20, 25):
        for save_type in SaveType:
            files.write(at(position, save_type))

    for save_type in SaveType:
        kept = [one.timestamp_event_id for one in files.all()[0] if one.save_type is save_type]
        assert kept == [25, 20, 15]
    assert KEPT == 3


def test_of_a_log_that_begins_again_the_new_ones_are_kept_and_those_from_ahead_go_first(tmp_path: Path) -> None:
    files = SnapshotFiles(tmp_path)
    for position in (20, 30, 40, 5, 10, 15):
        files.write(at(position))

    assert [one.timestamp_event_id for one in files.all()[0]] == [15, 10, 5]


@pytest.mark.parametrize("torn", [0, 1, 100, -1])
def test_a_torn_file_is_refused_and_named_and_the_others_are_not(tmp_path: Path, torn: int) -> None:
    files, one, other = SnapshotFiles(tmp_path), at(9), at(12)
    files.write(one)
    files.write(other)
    path = tmp_path / f"{one.snapshot_id}.json"
    path.write_bytes(path.read_bytes()[:torn])

    sound, refused = files.all()

    assert sound == [other]
    assert [file.name for file in refused] == [path.name]
    assert "torn or changed" in refused[0].why
    assert isinstance(files.read(one.snapshot_id), RefusedFile)


def test_a_file_under_another_name_is_refused(tmp_path: Path) -> None:
    files, one = SnapshotFiles(tmp_path), at(9)
    files.write(one)
    (tmp_path / f"{one.snapshot_id}.json").rename(tmp_path / f"{'0' * 16}.json")
    (tmp_path / "notes.json").write_text("{}")

    assert [file.why for file in files.all()[1]] == [
        f"it holds another snapshot, {one.snapshot_id}",
        "it has no id's name",
    ]


def test_a_damaged_file_is_written_anew(tmp_path: Path) -> None:
    files, one = SnapshotFiles(tmp_path), at(9)
    files.write(one)
    (tmp_path / f"{one.snapshot_id}.json").write_bytes(b"{}")

    assert files.write(one)
    assert files.read(one.snapshot_id) == one


def test_a_disk_that_refuses_leaves_nothing_unfinished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, one = SnapshotFiles(tmp_path), at(9)

    def refuse(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="full"):
        files.write(one)

    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../secret", "", "abc", "0" * 17, "G" * 16])
def test_what_is_no_id_is_nowhere(tmp_path: Path, name: str) -> None:
    (tmp_path / "secret.json").write_text("{}")

    assert SnapshotFiles(tmp_path / "snapshots").read(name) is None
