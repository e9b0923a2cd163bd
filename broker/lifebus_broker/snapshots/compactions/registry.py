"""The registry: which compactions are there, which of them the facts have outgrown, and whether they are sound.

It reads the log and writes the files of compactions, and nothing else: nothing here could record a fact
(docs/ledger.md C1).
"""

from collections.abc import Container, Iterator
from pathlib import Path
from typing import Final

from msgspec import Struct

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.snapshots.compactions.compaction import Compaction, Purpose, compaction_id_of, view
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.handles import is_current, position_of, stream_of
from lifebus_broker.snapshots.compactions.policy import Policy, build
from lifebus_broker.snapshots.compactions.recap import SessionRecap
from lifebus_broker.snapshots.compactions.state_cache import StateCache
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.session_table import SessionKey
from lifebus_broker.state.stores import Stores

SAVED_RECAPS: Final = 256
"""Of how many sessions recaps are kept, those that changed last, unless all are asked for."""

_RECAP: Final = SessionRecap()
_CACHE: Final = StateCache()


class RebuildCounts(Struct, frozen=True):
    """What a rebuild did: how many compactions it built, found as they should be, and deleted."""

    built: int
    kept: int
    deleted: int


class VerifyReport(Struct, frozen=True):
    """What a check found: the names of the compactions that are right and of the stale ones, and what is wrong."""

    right: list[str]
    stale: list[str]
    wrong: list[RefusedFile]


class CompactionRegistry:
    """The compactions in a state directory, made from one log.  Every method blocks, and may raise OSError."""

    def __init__(self, state_dir: Path, source: LogSource) -> None:
        self._source = source
        self._recaps = CompactionFiles(state_dir, SessionRecap.policy_id)
        self._caches = CompactionFiles(state_dir, StateCache.policy_id)
        self._follower = StateFollower(source, self._caches, writing=False)

    def found(self) -> Iterator[Compaction | RefusedFile]:
        """Yield the compactions that are there, and of files that are none why."""
        for files in (self._recaps, self._caches):
            for name in files.ids():
                compaction = files.read(name)
                if compaction is not None:
                    yield compaction
            yield from files.strangers()

    def get(self, compaction_id: str) -> Compaction | RefusedFile | None:
        """Return one compaction, or why its file is none; None where there is no such file."""
        return self._recaps.read(compaction_id) or self._caches.read(compaction_id)

    def invalidate(self) -> tuple[str, ...]:
        """Return the names of the compactions that are stale: something that they were made of is not so any more.

        A recap is stale once its session got another receipt, a state cache once the log does not reach back to it.
        """
        stores = self._follower.advance()
        return tuple(one.compaction_id for one in self._sound() if self._is_stale(one, stores))

    def view(self) -> tuple[Compaction, ...]:
        """Return what clients may be given of the compactions that are there and not stale (docs/ledger.md C4)."""
        stores = self._follower.advance()
        return view(one for one in self._sound() if not self._is_stale(one, stores))

    def current(self, session: SessionKey) -> Compaction | None:
        """Return the recap of a session as it is now, built anew if none is kept; None where there is no such session.

        So nothing stale is ever presented (docs/ledger.md I4).
        """
        stores = self._follower.advance()
        for handles in _RECAP.inputs(stores):
            if any(stream_of(handle) == session for handle in handles):
                # Inputs name the present link of the stream, so a stale recap is not even found.
                kept = self._recaps.read(compaction_id_of(_RECAP.purpose, _RECAP.policy_id, handles))
                return kept if isinstance(kept, Compaction) else build(_RECAP, stores, handles)
        return None

    def rebuild(self, recaps: int | None = SAVED_RECAPS) -> RebuildCounts:
        """Build what is missing, stale or wrong, and delete what is needed no more.

        Then there are the recaps of so many sessions, those that changed last (of None, of all), and the newest caches.
        """
        self._recaps.remove_unfinished()
        self._caches.remove_unfinished()
        stores, policy = self._follower.advance(), SessionRecap(recaps)
        # Names first: most recaps are there already and need not be built.
        wanted = {compaction_id_of(policy.purpose, policy.policy_id, made): made for made in policy.inputs(stores)}
        sound = {one.compaction_id for one in self._sound() if one.purpose is Purpose.RECAP}
        deleted = self._recaps.remove(set(self._recaps.ids()) - wanted.keys())
        for name in wanted.keys() - sound:
            self._recaps.write(build(policy, stores, wanted[name]))
        made, there, gone = self._follower.renew_caches()
        kept = len(wanted.keys() & sound)
        return RebuildCounts(len(wanted) - kept + made, kept + there, deleted + gone)

    def verify(self) -> VerifyReport:
        """Build every compaction that is there again, from the log alone, and compare the bytes."""
        # Without caches: what is verified must not be an input.
        follower = StateFollower(self._source)
        verified = VerifyReport([], [], [one for one in self.found() if isinstance(one, RefusedFile)])
        sound = list(self._sound())
        # In the order of the log, so that one replay serves all of them.
        for cache in sorted((one for one in sound if one.purpose is Purpose.CONTEXT_CACHE), key=_place_of):
            stores = follower.advance(_place_of(cache))
            self._check(cache, _CACHE, stores, set(_CACHE.inputs(stores)), verified)
        stores = follower.advance()
        made = set(_RECAP.inputs(stores))
        for recap in (one for one in sound if one.purpose is Purpose.RECAP):
            self._check(recap, _RECAP, stores, made, verified)
        return verified

    def delete(self, names: Container[str] | None = None) -> int:
        """Delete compactions, sound or not, all or those of these names; return how many were there."""
        return sum(
            files.remove(name for name in files.ids() if names is None or name in names)
            for files in (self._recaps, self._caches)
        )

    def _sound(self) -> Iterator[Compaction]:
        return (one for one in self.found() if isinstance(one, Compaction))

    def _is_stale(self, compaction: Compaction, stores: Stores) -> bool:
        # A cache names its own position, which stays right until it is pruned.
        if compaction.purpose is Purpose.CONTEXT_CACHE:
            return _place_of(compaction) <= self._source.floor
        pointers = [handle for handle in compaction.input_handles if stream_of(handle) is not None]
        return not all(is_current(handle, stores.facts) for handle in pointers)

    def _check(
        self, compaction: Compaction, policy: Policy, stores: Stores, made: set[tuple[str, ...]], verified: VerifyReport
    ) -> None:
        """Say of one compaction what it is; `made` is what the policy makes of these stores."""
        name = compaction.compaction_id
        if self._is_stale(compaction, stores):
            verified.stale.append(name)
        # Sound in itself, but of another log.
        elif compaction.input_handles not in made:
            verified.wrong.append(RefusedFile(name, "it was not made of this log"))
        elif build(policy, stores, compaction.input_handles) != compaction:
            verified.wrong.append(RefusedFile(name, "built again from the log, it has other bytes"))
        else:
            verified.right.append(name)


def _place_of(cache: Compaction) -> int:
    """Return the position that a state cache is of, 0 where its handles name none."""
    return max((place for place in map(position_of, cache.input_handles) if place is not None), default=0)
