"""Which files of a folder are scheduled backups, and when each was made: its name says it."""

import os
import re
import time
from calendar import timegm
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_contract import LifebusError

_FORMAT: Final = "ledger-%Y%m%dT%H%M%SZ.db"
# `strptime` alone would also take numbers that lack their zeros.
_NAME: Final = re.compile(r"ledger-\d{8}T\d{6}Z\.db", re.ASCII)


class BackupFile(Struct, frozen=True, order=True):
    """A backup, and when it was made, in wall-clock seconds."""

    made_epoch_s: int
    path: Path


def backup_name(at_epoch_s: float) -> str:
    """Return the name of a backup that is made at this wall-clock time."""
    return time.strftime(_FORMAT, time.gmtime(at_epoch_s))


def backups_in(folder: Path) -> list[BackupFile]:
    """Return the backups in a folder, the oldest first; other files are none of ours.  Blocks.

    Raises:
        LifebusError: it cannot be read.
    """
    found: list[BackupFile] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                made_epoch_s = _made_at(entry.name)
                if made_epoch_s is not None and entry.is_file(follow_symlinks=False):
                    found.append(BackupFile(made_epoch_s, folder / entry.name))
    except OSError as fault:
        raise LifebusError(f"{folder}: {fault.strerror}", code="unreadable") from fault
    return sorted(found)


def newest_in(folder: Path) -> BackupFile | None:
    """Return the newest backup in a folder; blocks."""
    try:
        return max(backups_in(folder), default=None)
    except LifebusError:  # not there yet, or not readable: then the backup fails, and says why
        return None


def _made_at(name: str) -> int | None:
    """Return when a backup of this name was made: its times change when it is copied; None where it is no such name."""
    if not _NAME.fullmatch(name):
        return None
    try:
        return timegm(time.strptime(name, _FORMAT))
    except ValueError:  # there is no such time
        return None
