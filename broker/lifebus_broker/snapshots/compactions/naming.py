"""Which compactions belong to a snapshot: names alone, from the stores and the log (docs/ledger.md, "Snapshots")."""

from typing import Final

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.snapshots.compactions.policy import names
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.compactions.state_cache import StateCache, boundary, cache_id_at
from lifebus_broker.state.stores import Stores

POLICIES: Final = (SessionRecap.policy_id, StateCache.policy_id)
"""The policies there are, as pins record them (docs/ledger.md C5)."""


def compaction_ids(stores: Stores, source: LogSource, *, recaps: int | None = 0) -> tuple[str, ...]:
    """Return the names of the compactions of these stores, sorted; nothing is built for that.

    They are the state cache at the last boundary before the stores' position, if the log reaches back there, and the
    recaps of so many sessions, those that changed last; of None, of all.
    """
    cache = cache_id_at(source, boundary(max(stores.position - 1, 0)))
    found = set(names(SessionRecap(recaps), stores))
    return tuple(sorted(found if cache is None else {*found, cache}))
