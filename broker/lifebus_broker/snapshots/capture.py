"""Take a snapshot of where a follower is: digests and pointers; nothing is written (docs/ledger.md, "Snapshots")."""

from typing import Final

from msgspec import structs

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.snapshots.compactions.naming import compaction_ids
from lifebus_broker.snapshots.compactions.registry import SAVED_RECAPS
from lifebus_broker.snapshots.compactions.state_cache import boundary
from lifebus_broker.snapshots.frozen import FrozenMap, thaw
from lifebus_broker.snapshots.snapshot import SaveSnapshot, SaveType, take_snapshot
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import Supplement, take_supplement
from lifebus_broker.state.stores import pending_of, store_digests

RECAPS: Final = {SaveType.SCENE: 0, SaveType.SESSION: SAVED_RECAPS, SaveType.CAMPAIGN: None}
"""Of how many sessions, those that changed last, a snapshot names the recaps; None is all of them."""


def capture_snapshot(save_type: SaveType, follower: StateFollower, source: LogSource, pins: FrozenMap) -> SaveSnapshot:
    """Return the snapshot of the stores where the follower is; the same position gives the same bytes.

    A scene's range begins behind the newest state cache before it, the others' with the log.  Blocks; nothing is
    written.

    Raises:
        LifebusError: the log cannot be read, or was pruned meanwhile.
    """
    stores, floor = follower.state, source.floor
    last = stores.position
    # The cache before a scene holds all earlier lines, so that a scene can be booted quickly.
    after = max(floor, boundary(max(last - 1, 0))) if save_type is SaveType.SCENE else floor
    return take_snapshot(
        save_type,
        event_log_range=(after + 1, last),
        event_log_hash=follower.log_hash(after),
        digests=structs.asdict(store_digests(stores, thaw(pins))),
        pending_state=pending_of(stores),
        pins=pins,
        compaction_ids=compaction_ids(stores, source, recaps=RECAPS[save_type]),
    )


def capture_supplement(snapshot: SaveSnapshot, follower: StateFollower, source: LogSource) -> Supplement:
    """Return what is kept beside a snapshot that was taken where the follower is; blocks.

    Raises:
        LifebusError: the log cannot be read, or a revision does not continue the hash chain of the journal.
    """
    return take_supplement(snapshot, follower.line_digests(snapshot.event_log_range[0] - 1), source)
