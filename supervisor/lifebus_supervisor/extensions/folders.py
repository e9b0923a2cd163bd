"""Folders of extensions on the disk: whose they are, what lies in them, and the copy that is run.

What was hashed is what is run: files are read once, and a private copy of what was read is imported.  A change on the
disk shows with the next reload, also where the child process has to come back in between.
"""

import hashlib
import os
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_supervisor.extensions.rules.discovery import Entry
from lifebus_transports.ownership import check_parents, foreign_file

MAX_FILES: Final = 1_000
MAX_BYTES: Final = 16 * 1_048_576
_MAX_DEPTH: Final = 16
_SKIPPED: Final = frozenset({"__pycache__"})
_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


class UnsafeFolder(Exception):
    """A folder cannot be loaded: it, or something in it, is not ours alone, a link, or too large."""


class Contents(Struct, frozen=True):
    """What lies in a folder: files by their paths within it, and the hash of them all."""

    files: Mapping[str, bytes]
    digest: str


def list_folder(path: str) -> Sequence[Entry] | None:
    """Return what lies in a folder by name; None where there is no folder, or it cannot be read."""
    try:
        with os.scandir(path) as found:
            entries = [
                Entry(one.name, one.is_dir(follow_symlinks=False), one.is_file(follow_symlinks=False)) for one in found
            ]
    except OSError:
        return None
    return sorted(entries, key=lambda entry: entry.name)


def read_folder(path: str) -> Contents:
    """Return the contents of an extension's folder, but what is hidden or compiled.

    Raises:
        UnsafeFolder: another user owns something of it or could change it, it holds a link, or it is too large.
    """
    files: dict[str, bytes] = {}
    _read_into(files, Path(path), "", 0)
    digest = hashlib.sha256()
    for name in sorted(files):
        # The lengths keep a name and its content from being read as another name's.
        digest.update(f"{len(name.encode())}:{len(files[name])}:".encode() + name.encode() + files[name])
    return Contents(files, f"sha256:{digest.hexdigest()}")


def copy_contents(contents: Contents, target: Path) -> None:
    """Write contents below a new folder.

    Raises:
        OSError: it is there already, or the disk is full.
    """
    target.mkdir(mode=0o700, parents=True)
    for name, data in contents.files.items():
        file = target / name
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_bytes(data)


def remove_copies(folder: Path) -> None:
    """Remove what was copied; what cannot be removed stays."""
    shutil.rmtree(folder, ignore_errors=True)


def _read_into(files: dict[str, bytes], folder: Path, prefix: str, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise UnsafeFolder(f"{folder}: folders are nested too deeply")
    try:
        check_parents(folder / "x")  # of the folder itself as well: it decides what its names mean
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
    except LifebusError as fault:
        raise UnsafeFolder(fault.detail) from None
    except OSError as fault:
        raise UnsafeFolder(f"{folder}: {fault.strerror}") from None
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _SKIPPED:
            continue
        name = f"{prefix}{entry.name}"
        if not _is_text(name):
            raise UnsafeFolder(f"{folder}: the name {entry.name!a} is no text in UTF-8")
        if entry.is_symlink():
            raise UnsafeFolder(f"{entry.path}: it is a link; put the file itself there")
        if entry.is_dir(follow_symlinks=False):
            _read_into(files, Path(entry.path), f"{name}/", depth + 1)
        else:
            files[name] = _read_file(Path(entry.path), MAX_BYTES - sum(map(len, files.values())))
        if len(files) > MAX_FILES:
            raise UnsafeFolder(f"{folder}: more than {MAX_FILES} files")


def _is_text(name: str) -> bool:
    """Whether a name can be written down; what was no UTF-8 on the disk has surrogates here."""
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read_file(path: Path, room: int) -> bytes:
    try:
        descriptor = os.open(path, _FLAGS)
    except OSError as fault:
        raise UnsafeFolder(f"{path}: {fault.strerror}") from None
    with open(descriptor, "rb") as file:  # noqa: PTH123  a descriptor
        found = os.fstat(descriptor)
        if (why := foreign_file(path, found, of_root=True)) is not None:
            raise UnsafeFolder(f"{path}: {why}")
        if found.st_size > room or not stat.S_ISREG(found.st_mode):
            raise UnsafeFolder(f"{path}: the files of an extension take at most {MAX_BYTES} bytes")
        data = file.read(room + 1)
    if len(data) > room:
        raise UnsafeFolder(f"{path}: the files of an extension take at most {MAX_BYTES} bytes")
    return data
