"""Somebody else writes the settings while we do: nothing of theirs is lost, and ours is in, or we say so."""

import json
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Self

import pytest

from lifebus_admin.installer.refusals import FileBusy, SettingsUnreadable
from lifebus_admin.installer.transaction import TRIES
from support.effort import effort
from support.installer.boxes import EVENTS, Box, group, settings
from support.installer.crashing_disk import WrittenDisk
from support.patience import PATIENCE_S

BEFORE = b'{"model": "x"}\n'


def versions(count: int) -> list[bytes]:
    return [json.dumps({"model": f"theirs {number}"}, indent=2).encode() for number in range(count)]


@pytest.mark.parametrize("call", ["create", "write", "sync", "exchange"])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_change_in_the_meantime_is_merged(tmp_path: Path, call: str, in_place: bool) -> None:
    box = Box(tmp_path)
    path = box.write(BEFORE)
    box.install(disk=WrittenDisk(call, path, versions(1), in_place=in_place))
    found = json.loads(path.read_bytes())
    assert found["model"] == "theirs 0"
    assert found["hooks"]["Stop"] == [group("Stop")]
    box.remove()
    assert path.read_bytes() == versions(1)[0]


@pytest.mark.parametrize("in_place", [False, True])
def test_after_five_tries_the_last_version_of_the_other_stands(tmp_path: Path, in_place: bool) -> None:
    box = Box(tmp_path)
    path = box.write(BEFORE)
    disk = WrittenDisk("exchange", path, versions(TRIES * 2), in_place=in_place)
    with pytest.raises(FileBusy, match="changed it during each of 5 tries"):
        box.install(disk=disk)
    assert json.loads(path.read_bytes())["model"].startswith("theirs")
    assert b"hooks" not in path.read_bytes()
    assert [name for name in box.files() if ".lifebus-" in name] == []


def test_a_file_that_appears_in_the_meantime_is_merged(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.settings_path.parent.mkdir(parents=True)
    asset = settings(box.settings_path)
    box.install([asset], disk=WrittenDisk("link", box.settings_path, versions(1), in_place=True))
    found = json.loads(box.settings_path.read_bytes())
    assert found["model"] == "theirs 0"
    assert found["hooks"]["Stop"] == [group("Stop")]


def test_a_change_while_removing_is_kept(tmp_path: Path) -> None:
    box = Box(tmp_path)
    path = box.write(BEFORE)
    box.install()
    theirs = path.read_bytes().replace(b'"x"', b'"y"')
    box.remove(disk=WrittenDisk("exchange", path, [theirs], in_place=False))
    assert path.read_bytes() == BEFORE.replace(b'"x"', b'"y"')


def test_a_file_of_ours_that_somebody_changes_while_it_goes_is_kept(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.install()
    theirs = box.settings_path.read_bytes().replace(b"{\n", b'{\n  "model": "y",\n', 1)
    box.remove(disk=WrittenDisk("rename", box.settings_path, [theirs], in_place=False))
    assert json.loads(box.settings_path.read_bytes()) == {"model": "y"}


def test_a_torn_version_of_the_other_is_not_touched(tmp_path: Path) -> None:
    box = Box(tmp_path)
    path = box.write(BEFORE)
    with pytest.raises(SettingsUnreadable):
        box.install(disk=WrittenDisk("exchange", path, [b'{"model": '], in_place=True))
    assert path.read_bytes() == b'{"model": '


class Counter:
    """Somebody else who counts up in the file, replacing it as editors do, and misses none of its own changes."""

    def __init__(self, path: Path) -> None:
        self.lost: list[tuple[int, int]] = []
        self.written = 0
        self._path = path
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._count)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    @property
    def value(self) -> int:
        return counted(self._path.read_text())

    def _count(self) -> None:
        other = self._path.with_name("theirs.tmp")
        while not self._stop.is_set() and (text := self._look()):
            other.write_text(text.replace(f'"count": {self.written}', f'"count": {self.written + 1}', 1))
            if self._path.read_text() == text:  # it looks before it writes, as we do; the gap is its own
                other.rename(self._path)
                self.written += 1

    def _look(self) -> str | None:
        """Return the file with the last change in it; one put back comes late on a busy machine."""
        deadline = time.monotonic() + PATIENCE_S
        while counted(text := self._path.read_text()) != self.written:
            if time.monotonic() > deadline:
                self.lost.append((counted(text), self.written))
                return None
        return text


def counted(text: str) -> int:
    return int(json.loads(text)["count"])


def test_in_many_races_no_change_of_the_other_is_lost(tmp_path: Path) -> None:
    box, done = Box(tmp_path), 0
    path = box.write(b'{\n  "count": 0\n}\n')
    with Counter(path) as counter:
        for act in [box.install, box.remove] * effort(30, 300):
            with suppress(FileBusy):
                act()
                done += 1
    assert (counter.lost, counter.value) == ([], counter.written)
    assert done > 0


def test_two_installations_at_once_both_arrive(tmp_path: Path) -> None:
    box = Box(tmp_path)
    box.write(BEFORE)
    threads = [threading.Thread(target=box.install, kwargs={"adapter_id": name}) for name in ("claude", "codex")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = json.loads(box.settings_path.read_bytes())
    assert {event: len(found["hooks"][event]) for event in EVENTS} == dict.fromkeys(EVENTS, 1)
    box.remove(adapter_id="claude")
    assert box.launcher_path.exists()
    box.remove(adapter_id="codex")
    assert box.files().keys() == {"home", "home/.claude", "home/.claude/settings.json"}
