"""The state directory as saves need it: the log of the ledger file, the keeper, the snapshots, the pins.

Works beside a running broker: nothing but snapshots and caches is ever written.
"""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct

from lifebus_broker.ledger.factory import open_log
from lifebus_broker.ledger.log import LedgerLog, LogSource
from lifebus_broker.routing.registry import Registry
from lifebus_broker.snapshots.capture import capture_snapshot
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
from lifebus_broker.state.stores import REDUCER_VERSION
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_transports.messages.snapshots import SaveAnswer, SaveTypeName


class Saved(Struct, frozen=True):
    """A state directory that is open to be saved or booted."""

    log: LedgerLog
    keeper: StateFollower
    snapshots: SnapshotFiles
    compactions: CompactionRegistry
    pins: FrozenMap


class Described(Struct, frozen=True, kw_only=True):
    """A snapshot in short: the range of its lines ends at `position`; `why_not` says why the log proves it no more."""

    snapshot_id: str
    save_type: str
    first: int
    position: int
    pending: int
    why_not: str | None


class Listing(Struct, frozen=True, kw_only=True):
    """The snapshots, the newest first, the files that are none, and what the log holds."""

    snapshots: list[SaveSnapshot]
    refused: list[RefusedFile]
    floor: int
    head: int

    def describe(self, snapshot: SaveSnapshot) -> Described:
        """Return a snapshot in short."""
        pending = snapshot.pending_state or {}
        return Described(
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
        return f"its lines from {first} to {min(last, self.floor)} were pruned; `lifebus save session` makes a new one"

    def _why_ahead(self, snapshot: SaveSnapshot) -> str | None:
        return None if snapshot.timestamp_event_id <= self.head else f"the log ends at {self.head}, before it"


def pins_here(registry: Registry) -> FrozenMap:
    """Return the pins of this environment: these adapters, this code."""
    manifests = [adapter.manifest for adapter in registry.all()]
    return pins_of(manifests, reducer_version=REDUCER_VERSION, compaction_policies=POLICIES)


def snapshot_files(settings: Settings) -> SnapshotFiles:
    """Return the snapshots of a state directory."""
    return SnapshotFiles(settings.state_dir / DIRECTORY)


@contextmanager
def open_saved(settings: Settings) -> Generator[Saved]:
    """Open the state directory that the settings name.

    Raises:
        LifebusError: there is no ledger file, or it cannot be read.
    """
    with open_log(settings.ledger_location) as log:
        caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
        yield Saved(
            log=log,
            keeper=StateFollower(log, caches, writing=False),
            snapshots=snapshot_files(settings),
            compactions=CompactionRegistry(settings.state_dir, log),
            pins=pins_here(configured_adapters(settings)),
        )


def save_file(settings: Settings, save_type: SaveTypeName) -> SaveAnswer:
    """Save the ledger file as it is now.

    Raises:
        LifebusError: the ledger cannot be read.
        OSError: the snapshot cannot be written.
    """
    with open_saved(settings) as saved:
        saved.keeper.advance()
        return save_now(SaveType(save_type), saved.keeper, saved.log, saved.snapshots, saved.pins)


def save_now(
    save_type: SaveType, keeper: StateFollower, log: LogSource, files: SnapshotFiles, pins: FrozenMap
) -> SaveAnswer:
    """Take a snapshot where the keeper is, and keep it; blocks.

    Raises:
        LifebusError: the log cannot be read.
        OSError: the snapshot cannot be written.
    """
    snapshot = capture_snapshot(save_type, keeper, log, pins)
    new = files.write(snapshot)
    return SaveAnswer(
        snapshot_id=snapshot.snapshot_id,
        save_type=save_type.value,
        position=snapshot.timestamp_event_id,
        new=new,
    )


def list_snapshots(settings: Settings) -> Listing:
    """Return what is kept, and which of it the log can prove.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    with open_saved(settings) as saved:
        return list_saved(saved)


def list_saved(saved: Saved) -> Listing:
    """Return what is kept in an open state directory."""
    snapshots, refused = saved.snapshots.all()
    return Listing(snapshots=snapshots, refused=refused, floor=saved.log.floor, head=saved.log.head)
