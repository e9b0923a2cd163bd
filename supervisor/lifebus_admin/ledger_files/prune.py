"""Drop old receipts for an operator: plan it on the file, and do it where no broker runs (docs/ledger.md)."""

from contextlib import closing
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_admin.ledger_files.files import held_ledger, ledger_file, regular_file
from lifebus_admin.ledger_files.info import LedgerInfo, read_info
from lifebus_broker.ledger.retention import Limits
from lifebus_broker.ledger.sqlite.errors import user_errors
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ledger.sqlite.usage import decide_prune
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.stores import dump_stores
from lifebus_contract import InvalidRequest
from lifebus_supervisor.configuration.settings import Settings

_DAY_S: Final = 86_400
_MIB: Final = 1_048_576


class PruneRequest(Struct, frozen=True, kw_only=True):
    """What is to go, in at most one of four ways: older than a second or than days, too much, up to a position."""

    before_epoch_s: int | None = None
    keep_days: int | None = None
    keep_mb: int | None = None
    through: int | None = None

    def limits(self, now_epoch_s: int) -> Limits:
        """Return the request as retention takes it."""
        keep_s = None if self.keep_days is None else self.keep_days * _DAY_S
        if self.before_epoch_s is not None:
            keep_s = now_epoch_s - self.before_epoch_s
        return Limits(keep_s=keep_s, keep_bytes=None if self.keep_mb is None else self.keep_mb * _MIB)


class PrunePlan(Struct, frozen=True, kw_only=True):
    """What is to go: the receipts after `floor` up to `through`; nothing where both are the same."""

    info: LedgerInfo
    through: int

    @property
    def receipts(self) -> int:
        """How many receipts go."""
        return self.through - self.info.floor


def plan_prune(settings: Settings, now_epoch_s: int, request: PruneRequest) -> PrunePlan:
    """Return what a request would drop; nothing is written.

    Raises:
        InvalidRequest: there is no such position.
        LifebusError: the ledger cannot be read.
    """
    path = regular_file(ledger_file(settings))
    info = read_info(path)
    through = request.through
    if through is not None:
        if through > info.head:
            raise InvalidRequest(f"there is no receipt {through}; the newest is {info.head}", code="no_position")
        return PrunePlan(info=info, through=max(through, info.floor))
    with user_errors(path):
        cut = decide_prune(path, request.limits(now_epoch_s), now_epoch_s)
    return PrunePlan(info=info, through=info.floor if cut is None else cut.floor)


def prune_here(settings: Settings, through: int, now_epoch_s: int) -> None:
    """Drop every receipt up to a position from the file, and give its room back to the disk.

    Raises:
        LifebusError: a broker runs, the log is broken, or there is no room to do it.
    """
    with held_ledger(settings) as path, user_errors(path):
        regular_file(path)
        # computed before anything is dropped: afterwards nobody could
        base = _base_at(settings, path, through)
        with closing(Store.open(path, epoch="")) as store:
            store.prune_to(through, base, now_epoch_s)
            while store.prune_step():
                continue
            while store.has_free_pages:
                store.vacuum()
            # last: what was deleted is in the log until it is moved, and takes disk there
            store.truncate_wal()


def _base_at(settings: Settings, path: Path, position: int) -> bytes:
    """Return the dump of the stores after a position, which stands for all that goes."""
    with SqliteLog(path) as log:
        caches = CompactionFiles(settings.state_dir, StateCache.policy_id)
        return dump_stores(StateFollower(log, caches, writing=False).stores_at(position))
