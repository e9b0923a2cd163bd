"""A crash between any two system calls: settings are old or new, never torn, and the next run brings it to its end."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.installer.boxes import Box
from support.installer.crashing_disk import CountingDisk, Crash, CrashingDisk

BEFORE = b'{\n  "model": "x",\n  "hooks": {"Stop": []}\n}\n'
STARTS: dict[str, Callable[[Box], object]] = {
    "settings are there": lambda box: box.write(BEFORE),
    "nothing is there": lambda box: (box.root / "home").mkdir(parents=True),
    "settings are empty": lambda box: box.write(b""),
}


def started(tmp_path: Path, start: str) -> Box:
    box = Box(tmp_path)
    STARTS[start](box)
    return box


def steps_of(tmp_path: Path, start: str, *, removal: bool) -> int:
    box, disk = started(tmp_path, start), CountingDisk()
    box.install(disk=None if removal else disk)
    if removal:
        box.remove(disk=disk)
    return len(disk.calls)


def contents(box: Box) -> bytes | None:
    return box.settings_path.read_bytes() if box.settings_path.exists() else None


def leftovers(box: Box) -> list[str]:
    return [name for name in box.files() if name.endswith((".tmp", ".new", ".part"))]


@pytest.mark.parametrize("start", STARTS)
def test_an_installation_that_crashes_anywhere_leaves_old_or_new_and_can_be_run_again(
    tmp_path: Path, start: str
) -> None:
    whole = started(tmp_path / "whole", start)
    before = whole.files()
    old = contents(whole)
    whole.install()
    new = contents(whole)
    steps = steps_of(tmp_path / "count", start, removal=False)
    assert steps > 15
    for at in range(steps):
        box = started(tmp_path / str(at), start)
        with pytest.raises(Crash):
            box.install(disk=CrashingDisk(at))
        assert contents(box) in (old, new), at
        box.install()
        assert (contents(box), leftovers(box)) == (new, []), at
        assert box.plan().nothing
        box.remove()
        assert box.files() == before, at


@pytest.mark.parametrize("start", STARTS)
def test_an_installation_that_crashes_anywhere_can_be_undone(tmp_path: Path, start: str) -> None:
    before = started(tmp_path / "before", start).files()
    for at in range(steps_of(tmp_path / "count", start, removal=False)):
        box = started(tmp_path / str(at), start)
        with pytest.raises(Crash):
            box.install(disk=CrashingDisk(at))
        box.remove()
        assert box.files() == before, at


@pytest.mark.parametrize("start", STARTS)
def test_a_removal_that_crashes_anywhere_leaves_old_or_new_and_can_be_run_again(tmp_path: Path, start: str) -> None:
    steps = steps_of(tmp_path / "count", start, removal=True)
    assert steps > 5
    for at in range(steps):
        box = started(tmp_path / str(at), start)
        before, old = box.files(), contents(box)
        box.install()
        new = contents(box)
        with pytest.raises(Crash):
            box.remove(disk=CrashingDisk(at))
        assert contents(box) in (old, new), at
        box.remove()
        assert box.files() == before, at
        assert list((box.state_dir / "hooks" / "records").iterdir()) == []


@pytest.mark.parametrize("start", STARTS)
def test_an_upgrade_that_crashes_anywhere_still_comes_back_to_the_byte(tmp_path: Path, start: str) -> None:
    def upgrade(box: Box, disk: CountingDisk | None = None) -> None:
        text = box.settings_path.read_text().replace('"timeout": 5', '"timeout": 9')
        box.settings_path.write_text(text)
        box.install(disk=disk)

    box, disk = started(tmp_path / "count", start), CountingDisk()
    box.install()
    new = contents(box)
    upgrade(box, disk)
    for at in range(len(disk.calls)):
        box = started(tmp_path / str(at), start)
        before = box.files()
        box.install()
        with pytest.raises(Crash):
            upgrade(box, CrashingDisk(at))
        json.loads(box.settings_path.read_bytes())
        box.install()
        assert contents(box) == new
        box.remove()
        assert box.files() == before, at


def test_a_process_that_is_gone_in_the_middle_holds_no_lock(tmp_path: Path) -> None:
    box = started(tmp_path, "settings are there")

    def leave(number: int, name: str) -> None:
        if name == "exchange":
            os._exit(7)

    child = os.fork()
    if child == 0:
        box.install(disk=CountingDisk(leave))
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert contents(box) == BEFORE
    box.install()
    assert box.plan().nothing
    assert leftovers(box) == []
