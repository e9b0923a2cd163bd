"""The state directory as snapshots need it: the log of the ledger, the follower, the snapshots, the pins.

Works beside a running broker: nothing but snapshots and caches is ever written.
"""

from collections.abc import Generator, Iterator
from contextlib import contextmanager
from itertools import chain

from msgspec import Struct

from lifebus_broker.ledger.factory import open_log
from lifebus_broker.ledger.log import LedgerLog, LogSource
from lifebus_broker.ports import Record
from lifebus_broker.routing.registry import Registry
from lifebus_broker.snapshots.capture import capture_snapshot, capture_supplement
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.naming import POLICIES
from lifebus_broker.snapshots.compactions.registry import CompactionRegistry
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.files import DIRECTORY, SnapshotFiles
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.pins import pins_of
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import pinned_revisions
from lifebus_broker.state.stores import REDUCER_VERSION
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.messages.snapshots import SaveAnswer, SaveTypeName


class StateDirectory(Struct, frozen=True):
    """A state directory that is open to take snapshots or to boot them."""

    log: LedgerLog
    follower: StateFollower
    snapshots: SnapshotFiles
    compactions: CompactionRegistry
    pins: FrozenMap

    def revisions(self, beside: SnapshotFiles | None = None) -> Iterator[Record]:
        """Yield the revisions, each checked against the hash chain and what saves have pinned (`pinned_revisions`).

        Saves in the directory `beside` count as well.
        """
        places = [self.snapshots] if beside is None or beside is self.snapshots else [self.snapshots, beside]
        head = self.log.head
        return pinned_revisions(self.log, chain.from_iterable(files.pinned(head) for files in places))


class SnapshotSummary(Struct, frozen=True, kw_only=True):
    """A snapshot in short: its lines end at `position`; `why_not` says why the log cannot prove it any more."""

    snapshot_id: str
    save_type: str
    first: int
    position: int
    pending: int
    why_not: str | None


class SnapshotList(Struct, frozen=True, kw_only=True):
    """The snapshots, the newest first, the files that are none, and what the log holds."""

    snapshots: list[SaveSnapshot]
    refused: list[RefusedFile]
    floor: int
    head: int

    def describe(self, snapshot: SaveSnapshot) -> SnapshotSummary:
        """Return a snapshot in short."""
        pending = snapshot.pending_state or {}
        return SnapshotSummary(
            snapshot_id=snapshot.snapshot_id,
            save_type=snapshot.save_type,
            first=snapshot.event_log_range[0],
            position=snapshot.timestamp_event_id,
            pending=sum(len(items) for items in pending.values() if isinstance(items, tuple)),
            why_not=self.why_pruned(snapshot) or self._why_ahead(snapshot),
        )

    def why_pruned(self, snapshot: SaveSnapshot) -> str | None:
        """Return why nobody can prove a snapshot any more, None where its lines were not pruned."""
        first, last = snapshot.event_log_range
        if first > self.floor:
            return None
        gone = f"its lines from {first} to {min(last, self.floor)} were pruned"
        return f"{gone}; `lifebus ledger save session` makes a new one"

    def _why_ahead(self, snapshot: SaveSnapshot) -> str | None:
        return None if snapshot.timestamp_event_id <= self.head else f"the log ends at {self.head}, before it"


def present_pins(registry: Registry) -> FrozenMap:
    """Return the pins of this environment: these adapters, this code."""
    manifests = [adapter.manifest for adapter in registry.all()]
    return pins_of(manifests, reducer_version=REDUCER_VERSION, compaction_policies=POLICIES)


def snapshot_files(settings: Settings) -> SnapshotFiles:
    """Return the snapshots of a state directory."""
    return SnapshotFiles(settings.state_dir / DIRECTORY)


@contextmanager
def open_state_directory(settings: Settings) -> Generator[StateDirectory]:
    """Open the state directory that the settings name.

    Raises:
        LifebusError: there is no ledger file, or it cannot be read.
    """
    with open_log(settings.ledger_location) as log:
        caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
        yield StateDirectory(
            log=log,
            # a broker may run beside: its own follower alone writes caches
            follower=StateFollower(log, caches, writing=False),
            snapshots=snapshot_files(settings),
            compactions=CompactionRegistry(settings.state_dir, log),
            pins=present_pins(configured_adapters(settings)),
        )


def save_file(settings: Settings, save_type: SaveTypeName) -> SaveAnswer:
    """Take a snapshot of the ledger as it is now, without a broker.

    Raises:
        LifebusError: the ledger cannot be read.
        OSError: the snapshot cannot be written.
    """
    with open_state_directory(settings) as state:
        state.follower.advance()
        return take_snapshot(SaveType(save_type), state.follower, state.log, state.snapshots, state.pins)


def take_snapshot(
    save_type: SaveType, follower: StateFollower, log: LogSource, files: SnapshotFiles, pins: FrozenMap
) -> SaveAnswer:
    """Take a snapshot where the follower is, and keep it; blocks.

    Raises:
        LifebusError: the log cannot be read.
        OSError: the snapshot cannot be written.
    """
    snapshot = capture_snapshot(save_type, follower, log, pins)
    new = files.write(snapshot, capture_supplement(snapshot, follower, log))
    return SaveAnswer(
        snapshot_id=snapshot.snapshot_id,
        save_type=save_type.value,
        position=snapshot.timestamp_event_id,
        new=new,
    )


def list_snapshots(settings: Settings) -> SnapshotList:
    """Return what is kept, and which of it the log can prove.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    with open_state_directory(settings) as state:
        return list_stored(state)


def list_stored(state: StateDirectory) -> SnapshotList:
    """Return what is kept in an open state directory."""
    snapshots, refused = state.snapshots.all()
    return SnapshotList(snapshots=snapshots, refused=refused, floor=state.log.floor, head=state.log.head)
