"""Save a campaign as one file, and boot it where nothing else of it is (docs/ledger.md, "The campaign archive")."""

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path

from lifebus_admin.ledger_files.files import ledger_file, new_file, regular_file
from lifebus_admin.ledger_files.transfer import export_source
from lifebus_broker.canonical_json import canonical
from lifebus_broker.exports.writer import write_export
from lifebus_broker.snapshots.archive import COMPACTIONS, LEDGER, PINS, SNAPSHOT, Archive, ArchiveWriter, open_archive
from lifebus_broker.snapshots.boot import Booted, KeptFiles, cold_boot
from lifebus_broker.snapshots.capture import capture_snapshot
from lifebus_broker.snapshots.cold_boot_error import ColdBootError, Step
from lifebus_broker.snapshots.compactions.compaction import Compaction, decode_compaction, encode_compaction
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.policy import build_all
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.compactions.state_cache import StateCache, boundary
from lifebus_broker.snapshots.frozen import thaw
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType, decode_snapshot, encode_snapshot
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import pinned_revisions
from lifebus_broker.state.stores import REDUCER_VERSION
from lifebus_contract import InvalidRequest
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.state_directory import present_pins


def save_campaign(settings: Settings, target: Path) -> SaveSnapshot:
    """Write the whole campaign as of now into a new file; works beside a broker; the same ledger gives the same bytes.

    Raises:
        LifebusError: the ledger cannot be read, or there is something at `target`.
        OSError: it cannot be written.
    """
    caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
    pins = present_pins(configured_adapters(settings))
    # Takes its name once it is whole, and never replaces a file.
    with new_file(target) as unfinished, unfinished.open("w+b") as file, export_source(ledger_file(settings)) as source:
        follower = StateFollower(source, caches, writing=False)
        follower.advance()
        snapshot = capture_snapshot(SaveType.CAMPAIGN, follower, source, pins)
        archive = ArchiveWriter(file)
        archive.put(SNAPSHOT, encode_snapshot(snapshot))
        archive.put(PINS, canonical(thaw(pins)))
        with archive.member(COMPACTIONS) as write:
            for compaction in _compactions(follower, snapshot):
                write(encode_compaction(compaction))
        with archive.member(LEDGER) as write:
            write_export(source, REDUCER_VERSION, write)
        archive.finish()
    return snapshot


def boot_campaign(settings: Settings, file: Path, done: Callable[[Step], None] | None = None) -> Booted:
    """Boot a campaign from its archive alone: no ledger is needed here, and nothing is written.

    Raises:
        ColdBootError: something is not as it was.
        InvalidRequest: it is no archive, or one of its members is not what the manifest says.
        LifebusError: it cannot be read.
    """
    archive = open_archive(regular_file(file, "archive"))
    try:
        snapshot = decode_snapshot(archive.content(SNAPSHOT))
    except ValueError as fault:
        raise ColdBootError(1, None, f"{SNAPSHOT}: {fault}") from None
    _check_pins(archive, snapshot)
    pins = present_pins(configured_adapters(settings))
    log, kept = archive.log(), _ArchivedCompactions(archive)
    # A generator, so that the pins of the snapshot are compared before the file is read for revisions.
    revisions = pinned_revisions(log, iter(()))
    booted = cold_boot(snapshot, log, pins, revisions, kept=KeptFiles(compaction=kept.find), done=done)
    if booted.rebuilt.stale or booted.rebuilt.kept != len(snapshot.compaction_ids):
        raise ColdBootError(12, None, f"{COMPACTIONS} does not hold what follows from the log")
    # Last: the boot names the first bad position, which a wrong hash would not.
    for name in (COMPACTIONS, LEDGER):
        archive.check(name)
    return booted


def _compactions(follower: StateFollower, snapshot: SaveSnapshot) -> Iterator[Compaction]:
    """Yield the compactions that the snapshot names, always in the same order."""
    wanted, place = frozenset(snapshot.compaction_ids), boundary(max(snapshot.timestamp_event_id - 1, 0))
    yield from build_all(SessionRecap(None), follower.state, wanted)
    if snapshot.event_log_range[0] <= place:
        yield from build_all(StateCache(), follower.stores_at(place), wanted)


def _check_pins(archive: Archive, snapshot: SaveSnapshot) -> None:
    if archive.content(PINS) != canonical(thaw(snapshot.pins_snapshot)):
        raise InvalidRequest(f"{archive.path}: `{PINS}` is not what the snapshot says", code="bundle_damaged")


class _ArchivedCompactions:
    """The compactions of an archive by name; they are indexed at the first read, after the log's proof."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive

    def find(self, compaction_id: str) -> Compaction | None:
        """Return the compaction of that name."""
        offset = self._offsets.get(compaction_id)
        return None if offset is None else _decoded(next(self._archive.compactions(offset))[1])

    @cached_property
    def _offsets(self) -> dict[str, int]:
        return {_decoded(line).compaction_id: offset for offset, line in self._archive.compactions()}


def _decoded(line: bytes) -> Compaction:
    try:
        return decode_compaction(line)
    except ValueError as fault:
        raise ColdBootError(12, None, f"{COMPACTIONS}: {fault}") from None
