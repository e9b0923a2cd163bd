"""The state directory as saves need it: the log of the ledger file, the keeper, the snapshots, the pins.

Works beside a running broker: nothing but snapshots and caches is ever written.

Above: booting, the saver, the command line.  Below: lifebus_broker.saves, lifebus_broker.keeper, the ledger file.
"""

from collections.abc import Generator
from contextlib import contextmanager

from msgspec import Struct

from lifebus_broker.compactions.files import CompactionFiles
from lifebus_broker.compactions.naming import POLICIES
from lifebus_broker.compactions.registry import CompactionRegistry
from lifebus_broker.compactions.state_cache import StateCache
from lifebus_broker.fold.stores import REDUCER_VERSION
from lifebus_broker.keeper import StateKeeper
from lifebus_broker.ledger.sqlite_log import SqliteLog
from lifebus_broker.registry import Registry
from lifebus_broker.saves.files import DIRECTORY, RefusedFile, SnapshotFiles
from lifebus_broker.saves.frozen import FrozenMap
from lifebus_broker.saves.pins import pins_of
from lifebus_broker.saves.snapshot import SaveSnapshot, SaveType
from lifebus_broker.saves.taking import save
from lifebus_contract import LifebusError
from lifebus_supervisor.adapters import configured_adapters
from lifebus_supervisor.settings import Settings

__all__ = ["Listing", "Saved", "list_snapshots", "open_saved", "pins_here", "save_here", "snapshot_files"]


class Saved(Struct, frozen=True):
    """A state directory that is open to be saved or booted."""

    log: SqliteLog
    keeper: StateKeeper
    snapshots: SnapshotFiles
    compactions: CompactionRegistry
    pins: FrozenMap


class Listing(Struct, frozen=True, kw_only=True):
    """The snapshots, the newest first, the files that are none, and from where on the log can still prove one."""

    snapshots: list[SaveSnapshot]
    refused: list[RefusedFile]
    floor: int
    head: int

    def why_not(self, snapshot: SaveSnapshot) -> str | None:
        """Return why the log cannot prove a snapshot any more, None where it can."""
        first, last = snapshot.event_log_range
        if first <= self.floor:
            return f"its lines from {first} to {min(last, self.floor)} were pruned"
        if last > self.head:
            return f"the log ends at {self.head}, before it"
        return None


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
    if settings.ledger.backend != "sqlite":
        raise LifebusError("the ledger is kept in memory: there is nothing to save or to boot", code="configuration")
    if not settings.ledger_path.is_file():
        detail = f"{settings.ledger_path}: there is no such ledger; `lifebus config` shows where it is looked for"
        raise LifebusError(detail, code="unreadable")
    caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
    with SqliteLog(settings.ledger_path) as log:
        yield Saved(
            log=log,
            keeper=StateKeeper(log, caches, writing=False),
            snapshots=snapshot_files(settings),
            compactions=CompactionRegistry(settings.state_dir, log),
            pins=pins_here(configured_adapters(settings)),
        )


def save_here(settings: Settings, save_type: SaveType) -> tuple[SaveSnapshot, bool]:
    """Save the ledger file as it is now; return the snapshot, and whether it was not kept already.

    Raises:
        LifebusError: the ledger cannot be read.
        OSError: the snapshot cannot be written.
    """
    with open_saved(settings) as saved:
        saved.keeper.advance()
        snapshot = save(save_type, saved.keeper, saved.log, saved.pins)
        return snapshot, saved.snapshots.write(snapshot)


def list_snapshots(settings: Settings) -> Listing:
    """Return what is kept, and which of it the log can prove.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    with open_saved(settings) as saved:
        snapshots, refused = saved.snapshots.all()
        return Listing(snapshots=snapshots, refused=refused, floor=saved.log.floor, head=saved.log.head)
