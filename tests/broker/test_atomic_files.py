"""Files of our own are whole or not there."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from lifebus_broker.atomic_files import make_directory, read_file, remove_file, remove_unfinished, write_file
from lifebus_contract import InternalError


def test_a_file_takes_its_place_in_one_step_and_is_for_its_owner_only(tmp_path: Path) -> None:
    write_file(tmp_path / "a.json", b"1" * 70_000)
    write_file(tmp_path / "a.json", b"2")
    assert (tmp_path / "a.json").read_bytes() == b"2"
    assert (tmp_path / "a.json").stat().st_mode & 0o077 == 0
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_write_that_fails_leaves_the_old_file_and_nothing_unfinished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_file(tmp_path / "a.json", b"old")

    def refuse(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(OSError, match="No space"):
        write_file(tmp_path / "a.json", b"new")
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_what_comes_in_pieces_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def broken() -> Iterator[bytes]:
        yield b"ne"
        raise InternalError("the rest cannot be read")

    write_file(tmp_path / "a.json", (b"o", b"", b"ld"))
    with pytest.raises(InternalError, match="the rest"):
        write_file(tmp_path / "a.json", broken())
    assert (tmp_path / "a.json").read_bytes() == b"old"
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_a_file_is_synced_before_it_takes_its_place_and_its_directory_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    sync, rename = os.fsync, Path.rename

    def note_sync(descriptor: int) -> None:
        seen.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        sync(descriptor)

    def note_rename(path: Path, target: Path) -> Path:
        seen.append(f"to {target.name}")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", note_sync)
    monkeypatch.setattr(Path, "rename", note_rename)
    write_file(tmp_path / "a.json", b"1")
    assert seen == [f".a.json.{os.getpid()}.tmp", "to a.json", tmp_path.name]


def test_a_reader_gets_one_byte_too_many_of_a_file_that_is_too_large_and_nothing_of_what_is_no_file(
    tmp_path: Path,
) -> None:
    (tmp_path / "large").write_bytes(b"x" * 100)
    (tmp_path / "there").mkdir()
    os.mkfifo(tmp_path / "pipe")
    assert len(read_file(tmp_path / "large", 10) or b"") == 11
    assert read_file(tmp_path / "missing", 10) is None
    assert read_file(tmp_path / "pipe", 10) is None
    (tmp_path / "link").symlink_to(tmp_path / "large")
    with pytest.raises(OSError, match="link"):
        read_file(tmp_path / "link", 10)


def test_a_directory_is_made_once_and_a_file_is_removed_once(tmp_path: Path) -> None:
    make_directory(tmp_path / "files")
    make_directory(tmp_path / "files")
    assert (tmp_path / "files").stat().st_mode & 0o777 == 0o700
    write_file(tmp_path / "files" / "a", b"")
    assert remove_file(tmp_path / "files" / "a")
    assert not remove_file(tmp_path / "files" / "a")


def test_what_a_process_that_is_gone_left_unfinished_is_removed_and_what_another_is_writing_is_not(
    tmp_path: Path,
) -> None:
    for name in (".a.json.999999999999.tmp", f".b.json.{os.getppid()}.tmp", f".c.json.{os.getpid()}.tmp", ".d.tmp"):
        (tmp_path / name).write_bytes(b"half")
    remove_unfinished(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        [f".b.json.{os.getppid()}.tmp", f".c.json.{os.getpid()}.tmp", ".d.tmp"]
    )
