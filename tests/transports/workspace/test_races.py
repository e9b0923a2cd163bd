"""Nothing outside is reached while another process swaps directories and files on the way for links, 10,000 times.

A check that is made before the path is used is beaten within a fraction of these tries: the last test shows it.
"""

import os
import sys
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest

from lifebus_contract import LifebusError
from lifebus_transports.workspace.opening import OpenDirectory
from lifebus_transports.workspace.workspace import WorkspaceFiles
from support.effort import effort
from support.patience import PATIENCE_S
from support.transports.workspaces import openings, swapping

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="names are swapped by a call that only Linux has")

RACES = effort(10_000, 1_000_000)
SECRET = "secret"
INSIDE = "inside"
# Every answer that may be given while names change: that of the place, or that there is no way through.
HARMLESS = {"path_is_link", "no_file", "not_a_directory", "not_a_file", "not_empty"}


class Tree:
    """A root with a directory, and a file in it, that have twins: links to the same names outside."""

    def __init__(self, directory: Path) -> None:
        self.outside = directory / "outside"
        self.root = directory / "root"
        for top in (self.outside, self.root / "a" / "real"):
            top.mkdir(parents=True)
        (self.outside / "file").write_text(SECRET)
        self.file = self.root / "a" / "real" / "file"
        self.file.write_text(INSIDE)
        (self.root / "a" / "twin").symlink_to(self.outside)
        (self.root / "a" / "real" / "file-twin").symlink_to(self.outside / "file")
        # A link that stays beneath the root must not be followed, either: one step later it may lead elsewhere.
        (self.root / "a-twin").symlink_to("../outside-a")
        (directory / "outside-a").mkdir()
        (directory / "outside-a" / "real").symlink_to(self.outside)
        self.swaps = [
            (self.root / "a" / "real", self.root / "a" / "twin"),
            (self.root / "a", self.root / "a-twin"),
        ]

    def untouched(self) -> bool:
        return [one.name for one in self.outside.iterdir()] == ["file"] and (
            (self.outside / "file").read_text() == SECRET
        )


def racing(call: Callable[[], str], least: int, both: Callable[[Counter[str]], bool]) -> Counter[str]:
    """Count what so many calls answer, and go on until both sides were seen, so that the race was one.

    A busy machine may let one process run and not the other for a whole round of calls.
    """
    answers, until = Counter[str](), time.monotonic() + PATIENCE_S
    while answers.total() < least or not both(answers):
        answers[harmless(call)] += 1
        if answers.total() > least and time.monotonic() > until:
            pytest.fail(f"the swapping process raced with nobody: {answers}")
    return answers


def seen(answer: str, least: int = 1) -> Callable[[Counter[str]], bool]:
    """Whether that answer was given so often, and others as well."""
    return lambda answers: min(answers[answer], answers.total() - answers[answer]) >= least


def harmless(call: Callable[[], str]) -> str:
    """Return what a call answered, or the code of its refusal."""
    try:
        return call()
    except LifebusError as fault:
        if fault.code not in HARMLESS:
            raise
        return str(fault.code)


@pytest.mark.parametrize("opening", openings())
def test_nothing_outside_is_read(
    tmp_path: Path, opening: OpenDirectory, record_property: Callable[[str, object], None]
) -> None:
    tree = Tree(tmp_path)
    with WorkspaceFiles(tree.root, opening=opening) as files, swapping(tree.swaps):
        # Both sides must be seen, so that the race was one.
        answers = racing(lambda: files.read("a/real/file"), RACES, seen(INSIDE, RACES // 1_000 + 1))
        found = Counter(harmless(lambda: str(files.exists("a/real/only-outside"))) for _ in range(RACES // 10))
        listed = Counter(harmless(lambda: ",".join(files.list("a/real"))) for _ in range(RACES // 10))
    record_property("races", RACES)
    assert set(answers) <= {INSIDE, *HARMLESS}
    assert set(found) <= {"False", *HARMLESS}
    assert set(listed) <= {"file,file-twin", *HARMLESS}


@pytest.mark.parametrize("opening", openings())
def test_nothing_outside_is_written_or_deleted(tmp_path: Path, opening: OpenDirectory) -> None:
    tree = Tree(tmp_path)

    numbers = count()

    def change() -> str:
        name = f"a/real/new-{(number := next(numbers)) % 7}"
        files.write(name, str(number))
        files.delete(name)
        return "done"

    with WorkspaceFiles(tree.root, opening=opening) as files, swapping(tree.swaps):
        racing(change, RACES // 5, seen("done"))
    assert tree.untouched()


@pytest.mark.parametrize("opening", openings())
def test_a_file_that_is_swapped_for_a_link_is_not_followed(tmp_path: Path, opening: OpenDirectory) -> None:
    tree = Tree(tmp_path)
    place = tree.root / "a" / "real"
    with WorkspaceFiles(tree.root, opening=opening) as files, swapping([(place / "file", place / "file-twin")]):
        answers = racing(lambda: files.read("a/real/file"), RACES // 5, seen(INSIDE))
        sizes = Counter(harmless(lambda: files.digest("a/real/file").digest) for _ in range(RACES // 10))
    assert set(answers) <= {INSIDE, *HARMLESS}
    assert len(set(sizes) - HARMLESS) <= 1
    assert tree.untouched()


@pytest.mark.parametrize("opening", openings())
def test_a_file_that_is_swapped_for_a_pipe_holds_nobody_up(tmp_path: Path, opening: OpenDirectory) -> None:
    (tmp_path / "file").write_text(INSIDE)
    os.mkfifo(tmp_path / "fifo")
    with WorkspaceFiles(tmp_path, opening=opening) as files, swapping([(tmp_path / "file", tmp_path / "fifo")]):
        answers = racing(lambda: files.read("file"), RACES // 5, seen(INSIDE))
    assert set(answers) == {INSIDE, "not_a_file"}


def test_a_check_before_the_use_would_be_beaten(tmp_path: Path) -> None:
    tree = Tree(tmp_path)

    def naive() -> str:
        path = tree.root / "a" / "real" / "file"
        if not path.resolve().is_relative_to(tree.root.resolve()):
            return "path_outside"
        return path.read_text()

    with swapping(tree.swaps[:1]):
        until = time.monotonic() + PATIENCE_S
        while time.monotonic() < until:
            with suppress(OSError):
                if naive() == SECRET:
                    return
    pytest.fail("the swapping process raced with nobody")
