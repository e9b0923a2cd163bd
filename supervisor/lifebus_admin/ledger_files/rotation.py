"""Backups in a folder, of which so many are kept (docs/ledger.md, "Scheduled backups")."""

import os
import re
import time
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_admin.ledger_files.backup import back_up
from lifebus_broker.atomic_files import make_directory, sync_directory
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings

_FORMAT: Final = "ledger-%Y%m%dT%H%M%SZ.db"
_OURS: Final = re.compile(r"ledger-\d{8}T\d{6}Z\.db")


class Rotated(Struct, frozen=True, kw_only=True):
    """What a rotation made, up to which position, and which backups it removed."""

    file: str
    epoch: str
    head: int
    floor: int
    bytes: int
    removed: tuple[str, ...]


def rotate(settings: Settings, folder: Path, keep: int, at_epoch_s: float) -> Rotated:
    """Back the ledger up into a folder, check the copy, then remove all but the newest.

    The folder is made where its parent is there.  What is older goes last: a backup that fails, or is not sound, leaves
    every other one where it is.  Only files that have the name of a backup are ever removed.

    Raises:
        LifebusError: there is no ledger, or the copy is not sound.
        OSError: the copy cannot be written.
    """
    make_directory(folder)
    target = folder / time.strftime(_FORMAT, time.gmtime(at_epoch_s))
    made = back_up(settings, target)
    others = [path for path in backups_in(folder) if path != target]
    removed = others[: max(0, len(others) - (keep - 1))]
    for path in removed:
        path.unlink()
    if removed:
        sync_directory(folder)
    return Rotated(
        file=str(target),
        epoch=made.epoch,
        head=made.head,
        floor=made.floor,
        bytes=made.bytes,
        removed=tuple(path.name for path in removed),
    )


def backups_in(folder: Path) -> list[Path]:
    """Return the backups in a folder, the oldest first; other files are none of ours.

    Raises:
        LifebusError: it cannot be read.
    """
    try:
        with os.scandir(folder) as entries:
            names = [one.name for one in entries if _OURS.fullmatch(one.name) and one.is_file(follow_symlinks=False)]
    except OSError as fault:
        raise LifebusError(f"{folder}: {fault.strerror}", code="unreadable") from fault
    # The names sort by their times.
    return [folder / name for name in sorted(names)]
