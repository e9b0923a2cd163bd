"""Boots from a snapshot: finds one, proves it, and records that pins may change (docs/ledger.md, "Cold boot")."""

import os
import pwd
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Literal

import anyio
import msgspec
from msgspec import Struct, structs

from lifebus_admin.ledger_files.files import held_ledger
from lifebus_admin.snapshots.archive import boot_campaign
from lifebus_broker.ledger.records import write_notes
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Journal, NewRecord, Record
from lifebus_broker.snapshots.boot import Booted, cold_boot
from lifebus_broker.snapshots.boot_steps import ColdBootError, Step
from lifebus_broker.snapshots.files import RefusedFile, SnapshotFiles, read_snapshot
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.revisions import REVISIONS, PinMismatch, Revision, encode_revision, revise
from lifebus_broker.snapshots.snapshot import SaveSnapshot, encode_snapshot
from lifebus_broker.state.working_set import encode_working_set
from lifebus_contract import InvalidRequest
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_directory import Listing, Saved, list_saved, open_saved
from lifebus_transports.messages.snapshots import ReviseAnswer


class Verdict(Struct, frozen=True, kw_only=True):
    """What came of verifying a snapshot: ``proved``, ``unprovable`` because its lines were pruned, or ``wrong``."""

    name: str
    verdict: Literal["proved", "unprovable", "wrong"]
    why: str | None = None


def find_snapshot(files: SnapshotFiles, which: str | None, floor: int = 0) -> SaveSnapshot:
    """Return the snapshot of an id or of a file, or without either the newest one that needs no line up to `floor`.

    Raises:
        ColdBootError: its file is torn or was changed (step 1).
        InvalidRequest: there is none.
    """
    if which is None:
        return _newest(files, floor)
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


def plan_revision(snapshot: SaveSnapshot, today: FrozenMap, notes: Iterable[Record], reason: str) -> Revision:
    """Return the record that lets the snapshot boot with today's pins, in the name of who runs this process.

    Raises:
        InvalidRequest: nothing has to be revised, or it cannot be.
    """
    try:
        return revise(snapshot.pins_snapshot, today, notes, reason=reason, actor=actor_here())
    except (PinMismatch, ValueError) as fault:
        raise InvalidRequest(f"no revision was written: {fault}", code="no_revision") from None


def boot_here(settings: Settings, which: str | None, done: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Boot a snapshot of the state directory, or a bundle, and return what was visible then, as plain data.

    `done` is told each step as plain data.

    Raises:
        ColdBootError: something is not as it was.
        LifebusError: there is no such snapshot, or the ledger cannot be read.
    """

    def tell(step: Step) -> None:
        done(structs.asdict(step))

    if which is not None and not which.endswith(".json") and Path(which).is_file():
        booted = boot_campaign(settings, Path(which), tell)
    else:
        with open_saved(settings) as saved:
            booted = boot_saved(saved, find_snapshot(saved.snapshots, which, saved.log.floor), tell)
    view: dict[str, Any] = msgspec.json.decode(encode_working_set(booted.working_set))
    return view


def verify_snapshots(settings: Settings, which: str | None = None) -> list[Verdict]:
    """Boot every snapshot, or one, and return what came of it; files that are none are wrong.

    Raises:
        LifebusError: there is no such snapshot, or the ledger cannot be read.
    """
    with open_saved(settings) as saved:
        listing = list_saved(saved)
        if which is not None:
            return [_judge(saved, listing, find_snapshot(saved.snapshots, which))]
        refused = [Verdict(name=file.name, verdict="wrong", why=file.why) for file in listing.refused]
        return [*(_judge(saved, listing, snapshot) for snapshot in listing.snapshots), *refused]


def stored_bytes(snapshot: SaveSnapshot) -> bytes:
    """Return a snapshot as its file holds it."""
    return encode_snapshot(snapshot)


def revise_file(settings: Settings, snapshot_id: str, reason: str) -> ReviseAnswer:
    """Write a revision into the ledger file, which nobody else may hold.

    Raises:
        InvalidRequest: nothing has to be revised, or there is no such snapshot.
        LifebusError: a broker runs, or the file cannot be written.
    """
    with open_saved(settings) as saved:
        snapshot = find_snapshot(saved.snapshots, snapshot_id)
        revision = plan_revision(snapshot, saved.pins, saved.log.notes(REVISIONS), reason)
    with held_ledger(settings) as path:
        return anyio.run(_write, path, revision)


async def write_revision(journal: Journal, revision: Revision) -> ReviseAnswer:
    """Write a revision into the journal, and return once it is durable.

    Raises:
        LifebusError: the disk is full, or the ledger is closed.
    """
    (note,) = await write_notes(journal, [NewRecord(REVISIONS, encode_revision(revision))])
    changes = tuple(str(change)[:1024] for change in revision.changes)
    return ReviseAnswer(number=note.number, actor=revision.actor, changes=changes)


async def _write(path: Path, revision: Revision) -> ReviseAnswer:
    ledger = await SqliteLedger.open(path)
    try:
        return await write_revision(ledger.journal, revision)
    finally:
        await ledger.aclose()


def _judge(saved: Saved, listing: Listing, snapshot: SaveSnapshot) -> Verdict:
    name = snapshot.snapshot_id
    if why := listing.why_pruned(snapshot):
        return Verdict(name=name, verdict="unprovable", why=why)
    try:
        boot_saved(saved, snapshot)
    except ColdBootError as fault:
        return Verdict(name=name, verdict="wrong", why=fault.detail)
    return Verdict(name=name, verdict="proved")


def actor_here() -> str:
    """Return who runs this process, as a revision names it."""
    user = os.geteuid()
    try:
        return f"{pwd.getpwuid(user).pw_name} (uid {user})"
    except KeyError:
        return f"uid {user}"


def _newest(files: SnapshotFiles, floor: int) -> SaveSnapshot:
    snapshots, refused = files.all()
    if snapshots:
        return next((one for one in snapshots if one.event_log_range[0] > floor), snapshots[0])
    if refused:
        raise ColdBootError(1, None, f"{refused[0].name}: {refused[0].why}; no other is there")
    raise InvalidRequest("nothing was saved yet; `lifebus save session` saves now", code="no_snapshot")
