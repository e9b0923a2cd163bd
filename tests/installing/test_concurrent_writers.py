"""Somebody else writes the settings while we do: nothing of theirs is lost, and ours is in, or we say so."""

import json
import threading
from pathlib import Path

import pytest

from installing.boxes import EVENTS, Box, group, settings
from installing.crashing_disk import WrittenDisk
from lifebus_supervisor.installing.refusals import FileBusy, SettingsUnreadable
from lifebus_supervisor.installing.transaction import TRIES

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


def test_in_two_hundred_races_no_change_of_the_other_is_lost(tmp_path: Path) -> None:
    """The other one counts up, replacing the file as editors do; each of its changes must be in the next version."""
    box = Box(tmp_path)
    path, stop, written, lost = box.write(b'{\n  "count": 0\n}\n'), threading.Event(), [0], list[tuple[int, int]]()

    def value_in(text: str) -> int:
        return int(text.split('"count": ')[1].split("\n")[0].rstrip(","))

    def count_up() -> None:
        other = path.with_name("theirs.tmp")
        while not stop.is_set():
            text = path.read_text()
            for _ in range(1_000):  # a change in the last moment is put back an instant later
                if value_in(text) == written[0]:
                    break
                text = path.read_text()
            value = value_in(text)
            if value != written[0]:
                lost.append((value, written[0]))
            other.write_text(text.replace(f'"count": {value}', f'"count": {value + 1}', 1))
            if path.read_text() == text:  # it looks before it writes, as we do; the gap is its own
                other.rename(path)
                written[0] = value + 1

    thread = threading.Thread(target=count_up)
    thread.start()
    done = 0
    try:
        for _ in range(100):
            for act in (box.install, box.remove):
                try:
                    act()
                    done += 1
                except FileBusy:
                    pass
    finally:
        stop.set()
        thread.join()
    assert (lost, json.loads(path.read_bytes())["count"]) == ([], written[0])
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
