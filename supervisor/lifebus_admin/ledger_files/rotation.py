"""Backups in a folder, of which so many are kept (docs/ledger.md, "Scheduled backups")."""

from pathlib import Path

from msgspec import Struct

from lifebus_admin.ledger_files.backup import back_up
from lifebus_broker.atomic_files import make_directory, sync_directory
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.backup_files import backup_name, backups_in


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
    target = folder / backup_name(at_epoch_s)
    made = back_up(settings, target)
    others = [one.path for one in backups_in(folder) if one.path != target]
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
