"""The state caches of one log: found by what the log says, checked, renewed, rejected where they are wrong."""

from collections.abc import Callable
from contextlib import suppress
from typing import Final

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.snapshots.compactions.compaction import compaction_id_of, encode_large
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache, boundaries, cache_id_at
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.state.sealed import NewItems, SealedInMemory
from lifebus_broker.state.stores import Stores, dump_pieces, load_stores
from lifebus_contract import InternalError

KEPT_CACHES: Final = 3
"""State caches that are kept; older ones are deleted."""

_POLICY: Final = StateCache()


class StateCacheStore:
    """The caches of `source` in `files`; without `writing` they are only read, unless one is asked to renew them.

    `refused` is called with each cache that was rejected, or could not be written.  Every method blocks.
    """

    def __init__(
        self,
        source: LogSource,
        files: CompactionFiles,
        refused: Callable[[RefusedFile], None],
        *,
        writing: bool,
        new_items: NewItems = SealedInMemory,
    ) -> None:
        self._source, self._files, self._refused, self._writing = source, files, refused, writing
        self._new_items = new_items
        # A file that cannot be deleted must not be tried again and again.
        self._rejected: set[str] = set()

    def nearest(self, through: int) -> tuple[Stores, str] | None:
        """Return the stores of the newest cache at or before a position, and its name; None where there is none."""
        known = self._kept()
        for position in boundaries(self._source.floor, through) if known else ():
            name = cache_id_at(self._source, position)
            stores = self._read(name, position) if name in known else None
            if stores is not None and name is not None:
                return stores, name
        return None

    def write(self, stores: Stores) -> None:
        """Write the cache of the stores, if it is one of the newest."""
        # Older ones would be deleted by the next write.
        if self._writing and stores.position in boundaries(self._source.floor, self._source.head)[:KEPT_CACHES]:
            self._write(stores)

    def renew(self, stores_at: Callable[[int], Stores]) -> tuple[int, int, int]:
        """Write the newest caches where they are missing or wrong, and delete all others.

        Return how many were written, were there, and were deleted.

        Raises:
            OSError: a file cannot be deleted.
        """
        wanted, made = self._newest(), 0
        deleted = self._files.remove(set(self._files.ids()) - wanted.keys())
        for name, position in wanted.items():
            if self._read(name, position) is None:
                self._write(stores_at(position))
                made += 1
        return made, len(wanted) - made, deleted

    def reject(self, name: str, why: str) -> None:
        """Use a cache no more, and delete it."""
        self._refused(RefusedFile(name, why))
        self._rejected.add(name)
        if self._writing:
            with suppress(OSError):  # it is not used again in any case
                self._files.remove([name])

    def _kept(self) -> set[str]:
        """Return the names of the caches that are there; none where the directory cannot be read."""
        try:
            return set(self._files.ids())
        except OSError as fault:
            self._refused(RefusedFile(_POLICY.policy_id, f"the caches cannot be listed: {fault.strerror}"))
            return set()

    def _read(self, name: str, position: int) -> Stores | None:
        """Return the stores that a cache holds; one that is wrong is rejected."""
        if name in self._rejected:
            return None
        found = self._files.read(name)
        if found is None:
            return None
        if isinstance(found, RefusedFile):
            self.reject(name, found.why)
            return None
        try:
            stores = load_stores(found.output_bytes, self._new_items)
        except InternalError as fault:
            self.reject(name, fault.detail)
            return None
        # The hash of a file proves its bytes, not that they are the state of this log.
        if stores.position != position or found.input_handles not in _POLICY.inputs(stores):
            self.reject(name, f"it does not hold the state at {position} of this log")
            return None
        return stores

    def _write(self, stores: Stores) -> None:
        """Write the cache of the stores, and delete those that are too old."""
        for handles in _POLICY.inputs(stores):
            name = compaction_id_of(_POLICY.purpose, _POLICY.policy_id, handles)
            # In pieces: of many sessions the whole of it is large, and what is large leaves holes in the memory.
            pieces = encode_large(_POLICY.purpose, _POLICY.policy_id, handles, dump_pieces(stores))
            try:
                self._files.write_encoded(name, pieces)
                # Written anew from the log, so it may be used again.
                self._rejected.discard(name)
                self._files.remove(set(self._files.ids()) - self._newest().keys())
            except OSError as fault:
                self._refused(RefusedFile(name, f"the cache cannot be written: {fault.strerror}"))

    def _newest(self) -> dict[str, int]:
        """Return the names of the newest caches that the log can have, the oldest first, and their positions."""
        # By the log alone: a file's time or its name proves nothing.
        positions = boundaries(self._source.floor, self._source.head)[:KEPT_CACHES]
        named = {cache_id_at(self._source, position): position for position in reversed(positions)}
        return {name: position for name, position in named.items() if name is not None}
