"""Replace, make or remove one file so that it is always the old one or the new one (docs/hooks.md S2).

The new text is written beside the real file and synced; then the two exchange their names in one step, where the system
can do that.  What came out is compared once more, so that even a change in the last moment is not lost.

These rules go beyond those of `lifebus_broker.atomic_files`: the files are the user's, so that symbolic links, owners
and modes stay, and another program may write at any moment.  `in_place` writes settings with hard links.
"""

import os
from pathlib import Path
from typing import Final

from lifebus_admin.installer.file_state import TargetFile, digest_of, read_target
from lifebus_broker.atomic_files import create_file
from lifebus_broker.disk import Disk

_PREFIX: Final = ".lifebus-"
_SUFFIX: Final = ".tmp"
_MOST_SWAPS: Final = 100


class ChangedMeanwhile(Exception):
    """The file is not what was read any more; nothing of ours stands there."""


def temporary_of(real: Path) -> Path:
    """Return the name beside the file under which its next contents are written."""
    # Named after the file, so that a later run finds and removes what a crash left.
    return real.with_name(f"{_PREFIX}{digest_of(os.fsencode(real.name))[:12]}{_SUFFIX}")


def clean_up(disk: Disk, real: Path) -> None:
    """Remove what a run that crashed left beside the file; only one run works on it at a time."""
    temporary = temporary_of(real)
    if temporary.is_symlink() or temporary.exists():
        disk.unlink(temporary)
        disk.sync_directory(real.parent)


def make_directories(disk: Disk, missing: tuple[str, ...], mode: int = 0o700) -> None:
    """Make the directories that are still missing, outermost first."""
    for name in missing:
        path = Path(name)
        if not path.exists():
            disk.make_directory(path, mode)
            disk.sync_directory(path.parent)


def replace_file(disk: Disk, file: TargetFile, contents: bytes, mode: int) -> None:
    """Put `contents` in the place of a file, or where none was.

    Raises:
        Changed: somebody else wrote meanwhile; their version stands.
        OSError: the system refused.
    """
    owner = None if file.contents is None else (file.user, file.group)
    temporary = temporary_of(file.real)
    create_file(temporary, contents, mode=mode, owner=owner, disk=disk)
    # Compared as late as possible; only an exchange notices what is written after this.
    if not read_target(file.path).is_as(file):
        disk.unlink(temporary)
        raise ChangedMeanwhile
    if file.contents is None:
        _place(disk, temporary, file.real)
    else:
        _swap(disk, temporary, file, contents)
    # A rename is durable only once its directory is.
    disk.sync_directory(file.real.parent)
    if read_target(file.path).contents != contents:
        raise ChangedMeanwhile


def _place(disk: Disk, temporary: Path, target: Path) -> None:
    """Give a new file its name, unless somebody else has taken that meanwhile."""
    try:
        disk.link(temporary, target)
    except FileExistsError:
        disk.unlink(temporary)
        raise ChangedMeanwhile from None
    except OSError:  # a file system without second names
        disk.rename(temporary, target)
        return
    disk.unlink(temporary)


def _swap(disk: Disk, temporary: Path, file: TargetFile, contents: bytes) -> None:
    """Exchange the two files; where a third version came out, the last of the others' is put back."""
    if not disk.exchange(temporary, file.real):
        disk.rename(temporary, file.real)
        return
    # What the exchange put aside must be what was read; otherwise somebody wrote in between.
    came_out, stands = temporary.read_bytes(), contents
    changed = came_out != file.contents
    # Swapped back until no other version comes out; bounded, as a busy writer could go on for ever.
    for _ in range(_MOST_SWAPS if changed else 0):
        disk.exchange(temporary, file.real)
        expected, stands, came_out = stands, came_out, temporary.read_bytes()
        if came_out == expected:
            break
    disk.unlink(temporary)
    if changed:
        raise ChangedMeanwhile


def remove_file(disk: Disk, file: TargetFile) -> None:
    """Remove a file.

    Raises:
        Changed: somebody else wrote meanwhile; their version stands.
        OSError: the system refused.
    """
    if not read_target(file.path).is_as(file):
        raise ChangedMeanwhile
    aside = temporary_of(file.real)
    # Moved first and compared then: what somebody wrote meanwhile is put back.
    disk.rename(file.real, aside)
    if aside.read_bytes() != file.contents:
        _place(disk, aside, file.real)
        raise ChangedMeanwhile
    disk.unlink(aside)
    disk.sync_directory(file.real.parent)
