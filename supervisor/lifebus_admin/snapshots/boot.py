"""Boots from a snapshot: finds one, proves it, and records that pins may change (docs/ledger.md, "Cold boot")."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct, structs

from lifebus_admin.ledger_files.files import held_ledger
from lifebus_admin.snapshots.archive import boot_campaign
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.snapshots.boot import Booted, KeptFiles, cold_boot
from lifebus_broker.snapshots.cold_boot_error import ColdBootError, Step
from lifebus_broker.snapshots.files import SnapshotFiles, find_snapshot
from lifebus_broker.snapshots.revisions import Revision
from lifebus_broker.snapshots.snapshot import SaveSnapshot, encode_snapshot
from lifebus_broker.state.working_set import encode_working_set
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.pin_revisions import plan_revision, write_revision
from lifebus_supervisor.jobs.state_directory import (
    SnapshotList,
    StateDirectory,
    list_stored,
    open_state_directory,
    snapshot_files,
)
from lifebus_transports.messages.snapshots import ReviseAnswer


class Verdict(Struct, frozen=True, kw_only=True):
    """What came of verifying a snapshot: ``proved``, ``unprovable`` because its lines were pruned, or ``wrong``."""

    name: str
    verdict: Literal["proved", "unprovable", "wrong"]
    why: str | None = None


def stored_snapshot(settings: Settings, which: str | None = None) -> SaveSnapshot:
    """Return a snapshot of the state directory, or of a file, as `find_snapshot` does; no ledger is needed.

    Raises:
        ColdBootError: its file is torn or was changed (step 1).
        InvalidRequest: there is none.
    """
    return find_snapshot(snapshot_files(settings), which)


def boot_and_clean(
    opened: StateDirectory,
    snapshot: SaveSnapshot,
    beside: SnapshotFiles,
    done: Callable[[Step], None] | None = None,
) -> Booted:
    """Boot a snapshot from the ledger file; files of compactions that are not what the log says are deleted.

    `beside` is the directory that has the snapshot's supplement.

    Raises:
        ColdBootError: something is not as it was.
    """
    booted = cold_boot(
        snapshot,
        opened.log,
        opened.pins,
        opened.revisions(beside),
        stores_at=opened.follower.stores_at,
        kept=KeptFiles(compaction=opened.compactions.get, supplement=beside.supplement(snapshot)),
        done=done,
    )
    # Deleted and not rebuilt: a boot changes nothing that somebody else relies on.
    opened.compactions.delete(booted.rebuilt.stale)
    return booted


def boot_here(settings: Settings, which: str | None, done: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Boot a snapshot of the state directory, or an archive, and return what was visible then, as plain data.

    `done` is called with each step as plain data.

    Raises:
        ColdBootError: something is not as it was.
        LifebusError: there is no such snapshot, or the ledger cannot be read.
    """

    def report(step: Step) -> None:
        done(structs.asdict(step))

    # Ids have no dot, and snapshot files end in .json: any other file can only be an archive.
    if which is not None and not which.endswith(".json") and Path(which).is_file():
        booted = boot_campaign(settings, Path(which), report)
    else:
        with open_state_directory(settings) as opened:
            snapshot = find_snapshot(opened.snapshots, which, opened.log.floor)
            booted = boot_and_clean(opened, snapshot, _beside(opened, which), report)
    view: dict[str, Any] = msgspec.json.decode(encode_working_set(booted.working_set))
    return view


def verify_snapshots(settings: Settings, which: str | None = None) -> list[Verdict]:
    """Boot every snapshot, or one, and return what came of it; files that are none are wrong.

    Raises:
        LifebusError: there is no such snapshot, or the ledger cannot be read.
    """
    with open_state_directory(settings) as opened:
        listing = list_stored(opened)
        if which is not None:
            return [_verify(opened, listing, find_snapshot(opened.snapshots, which), _beside(opened, which))]
        refused = [Verdict(name=file.name, verdict="wrong", why=file.why) for file in listing.refused]
        found = [_verify(opened, listing, snapshot, opened.snapshots) for snapshot in listing.snapshots]
        return [*found, *refused]


def stored_bytes(snapshot: SaveSnapshot) -> bytes:
    """Return a snapshot as its file holds it."""
    return encode_snapshot(snapshot)


def revise_file(settings: Settings, snapshot_id: str, reason: str) -> ReviseAnswer:
    """Write a revision into the ledger file, which nobody else may hold.

    Raises:
        InvalidRequest: nothing has to be revised, or there is no such snapshot.
        LifebusError: a broker runs, or the file cannot be written.
    """
    with open_state_directory(settings) as opened:
        snapshot = find_snapshot(opened.snapshots, snapshot_id)
        revision = plan_revision(snapshot, opened.pins, opened.revisions(), reason)
    # Planned before the lock is taken, as a broker may run meanwhile; only the write needs it.
    with held_ledger(settings) as path:
        return anyio.run(_write, path, revision)


async def _write(path: Path, revision: Revision) -> ReviseAnswer:
    ledger = await SqliteLedger.open(path)
    try:
        return await write_revision(ledger.journal, revision)
    finally:
        await ledger.aclose()


def _beside(opened: StateDirectory, which: str | None) -> SnapshotFiles:
    """Return the directory of a snapshot that was named by its file, and otherwise the state directory's."""
    return opened.snapshots if which is None or not which.endswith(".json") else SnapshotFiles(Path(which).parent)


def _verify(opened: StateDirectory, listing: SnapshotList, snapshot: SaveSnapshot, beside: SnapshotFiles) -> Verdict:
    name = snapshot.snapshot_id
    # Nothing is wrong with it; the lines that would prove it are gone.
    if why := listing.why_pruned(snapshot):
        return Verdict(name=name, verdict="unprovable", why=why)
    try:
        boot_and_clean(opened, snapshot, beside)
    except ColdBootError as fault:
        return Verdict(name=name, verdict="wrong", why=fault.detail)
    return Verdict(name=name, verdict="proved")
