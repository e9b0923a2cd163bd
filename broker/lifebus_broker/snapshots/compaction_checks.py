"""Builds the compactions of a snapshot again and compares them with the files (docs/ledger.md, "Cold boot")."""

from collections.abc import Callable

from msgspec import Struct

from lifebus_broker.snapshots.capture import RECAPS
from lifebus_broker.snapshots.compactions.compaction import Compaction
from lifebus_broker.snapshots.compactions.policy import Policy, build_all, names
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.compactions.state_cache import StateCache, boundary
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.snapshot import SaveSnapshot
from lifebus_broker.state.stores import Stores

ReadCompaction = Callable[[str], Compaction | RefusedFile | None]
"""Gives the compaction of that id that is kept in a file, why the file is refused, or None."""


class VerifiedCompactions(Struct, frozen=True, kw_only=True):
    """How many compactions were built, how many of them were kept as well, and which files are not what was built."""

    built: int
    kept: int
    stale: tuple[str, ...]


class CompactionVerifier:
    """Builds a snapshot's compactions while its log is replayed: `visit` gets the stores before it and at each line.

    They are built one at a time and compared, never all held.
    """

    def __init__(self, snapshot: SaveSnapshot, kept: ReadCompaction | None) -> None:
        self._wanted = frozenset(snapshot.compaction_ids)
        self._recaps = SessionRecap(RECAPS[snapshot.save_type])
        self._kept = kept or _nothing
        self._cache_at = boundary(max(snapshot.timestamp_event_id - 1, 0))
        self._first = snapshot.event_log_range[0]
        self._built: set[str] = set()
        self._expected: set[str] = set()
        self._same = 0
        self._stale: list[str] = []

    def visit(self, stores: Stores) -> None:
        """Build the state cache, if it is the one of these stores."""
        if stores.position and stores.position == self._cache_at:
            self._build(StateCache(), stores)
            # A cache before the range is named only if the log reached back there when the snapshot was taken.
            if self._cache_at >= self._first:
                self._expected.update(names(StateCache(), stores))

    def finish(self, stores: Stores) -> VerifiedCompactions:
        """Build what is left, at the snapshot's own position.

        Raises:
            ValueError: the snapshot names others than those that follow from the log.
        """
        self._build(self._recaps, stores)
        # What could be built is not enough: the names must be exactly those that follow from the log.
        expected = self._expected | self._built | set(names(self._recaps, stores))
        if strange := sorted(self._wanted.symmetric_difference(expected)):
            raise ValueError(f"{len(strange)} of the names differ, the first is {strange[0]}")
        return VerifiedCompactions(built=len(self._built), kept=self._same, stale=tuple(self._stale))

    def _build(self, policy: Policy, stores: Stores) -> None:
        for compaction in build_all(policy, stores, self._wanted):
            self._built.add(compaction.compaction_id)
            found = self._kept(compaction.compaction_id)
            if found == compaction:
                self._same += 1
            # A file that is missing is no fault: any compaction may be deleted at any time.
            elif found is not None:
                self._stale.append(compaction.compaction_id)


def _nothing(_: str) -> None:
    """Find no file."""
