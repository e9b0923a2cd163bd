"""Follows the log: starts from the newest sound cache, then applies the lines behind it, one by one.

A cache only saves time: it is found by what the log says, checked by its hash, and compared with the log again.  One
that does not fit is rejected, and the log is read instead.
"""

from collections.abc import Callable, Mapping, Sequence
from hashlib import sha256
from typing import Final

from lifebus_broker.ledger.log import LogSource, encode_line
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import CACHE_EVERY, boundary
from lifebus_broker.snapshots.compactions.state_cache_store import StateCacheStore
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.supplement import DIGEST_BYTES, MAX_LINES, line_digest
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_broker.state.sealed import NewItems, SealedInMemory
from lifebus_broker.state.stores import Stores, load_base, reduce_event
from lifebus_broker.state.stream_digests import Stream, StreamKey
from lifebus_contract import InternalError, StateConflict

BATCH: Final = 1_024
"""Most lines that one step applies, so that other users of the thread and of the disk do not wait long."""

HASH_BATCH: Final = 4_096
"""Most lines that one step of a hash reads."""


class StateFollower:
    """The stores of one log, as far as it has been read.  Every method blocks; one thread at a time.

    Without `files` no cache is read and none is written; without `writing` caches are only read, unless one is running
    to renew them.  `refused` is called with each cache that was rejected, or could not be written; the follower goes
    on without it.  What the stores keep of sessions that ended is kept where `new_items` keeps it.
    """

    def __init__(
        self,
        source: LogSource,
        files: CompactionFiles | None = None,
        refused: Callable[[RefusedFile], None] | None = None,
        *,
        writing: bool = True,
        new_items: NewItems = SealedInMemory,
    ) -> None:
        self._source, self._new_items = source, new_items
        self._caches = (
            None
            if files is None
            else StateCacheStore(source, files, refused or _ignore, writing=writing, new_items=new_items)
        )
        self._stores: Stores | None = None
        self._cache_id: str | None = None
        self._hashes: dict[int, _LogHash] = {}

    @property
    def state(self) -> Stores:
        """The stores at the present position: not to be changed, and valid only until the next step.

        Raises:
            BrokenLog: the base is not what the log was pruned to.
        """
        if self._stores is None or self._stores.position < self._source.floor:
            self._stores, self._cache_id = self._nearest(self._source.head)
        return self._stores

    @property
    def position(self) -> int:
        """The position of the last line that was applied."""
        return self.state.position

    def step(self, through: int | None = None) -> bool:
        """Apply up to `BATCH` lines more, as far as `through` or the log's end; return whether there are more.

        At each of the newest boundaries a cache is written.

        Raises:
            BrokenLog: the log does not continue what came before, from its first line on.
        """
        stores, head = self.state, self._source.head
        # The log may have grown; a goal behind its end is the end.
        goal = head if through is None else min(through, head)
        if goal <= stores.position:
            return False
        # A step ends at a boundary, as a cache is of exactly that position.
        next_boundary = boundary(stores.position) + CACHE_EVERY
        try:
            # What a snapshot will hash is hashed with it: to read it again costs as much as all the rest.
            hashes = [one for one in self._hashes.values() if one.through == stores.position]
            _replay(stores, self._source, min(stores.position + BATCH, goal, next_boundary), hashes)
        except BrokenLog as fault:
            self._reject(self._cache_id, fault)
            self._stores = None
            return True
        except InternalError as fault:
            # Where a sealed session cannot be read, the line may have been applied in part.
            self._stores = None
            if fault.code != "history_pruned":
                raise
            # The lines before were pruned meanwhile, and their state has become the base.
            return True
        if self._caches is not None and stores.position == next_boundary:
            self._caches.write(stores)
        return stores.position < goal

    def advance(self, through: int | None = None) -> Stores:
        """Apply lines as far as `through`, or to the log's end, and return the stores there.

        Raises:
            BrokenLog: as `step`.
        """
        while self.step(through):
            pass
        return self.state

    def compare(self, heads: Mapping[StreamKey, Stream]) -> bool:
        """Compare the facts ledger with where the log's owner has its streams now; return whether they say the same.

        If not, the cache that the follower started from is rejected, and it starts again.

        Raises:
            BrokenLog: as `step`; also where no cache was used.
        """
        stores = self.advance(max((stream.position for stream in heads.values()), default=0))
        # Positions, sequences and links of all streams: together they depend on every byte of the log.
        if stores.facts.equals(heads):
            return True
        self._reject(self._cache_id, BrokenLog(stores.position, "its streams are not where the ledger has them"))
        self._stores = None
        return False

    def stores_at(self, position: int) -> Stores:
        """Return the stores after a line, which are the caller's; they come from whatever is nearest before it.

        Raises:
            StateConflict: the log does not hold that line, or not any more.
            BrokenLog: the log does not continue what came before.
        """
        floor, head = self._source.floor, self._source.head
        if not floor <= position <= head:
            raise StateConflict(
                f"position {position} is not in the log, which holds {floor} to {head}", code="no_position"
            )
        here = self._stores
        # Going on from here is cheaper only if no cache lies nearer to the position.
        if here is not None and max(floor, boundary(position)) <= here.position <= position:
            return _replay(here.copy(), self._source, position)
        # Each cache that the log contradicts is rejected, until one fits or none is left.
        while True:
            stores, name = self._nearest(position)
            try:
                return _replay(stores, self._source, position)
            except BrokenLog as fault:
                self._reject(name, fault)

    def renew_caches(self) -> tuple[int, int, int]:
        """Write the newest caches where they are missing or wrong, and delete all others.

        Return how many were written, were there, and were deleted.
        """
        return (0, 0, 0) if self._caches is None else self._caches.renew(self.stores_at)

    def log_hash(self, after: int) -> str:
        """Return the SHA-256 of the log's lines from the one behind `after` to the present position.

        A later call hashes only the new lines, as long as `after` is the log's floor or the newest boundary.
        """
        return self._hash_after(after).reach(self._source, self.position)

    def line_digests(self, after: int) -> bytes:
        """Return the digests of the newest lines that `log_hash` reads, one after the other (`supplement.Supplement`).

        They are at hand once the hash is.
        """
        running = self._hash_after(after)
        running.reach(self._source, self.position)
        return bytes(running.digests)

    def hash_batch(self, after: int) -> bool:
        """Hash up to `HASH_BATCH` lines more of what `log_hash` will need; return whether more are missing."""
        hashed = self._hash_after(after)
        hashed.reach(self._source, min(hashed.through + HASH_BATCH, self.position))
        return hashed.through < self.position

    def _hash_after(self, after: int) -> "_LogHash":
        """Return the running hash behind a position; those that cannot be needed again are dropped."""
        position = self.position
        running = self._hashes.get(after)
        if running is None or running.through > position:
            running = _LogHash(after)
        lasting = {after, self._source.floor, boundary(max(position - 1, 0))}
        self._hashes = {start: one for start, one in self._hashes.items() if start in lasting} | {after: running}
        return running

    def _nearest(self, through: int) -> tuple[Stores, str | None]:
        """Return stores at or before a position and the name of the cache that they came from, if it was one."""
        found = None if self._caches is None else self._caches.nearest(through)
        return found or (self._base(), None)

    def _base(self) -> Stores:
        """Return the stores before the log's first line."""
        floor, dump = self._source.floor, self._source.base()
        if dump is None and not floor:
            return Stores(self._new_items)
        try:
            stores = load_base(dump or b"", self._new_items)
        except InternalError as fault:
            raise BrokenLog(floor, f"the base of the pruned lines cannot be read: {fault.detail}") from None
        if stores.position != floor:
            raise BrokenLog(floor, f"the base of the pruned lines is one of {stores.position}")
        return stores

    def _reject(self, name: str | None, fault: BrokenLog) -> None:
        """Reject the cache that the log contradicts; without a cache it is the log that is broken."""
        if name is None or self._caches is None:
            raise fault
        self._caches.reject(name, f"the log contradicts it: {fault.detail}")


class _LogHash:
    """The running hash of the lines behind `after`, as far as `through`; `digests` are those of the newest lines."""

    def __init__(self, after: int) -> None:
        self.through = after
        self.digests = bytearray()
        self._hash = sha256()

    def reach(self, source: LogSource, through: int) -> str:
        """Return the hash up to a position at or behind the last one."""
        for line in source.lines(self.through, through):
            encoded = encode_line(line)
            self.add(line.position, encoded, line_digest(encoded))
        self.bound()
        return self._hash.hexdigest()

    def add(self, position: int, encoded: bytes, digest: bytes) -> None:
        """Hash the next line, as the log encodes it, which is also what an export holds."""
        self._hash.update(encoded)
        self.digests += digest
        self.through = position

    def bound(self) -> None:
        """Drop old digests: of a log without a limit only the newest lines have some."""
        del self.digests[: max(0, len(self.digests) - MAX_LINES * DIGEST_BYTES)]


def _ignore(_: RefusedFile) -> None:
    """Do nothing."""


def _replay(stores: Stores, source: LogSource, through: int, hashes: Sequence[_LogHash] = ()) -> Stores:
    """Apply the lines behind the stores up to a position, and return the same stores; add each to the `hashes`.

    Raises:
        BrokenLog: a line is missing, or does not continue what came before.
    """
    for line in source.lines(stores.position, through):
        reduce_event(stores, line)
        if hashes:
            encoded = encode_line(line)
            digest = line_digest(encoded)
            for one in hashes:
                one.add(line.position, encoded, digest)
    for one in hashes:
        one.bound()
    # The source ended early, which no line could show.
    if stores.position != through:
        raise BrokenLog(stores.position + 1, f"it is missing; the log was to reach {through}")
    return stores
