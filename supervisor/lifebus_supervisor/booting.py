"""Boot from what was saved: find a snapshot, prove it, and write down that pins may change (session-lifecycle, 3, 5).

Above: the command line, the daemon.  Below: saved, lifebus_broker.saves.
"""

import os
import pwd
from collections.abc import Callable, Iterable
from pathlib import Path

from lifebus_broker.ports import Note
from lifebus_broker.saves.cold_boot import Booted, cold_boot
from lifebus_broker.saves.files import RefusedFile, SnapshotFiles, read_snapshot
from lifebus_broker.saves.frozen import FrozenMap
from lifebus_broker.saves.revisions import REVISIONS, PinMismatch, Revision, revise
from lifebus_broker.saves.snapshot import SaveSnapshot
from lifebus_broker.saves.steps import ColdBootError, Step
from lifebus_contract import InvalidRequest
from lifebus_supervisor.saved import Saved

__all__ = ["actor_here", "boot_saved", "find_snapshot", "plan_revision"]


def find_snapshot(files: SnapshotFiles, which: str | None) -> SaveSnapshot:
    """Return the snapshot of an id or of a file, or without either the newest one.

    Raises:
        ColdBootError: its file is torn or was changed (step 1).
        InvalidRequest: there is none.
    """
    if which is None:
        return _newest(files)
    found = read_snapshot(Path(which)) if which.endswith(".json") else files.read(which)
    if isinstance(found, RefusedFile):
        raise ColdBootError(1, None, f"{found.name}: {found.why}")
    if found is None:
        raise InvalidRequest(
            f"there is no snapshot `{which[:128]}`; `lifebus snapshots ls` lists them", code="no_snapshot"
        )
    return found


def boot_saved(saved: Saved, snapshot: SaveSnapshot, done: Callable[[Step], None] | None = None) -> Booted:
    """Boot a snapshot from the ledger file; files of compactions that are not what the log says are deleted.

    Raises:
        ColdBootError: something is not as it was.
    """
    booted = cold_boot(
        snapshot,
        saved.log,
        saved.pins,
        saved.log.notes(REVISIONS),
        restart=saved.keeper.stores_at,
        kept=saved.compactions.get,
        done=done,
    )
    saved.compactions.delete(booted.rebuilt.stale)
    return booted


def plan_revision(snapshot: SaveSnapshot, today: FrozenMap, notes: Iterable[Note], reason: str) -> Revision:
    """Return the record that lets the snapshot boot with today's pins, in the name of who runs this process.

    Raises:
        InvalidRequest: nothing has to be revised, or it cannot be.
    """
    try:
        return revise(snapshot.pins_snapshot, today, notes, reason=reason, actor=actor_here())
    except (PinMismatch, ValueError) as fault:
        raise InvalidRequest(f"no revision was written: {fault}", code="no_revision") from None


def actor_here() -> str:
    """Return who runs this process, as a revision names it."""
    user = os.geteuid()
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _newest(files: SnapshotFiles) -> SaveSnapshot:
    snapshots, refused = files.all()
    if snapshots:
        return snapshots[0]
    if refused:
        raise ColdBootError(1, None, f"{refused[0].name}: {refused[0].why}; no other is there")
    raise InvalidRequest("nothing was saved yet; `lifebus save session` saves now", code="no_snapshot")
