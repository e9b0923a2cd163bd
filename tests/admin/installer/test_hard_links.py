"""Settings with several names (hard links): all names show the change, and no crash leaves them torn for good."""

from pathlib import Path

import pytest

from lifebus_admin.installer.in_place import UnfinishedWrite, is_torn
from lifebus_admin.installer.refusals import FileRefused
from lifebus_broker.disk import Disk
from support.installer.boxes import Box, settings
from support.installer.crashing_disk import CountingDisk, Crash, CrashingDisk, WrittenDisk

BEFORE = b'{\n  "model": "x",\n  "hooks": {"Stop": []}\n}\n'
NOTE = "it has 2 names (hard links): it is written in place, so that the other one changes with it"


def linked(root: Path, contents: bytes = BEFORE) -> tuple[Box, Path]:
    box = Box(root)
    second = root / "dotfiles.json"
    second.hardlink_to(box.write(contents, 0o644))
    return box, second


def names(box: Box, second: Path) -> tuple[bytes, bytes]:
    assert box.settings_path.samefile(second)
    assert box.settings_path.stat().st_mode & 0o777 == 0o644
    return box.settings_path.read_bytes(), second.read_bytes()


def unfinished(box: Box) -> list[Path]:
    return list((box.state_dir / "hooks" / "unfinished").iterdir())


def test_both_names_stay_one_file_from_the_installation_to_the_removal(tmp_path: Path) -> None:
    box, second = linked(tmp_path)
    assert box.plan().files[-1].notes == (NOTE,)
    box.install()
    here, there = names(box, second)
    assert b"lifebus-hook" in here
    assert here == there
    assert box.plan().nothing
    assert box.plan(removal=True).files[0].notes == (NOTE,)
    box.remove()
    assert names(box, second) == (BEFORE, BEFORE)
    assert unfinished(box) == []


def test_settings_that_we_made_and_that_got_a_second_name_are_emptied_and_not_removed(tmp_path: Path) -> None:
    box, second = Box(tmp_path), tmp_path / "dotfiles.json"
    box.install()
    second.hardlink_to(box.settings_path)
    box.remove()
    assert box.settings_path.samefile(second)
    assert second.read_bytes() == b"{}\n"


def steps(tmp_path: Path, *, removal: bool) -> int:
    (tmp_path / "count").mkdir()
    box, _ = linked(tmp_path / "count")
    disk = CountingDisk()
    box.install(disk=None if removal else disk)
    if removal:
        box.remove(disk=disk)
    return len(disk.calls)


@pytest.mark.parametrize("removal", [False, True])
def test_a_crash_anywhere_is_undone_or_brought_to_its_end_by_the_next_run(tmp_path: Path, removal: bool) -> None:
    torn = 0
    for at in range(steps(tmp_path, removal=removal)):
        (tmp_path / str(at)).mkdir()
        box, second = linked(tmp_path / str(at))
        before = box.files()
        if removal:
            box.install()
        whole = box.settings_path.read_bytes()
        with pytest.raises(Crash):
            (box.remove if removal else box.install)(disk=CrashingDisk(at))
        if box.status().state == "unreadable":
            torn += 1
            (problem,) = box.status().problems
            assert "was interrupted; `lifebus hooks install` or `lifebus hooks remove` mends it" in problem
            assert box.plan(removal=removal).files[0 if removal else -1].before == whole.decode()
        if at % 2:
            box.install()
            assert box.plan().nothing
        box.remove()
        assert names(box, second) == (BEFORE, BEFORE), at
        assert box.files() == before, at
        assert unfinished(box) == []
    assert torn > 0


def test_a_full_disk_leaves_both_names_as_they_were(tmp_path: Path) -> None:
    box, second = linked(tmp_path)

    class Full(Disk):
        """Takes what overwrites old contents, and half of what is new."""

        full = False

        def open_existing(self, path: Path) -> int:
            self.full = not self.full
            return super().open_existing(path)

        def write(self, descriptor: int, contents: memoryview) -> int:
            if not self.full or len(contents) < 2:
                return super().write(descriptor, contents)
            if len(contents) < 400:
                raise OSError(28, "No space left on device")
            return super().write(descriptor, contents[: len(contents) // 2])

    with pytest.raises(FileRefused, match="No space left on device"):
        box.install([settings(box.settings_path)], disk=Full())
    assert names(box, second) == (BEFORE, BEFORE)
    assert unfinished(box) == []


def test_what_another_program_wrote_before_us_is_merged(tmp_path: Path) -> None:
    box, second = linked(tmp_path)
    theirs = BEFORE.replace(b'"x"', b'"y"')
    box.install(disk=WrittenDisk("open_existing", box.settings_path, [theirs], in_place=True))
    here, there = names(box, second)
    assert b"lifebus-hook" in here
    assert b'"model": "y"' in here
    assert here == there


def test_what_another_program_put_in_its_place_is_merged_and_has_one_name(tmp_path: Path) -> None:
    box, second = linked(tmp_path)
    theirs = BEFORE.replace(b'"x"', b'"y"')
    box.install(disk=WrittenDisk("open_existing", box.settings_path, [theirs], in_place=False))
    assert b'"model": "y"' in box.settings_path.read_bytes()
    assert second.read_bytes() == BEFORE


def test_what_somebody_wrote_after_an_interrupted_write_stays(tmp_path: Path) -> None:
    box, second = linked(tmp_path)
    at = CountingDisk()
    box.plan()
    (tmp_path / "other").mkdir()
    linked(tmp_path / "other")[0].install(disk=at)
    with pytest.raises(Crash):
        box.install(disk=CrashingDisk(at.calls.index("truncate") - 1))
    second.write_bytes(b'{"mine": true}')
    box.install()
    assert b'"mine": true' in box.settings_path.read_bytes()
    assert b"lifebus-hook" in second.read_bytes()


@pytest.mark.parametrize(
    ("contents", "torn"),
    [
        (b"abcdef", False),
        (b"abXYefgh", False),
        (b"abXdef", True),
        (b"abXYef", True),
        (b"abXYefg", True),
        (b"abXYef\0\0", True),
        (b"ab\0def", False),
        (b"abXYZf", False),
        (b"abc", False),
        (b"abcdefghi", False),
        (None, False),
    ],
)
def test_a_torn_file_is_a_mixture_of_before_and_after(contents: bytes | None, torn: bool) -> None:
    assert is_torn(contents, UnfinishedWrite(path="/f", before=b"abcdef", after=b"abXYefgh")) is torn
