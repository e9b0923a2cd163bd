"""Back a ledger up, and put a backup in the place of the present ledger (docs/ledger.md, "Backup and restore")."""

import os
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from lifebus_admin.ledger_files.checks import check_file, require_whole
from lifebus_admin.ledger_files.files import held_ledger, ledger_file, new_file, regular_file, unfinished_file
from lifebus_admin.ledger_files.info import LedgerInfo, read_info
from lifebus_broker.atomic_files import sync_directory
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.transfer.copy import bring_up_to_date, compact, copy_ledger, renew
from lifebus_broker.ledger.sqlite.transfer.swap import next_path, settle
from lifebus_contract import LifebusError
from lifebus_supervisor.configuration.settings import Settings


class Replacement(Struct, frozen=True, kw_only=True):
    """What is in place now, and where the ledger before was moved; None where there was none."""

    epoch: str
    head: int
    floor: int
    aside: str | None


def back_up(settings: Settings, target: Path) -> LedgerInfo:
    """Copy the ledger as it is now, check the copy, give it its name; works beside a broker, whose writer never waits.

    Raises:
        LifebusError: there is no ledger, the copy is not sound, or there is something at `target`.
        OSError: the copy cannot be written.
    """
    path = regular_file(ledger_file(settings))
    refusal = f"the ledger {path} is damaged; nothing was backed up"
    require_whole(path, refusal)
    with new_file(target) as unfinished:
        with user_errors(path):
            # beside a running broker: only a reader's snapshot is taken of its file
            copy_ledger(path, unfinished)
            bring_up_to_date(unfinished)
        # checked before it gets its name: a backup that exists can be restored
        _require_sound(unfinished, refusal)
        return read_info(unfinished, name=target)


def restore(settings: Settings, backup: Path, epoch: str) -> Replacement:
    """Put a checked copy of a backup in the place of the ledger, as a new history; the backup stays as it is.

    Raises:
        LifebusError: a broker runs, or the backup is not sound; then nothing has changed.
        OSError: a file cannot be written; then nothing has changed, or the next start of a broker finishes it.
    """
    regular_file(backup, "backup")
    # To SQLite an empty file is an empty database, of which `renew` would make an empty ledger.
    read_info(backup)
    with held_ledger(settings) as path:

        def build(unfinished: Path) -> None:
            with user_errors(backup):
                copy_ledger(backup, unfinished)
                renew(unfinished, epoch)

        return put_in_place(settings, path, build, f"the backup {backup} is damaged; nothing was changed")


def put_in_place(settings: Settings, path: Path, build: Callable[[Path], None], refusal: str) -> Replacement:
    """Have a new ledger built, check it, and put it in the place of the present one; the caller holds the lock.

    Raises:
        LifebusError: what was built is not sound; the text begins with `refusal`, and nothing has changed.
        OSError: a file cannot be written.
    """
    with unfinished_file(path) as unfinished:
        build(unfinished)
        _require_sound(unfinished, refusal)
        info = read_info(unfinished)
        with unfinished.open("rb") as written:
            os.fsync(written.fileno())
        # this decides: from here on a kill is finished by the next start
        unfinished.rename(next_path(path))
        sync_directory(path.parent)
    # here and not at the next start: the caller wants to know where the ledger before is
    aside = settle(path, settings.ledger_companions)
    return Replacement(epoch=info.epoch, head=info.head, floor=info.floor, aside=None if aside is None else str(aside))


def shrink(settings: Settings) -> tuple[int, int]:
    """Write the ledger file anew without what is free in it; return the bytes it took before and takes now.

    Raises:
        LifebusError: a broker runs, or there is no room for it; the ledger is as it was.
    """
    with held_ledger(settings) as path, user_errors(path):
        regular_file(path)
        before = read_info(path).bytes
        compact(path)
        return before, read_info(path).bytes


def _require_sound(path: Path, refusal: str) -> None:
    faults = check_file(path)
    if faults:
        raise LifebusError("\n".join((refusal, *faults)), code="ledger_damaged")
