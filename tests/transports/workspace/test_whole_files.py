"""A write is whole or not there, wherever the writer is killed; and what it leaves over is removed by the next one."""

import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from lifebus_contract import LifebusError
from lifebus_transports.workspace.changes import FileChanges
from lifebus_transports.workspace.paths import unfinished_name
from lifebus_transports.workspace.workspace import WorkspaceFiles
from support.effort import effort
from support.transports.crashing_changes import Counted, Crash

OLD, NEW = "o" * 100_000, "n" * 300_000


def contents(root: Path) -> dict[str, str]:
    return {str(one.relative_to(root)): one.read_text() for one in root.rglob("*") if one.is_file()}


def write(root: Path, changes: FileChanges) -> None:
    with WorkspaceFiles(root, changes=changes) as files:
        files.write("a/b/file", NEW)


@pytest.mark.parametrize("old", [None, OLD], ids=["new", "replaced"])
def test_a_crash_between_any_two_calls_leaves_the_old_or_the_new(tmp_path: Path, old: str | None) -> None:
    def fresh(name: str) -> Path:
        root = tmp_path / name
        root.mkdir()
        if old is not None:
            (root / "a" / "b").mkdir(parents=True)
            (root / "a" / "b" / "file").write_text(old)
        return root

    whole = Counted()
    write(fresh("whole"), whole)
    assert {"create", "write", "sync", "rename", "sync_directory"} <= set(whole.calls)
    seen = set()
    for last in range(1, len(whole.calls) + 1):
        root = fresh(str(last))
        with pytest.raises(Crash):
            write(root, Counted(last))
        files = contents(root)
        kept = files.get("a/b/file")
        seen.add(kept)
        assert kept in {old, NEW}
        with WorkspaceFiles(root) as after:
            # Nobody sees what is left over, and the next write takes it away.
            assert after.list("a/b") == (["file"] if kept else []) if after.exists("a/b") else True
            after.write("a/b/other", "")
        assert contents(root) == {"a/b/other": ""} | ({"a/b/file": kept} if kept else {})
    assert seen == {old, NEW}


def test_every_call_that_fails_is_said_and_leaves_nothing_over(tmp_path: Path) -> None:
    whole = Counted()
    (tmp_path / "whole").mkdir()
    write(tmp_path / "whole", whole)
    for last, call in enumerate(whole.calls, 1):
        root = tmp_path / str(last)
        root.mkdir()
        with pytest.raises(LifebusError) as refused:
            write(root, Counted(last, OSError(28, "No space left on device")))
        assert refused.value.code == "disk_full", call
        assert set(contents(root)) <= {"a/b/file"}, call
        assert not list(root.rglob(".*")), call


def test_nothing_is_renamed_before_it_is_synced_and_nothing_returned_before_its_name_is(tmp_path: Path) -> None:
    changes = Counted()
    write(tmp_path, changes)
    calls = changes.calls
    assert "sync" in calls
    assert calls.index("rename") - 1 == len(calls) - 1 - calls[::-1].index("sync")
    assert calls[-1] == "sync_directory"
    # The root, `a` and `b` itself: each name on the way is durable.
    assert calls.count("sync_directory") == 3


def test_a_directory_that_somebody_else_made_is_made_durable_too(tmp_path: Path) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    changes = Counted()
    with WorkspaceFiles(tmp_path, changes=changes) as files:
        files.write("a/b/one", "")
        assert changes.calls.count("sync_directory") == 3
        files.write("a/b/two", "")
        assert changes.calls.count("sync_directory") == 4


def test_a_directory_that_has_the_number_of_one_that_is_gone_is_made_durable_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = Counted()
    with WorkspaceFiles(tmp_path, changes=changes) as files:
        files.write("a/one", "")
        known = set(files._prepared)
        files.delete("a/one")
        files.delete("a")
        # As a file system has it that uses numbers again at once.
        monkeypatch.setattr(files, "_prepared", _Everything(known))
        changes.calls.clear()
        files.write("a/one", "")
    assert changes.calls.count("sync_directory") == 2


class _Everything(set[tuple[int, int]]):
    def __contains__(self, _: object) -> bool:
        return True


WRITER = """
import sys
from lifebus_transports.workspace.workspace import WorkspaceFiles
with WorkspaceFiles(sys.argv[1]) as files:
    print("ready", flush=True)
    number = 0
    while True:
        number += 1
        files.write("file", chr(ord("a") + number % 26) * 2_000_000)
"""


def test_a_killed_writer_leaves_one_whole_version(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    kills = effort(3, 500)
    for _ in range(kills):
        with subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE) as writer:
            assert writer.stdout is not None
            assert writer.stdout.readline() == b"ready\n"
            with WorkspaceFiles(tmp_path) as files:
                seen: set[str] = set()
                while len(seen) < 3:  # it is in the middle of one write or the other
                    with suppress(LifebusError):
                        seen.add(files.read("file"))
            writer.send_signal(signal.SIGKILL)
        with WorkspaceFiles(tmp_path) as files:
            text = files.read("file")
            assert text == text[0] * 2_000_000
            assert files.list() == ["file"]
            files.write("other", "")
            files.delete("other")
        assert [one.name for one in tmp_path.iterdir()] == ["file"]
    record_property("kills", kills)


def test_what_is_being_written_is_not_taken_for_left_over(tmp_path: Path) -> None:
    name = tmp_path / unfinished_name(b"12345678")
    gone = tmp_path / unfinished_name(b"87654321")
    gone.write_text("left over")
    with name.open("w") as being_written:
        fcntl.flock(being_written, fcntl.LOCK_EX)
        with WorkspaceFiles(tmp_path) as files:
            files.write("file", "x")
            assert files.list() == ["file"]
        assert name.exists()
    assert not gone.exists()


def test_a_writer_whose_file_was_taken_away_makes_another(tmp_path: Path) -> None:
    class Robbed(FileChanges):
        def __init__(self) -> None:
            self.made: list[str] = []

        def create(self, place: int, name: str) -> int:
            found = super().create(place, name)
            if not self.made:
                os.unlink(name, dir_fd=place)
            self.made.append(name)
            return found

    changes = Robbed()
    with WorkspaceFiles(tmp_path, changes=changes) as files:
        files.write("file", "x")
    assert len(changes.made) == 2
    assert contents(tmp_path) == {"file": "x"}


@pytest.mark.parametrize(("number", "made"), [(95, "x"), (11, None)], ids=["no-locks", "never-ours"])
def test_where_files_cannot_be_locked_they_are_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, made: str | None
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    with WorkspaceFiles(tmp_path) as files:
        if made:
            files.write("file", "x")
        else:
            with pytest.raises(LifebusError, match="kept removing"):
                files.write("file", "x")
    monkeypatch.undo()
    assert {name: text for name, text in contents(tmp_path).items() if name == "file"} == (
        {"file": made} if made else {}
    )


def test_many_writers_of_one_file_leave_one_of_theirs(tmp_path: Path) -> None:
    import threading  # noqa: PLC0415

    faults: list[BaseException] = []

    def go(letter: str) -> None:
        try:
            with WorkspaceFiles(tmp_path) as files:
                for _ in range(20):
                    files.write("a/file", letter * 10_000)
                    text = files.read("a/file")
                    assert text == text[0] * 10_000
        except BaseException as fault:  # noqa: BLE001  shown below
            faults.append(fault)

    threads = [threading.Thread(target=go, args=(letter,)) for letter in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert faults == []
    assert [one.name for one in (tmp_path / "a").iterdir()] == ["file"]
