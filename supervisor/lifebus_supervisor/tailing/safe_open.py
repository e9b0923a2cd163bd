"""Opening other programs' files: only plain files of our own user, reached without links."""

import errno
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Final

from msgspec import Struct

from lifebus_supervisor.tailing.events import FileProblem

_FOLDER: Final = os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC | getattr(os, "O_PATH", os.O_RDONLY)
# Without O_NONBLOCK, opening a named pipe that took the file's place would wait for a writer.
_FILE: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_KINDS: Final = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFDIR: "a directory",
    stat.S_IFSOCK: "a socket",
}


class UnusableFile(Exception):
    """A file cannot be read now: which problem it is, and what shows it."""

    def __init__(self, problem: FileProblem, evidence: str) -> None:
        super().__init__(evidence)
        self.problem: FileProblem = problem
        self.evidence = evidence


def join_path(below: str, name: str) -> str:
    """Return the path of a name in a folder that is given by its own path, which is empty for a root."""
    return f"{below.rstrip('/')}/{name}" if below else name


class FilePlace(Struct, frozen=True):
    """Where a file is: below a root whose own links are resolved, and the path as its user would write it."""

    root: str
    below: str
    shown: str

    @property
    def path(self) -> str:
        """The path to use."""
        return join_path(self.root, self.below)


def check_status(status: os.stat_result, uid: int) -> None:
    """Refuse everything but a plain file that belongs to a user.

    Raises:
        UnusableFile: refused, and why.
    """
    if not stat.S_ISREG(status.st_mode):
        raise UnusableFile("refused", _KINDS.get(stat.S_IFMT(status.st_mode), "not a plain file"))
    if status.st_uid != uid:
        raise UnusableFile("refused", f"owned by user {status.st_uid}")


@contextmanager
def open_checked(place: FilePlace, uid: int) -> Generator[tuple[int, os.stat_result], None, None]:
    """Open a file for reading, one folder after the other, and check what was really opened.

    Raises:
        UnusableFile: it is not there, not ours, not a plain file, behind a link, or cannot be read.
    """
    try:
        file = _open(place)
    except OSError as fault:
        raise unusable_for(fault) from fault
    try:
        # Of the open descriptor: another file may have taken the path since it was checked.
        status = os.fstat(file)
        check_status(status, uid)
        yield file, status
    except OSError as fault:
        raise unusable_for(fault) from fault
    finally:
        with suppress(OSError):
            os.close(file)


def _open(place: FilePlace) -> int:
    # O_NOFOLLOW guards only the last part of a path, so each folder is opened by itself.
    *folders, name = place.below.split("/")
    here = os.open(place.root, _FOLDER)
    try:
        for folder in folders:
            inner = os.open(folder, _FOLDER, dir_fd=here)
            os.close(here)
            here = inner
        return os.open(name, _FILE, dir_fd=here)
    finally:
        os.close(here)


def unusable_for(fault: OSError) -> UnusableFile:
    """Return what an error of the operating system means for a tailed file."""
    name = errno.errorcode.get(fault.errno or 0, "unknown error")
    if fault.errno == errno.ENOENT:
        return UnusableFile("missing", "no such file")
    if fault.errno in {errno.ELOOP, errno.ENOTDIR}:
        return UnusableFile("refused", "a symbolic link on the way, or a folder that is none")
    return UnusableFile("unreadable", name)
