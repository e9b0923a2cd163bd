"""A small file is the old one or the new one, whatever happens while it is written: power cut, full or failing disk."""

import errno
import random
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from lifebus_broker.atomic_files import make_directory, remove_file, remove_unfinished, write_file
from support.crash.file_disk import FileDisk
from support.effort import effort

OLD, NEW = b"old" * 500, b"new" * 700
IMAGES = effort(20, 500)

Act = Callable[[Path], None]


def replace(directory: Path) -> None:
    write_file(directory / "a.json", NEW)


def remove(directory: Path) -> None:
    remove_file(directory / "a.json")


def begin(directory: Path) -> None:
    """Make a directory and write the first file in it."""
    make_directory(directory / "first")
    write_file(directory / "first" / "a.json", NEW)


CASES: dict[Act, tuple[str, bytes | None, bytes | None]] = {
    replace: ("a.json", OLD, NEW),
    remove: ("a.json", OLD, None),
    begin: ("first/a.json", None, NEW),
}
"""What is done to which file, what it is before and what it is after."""


def cuts(
    tmp_path: Path, act: Act, fault: int | None = None, *, once: bool = False, lies: bool = False
) -> Iterator[tuple[FileDisk, bool]]:
    """Do it once for each call that may be refused, and at last untouched; yield the disk and whether it was done."""
    for number in count(1):
        directory = tmp_path / f"d{number}"
        directory.mkdir()
        (directory / "a.json").write_bytes(OLD)
        disk = FileDisk(directory, number, fault, once=once, lies=lies)
        done = True
        with disk.mounted():
            try:
                act(directory)
            except OSError:
                done = False
        yield disk, done
        if not disk.is_cut:
            return


def contents(path: Path) -> bytes | None:
    return path.read_bytes() if path.exists() else None


@pytest.mark.parametrize("act", CASES, ids=lambda act: act.__name__)
def test_after_a_power_cut_the_file_is_the_old_one_or_the_new_one(
    tmp_path: Path, act: Act, record_property: Callable[[str, object], None]
) -> None:
    name, before, after = CASES[act]
    images, disk = 0, None
    for disk, done in cuts(tmp_path, act):
        for seed in range(IMAGES):
            left = tmp_path / f"left{images}"
            disk.leave(random.Random(seed), left)
            found = contents(left / name)
            assert found == after or (found == before and not done)
            images += 1
    assert disk is not None
    record_property("cuts", len(disk.calls))
    record_property("images", images)


@pytest.mark.parametrize("once", [False, True], ids=["sticky", "once"])
@pytest.mark.parametrize("fault", [errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS])
def test_whatever_call_fails_the_old_file_stays_or_the_new_one_is_there(tmp_path: Path, fault: int, once: bool) -> None:
    for disk, done in cuts(tmp_path, replace, fault, once=once):
        assert done != disk.is_cut
        found = contents(disk.root / "a.json")
        assert found == NEW if done else found in {OLD, NEW}
        remove_unfinished(disk.root)
        write_file(disk.root / "a.json", NEW + OLD)
        assert contents(disk.root / "a.json") == NEW + OLD


def test_the_test_notices_a_disk_that_lies(tmp_path: Path) -> None:
    torn = 0
    for disk, _ in cuts(tmp_path, replace, lies=True):
        for seed in range(20):
            left = disk.root.with_name(f"{disk.root.name}-{seed}")
            disk.leave(random.Random(seed), left)
            torn += contents(left / "a.json") not in {OLD, NEW}
    assert torn > 0
