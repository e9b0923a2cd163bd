"""Run the state follower beside a broker: it follows the commits in a thread, and lends its state to who needs it.

A start reads the newest state cache and what was committed since.  If that is little, the broker waits for it before
it serves; otherwise it serves first.  Afterwards the supervisor and the capability table stand on the same stores.
"""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import structlog

from lifebus_broker.ledger.log import LedgerLog
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.snapshots.compactions.files import CompactionFiles
from lifebus_broker.snapshots.compactions.state_cache import StateCache, boundary
from lifebus_broker.snapshots.refused_file import RefusedFile
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.capability_state import CapabilityState
from lifebus_broker.state.receipt_view import BrokenLog
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.session_table import SessionKey
from lifebus_broker.state.stores import dump_stores
from lifebus_contract import InternalError, LifebusError
from lifebus_supervisor.configuration.settings import Settings

T = TypeVar("T")

_REST_S: Final = 0.1
"""Shortest pause after the newest receipt was followed, so that what comes singly is taken together."""

_REST_FACTOR: Final = 1.5
"""How many times as long as a piece used the processor the pause after it is: less than half of a core is used."""

_REST_IN_TRAFFIC: Final = 3
"""The same while receipts come in numbers: they go before what is derived of them."""

_TRAFFIC: Final = 300
"""So many receipts a second are traffic: what follows them waits for a pause."""

_LOOK_S: Final = 0.05
"""Shortest time from which it is judged: a few receipts at one moment are no traffic."""

_MOST_BEHIND: Final = 32_768
"""How many receipts may wait for a pause: while more do, and traffic goes on, they are followed without any rest."""

_FAR_BEHIND: Final = 49_152
"""From how many receipts on the broker records no more until some have been followed."""

_AGAIN_S: Final = 5.0
"""How long the follower waits before it tries again where the log could not be read."""

_NEAR: Final = 8_192
"""Most lines that are read while a start waits for them; more are read once the broker serves."""

_FINISH_S: Final = 1.0
"""How long a stop may wait for the newest cache."""

_log = structlog.get_logger("lifebus.state_follower")


def compose_follower(settings: Settings, bus: EventBus) -> "StateFollowerTask | None":
    """Return the follower of a bus's ledger, on which its capabilities stand from now on.

    A ledger without snapshots has no history when it begins, and so needs no follower: None.
    """
    ledger = bus.ledger
    if not ledger.capabilities.snapshots:
        return None
    follower = StateFollowerTask(ledger.open_log, settings.state_dir, ledger.head, bus.capabilities.take_over)
    bus.capabilities.await_history()
    return follower


class StateFollowerTask:
    """Keeps the stores of a ledger in step with its log.

    `head` is the newest position at the start.  Once the follower is there, and the ledger's own tables say the same,
    `take_over` gets the capability states and `caught_up` is set.  If that is far, it waits for `is_serving` first.
    `refused` counts caches that were rejected; `broken` says why there is no state, where the log is damaged.
    """

    def __init__(
        self,
        open_log: Callable[[], LedgerLog],
        state_dir: Path,
        head: int,
        take_over: Callable[[CapabilityState], None],
    ) -> None:
        self.caught_up = anyio.Event()
        self.is_serving = anyio.Event()
        self._measured = anyio.Event()
        self.refused = 0
        self.broken: str | None = None
        self._open_log = open_log
        self._files = CompactionFiles(state_dir, StateCache.policy_id)
        self._first = self._head = head
        self._position, self._used_s = 0, 0.0
        self._is_busy, self._seen = False, (head, 0.0)
        self._fails = False
        self._take_over = take_over
        self._committed = anyio.Event()
        self._one, self._one_dump = anyio.CapacityLimiter(1), anyio.CapacityLimiter(1)
        self._open: tuple[StateFollower, LedgerLog] | None = None
        self._closed = False
        self._refusals: list[RefusedFile] = []

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Learn that receipts were committed; a listener of the fan-out."""
        self._head = stored[-1].position
        self._committed.set()

    def is_far_behind(self) -> bool:
        """Whether so many receipts wait to be followed that no further ones are to be recorded just now.

        A follower that is still on its way to the start of the broker, or cannot read the log, holds up nobody.
        """
        if self._head - self._position <= _FAR_BEHIND:
            return False
        return self.caught_up.is_set() and self.broken is None and not self._fails

    def counters(self) -> dict[str, int]:
        """Return what `status` shows of the follower."""
        return {
            "caches_refused": self.refused,
            "keeper_behind": max(0, self._head - self._position),
            "keeper_broken": int(self.broken is not None),
        }

    async def run(self) -> None:
        """Follow the commits until cancelled, or until the log turns out to be damaged; then close it."""
        try:
            await self._follow_all()
        finally:
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(self._close, limiter=self._one)

    async def wait_if_near(self) -> bool:
        """Wait until the start is reached, and return whether that is soon; return at once where it is far."""
        await self._measured.wait()
        if self._is_far:
            return False
        await self.caught_up.wait()
        return True

    async def use(self, work: Callable[[StateFollower, LedgerLog], T]) -> T:
        """Return what `work` returns of the follower and the log, in the follower's thread; one at a time.

        Raises:
            LifebusError: the file cannot be read, or its log is broken.
        """
        try:
            return await anyio.to_thread.run_sync(self._in_thread, work, limiter=self._one)
        finally:
            for cache in self._refusals:
                _log.error("cache_refused", cache=cache.name, why=cache.why[:200])
            self.refused += len(self._refusals)
            self._refusals.clear()

    async def known(self, key: SessionKey) -> tuple[int, SessionState | None]:
        """Return how far the follower is, and the state of a session there (`monitor_table.KnownState`)."""
        if self.broken is not None:
            return 0, None
        return await self.use(lambda follower, _: (follower.position, follower.state.sessions.get(key)))

    async def dump_at(self, position: int) -> bytes:
        """Return the dump of the stores after a receipt, which stands for all up to it once they are pruned.

        That may be a long way to read: it runs beside the follower, for which hooks wait.

        Raises:
            LifebusError: there is no such receipt (any more), or the log is broken.
        """
        # its own limiter: a prune of a long history must not hold up the follower
        return await anyio.to_thread.run_sync(self._dump_at, position, limiter=self._one_dump)

    async def finish(self) -> None:
        """Write the newest cache that can be written in a moment, so that the next start need not read so much."""
        if not self.caught_up.is_set():
            return
        try:
            with anyio.move_on_after(_FINISH_S):
                while self.broken is None and self._position < boundary(self._head):
                    await self._follow()
        except (LifebusError, OSError) as fault:
            _log.warning("state_follower_stops", fault=type(fault).__name__, detail=str(fault)[:200])

    async def _follow_all(self) -> None:
        while self.broken is None:
            # made anew before reading: a commit during the reading must not be missed
            self._committed = anyio.Event()
            try:
                if not self._measured.is_set():
                    await self._measure()
                more = await self._follow()
                self._fails = False
            except (LifebusError, OSError) as fault:
                if isinstance(fault, BrokenLog) or (isinstance(fault, LifebusError) and fault.code == "ledger_damaged"):
                    self._give_up(fault)
                    return
                self._fails = True
                _log.warning("state_follower_waits", fault=type(fault).__name__, detail=str(fault)[:200])
                await anyio.sleep(_AGAIN_S)
                continue
            if self.caught_up.is_set():
                await self._rest(0 if more else _REST_S)
            if not more:
                await self._committed.wait()

    async def _rest(self, least_s: float) -> None:
        """Pause after a piece, and until traffic pauses, unless that leaves the state far behind."""
        if self.is_far_behind():  # receipts wait for it
            return
        self._look()
        pause = max(least_s, self._used_s * (_REST_IN_TRAFFIC if self._is_busy else _REST_FACTOR))
        while not (self._is_busy and self._head - self._position > _MOST_BEHIND):
            await anyio.sleep(pause)
            self._look()
            if not self._is_busy:
                return
            pause = _REST_S

    def _look(self) -> None:
        """Learn whether receipts come in numbers, from how many have come since the last look."""
        head, at = self._seen
        now = anyio.current_time()
        if now - at >= _LOOK_S:
            self._is_busy, self._seen = self._head - head > _TRAFFIC * (now - at), (self._head, now)

    async def _measure(self) -> None:
        """Find out where to begin; a broker that is far from there serves first."""
        self._position = await self.use(lambda follower, _: follower.position)
        self._measured.set()
        if self._is_far:
            await self.is_serving.wait()

    @property
    def _is_far(self) -> bool:
        return self._first - self._position > _NEAR

    async def _follow(self) -> bool:
        """Take one piece, and hand over once the start is reached; return whether there is more."""
        more, self._position, self._used_s = await self.use(_step)
        if not self.caught_up.is_set() and self._position >= self._first:
            # the tables are of a later moment than the stores: they agree once both are at the head
            if not await self.use(lambda follower, log: follower.compare(log.newest())):
                return True
            self._take_over(await self.use(lambda follower, _: follower.state.capabilities.copy()))
            self.caught_up.set()
            _log.debug("caught_up", position=self._position, caches_refused=self.refused)
        return more

    def _in_thread(self, work: Callable[[StateFollower, LedgerLog], T]) -> T:
        if self._closed:  # asked for after the end: opening the log again would leave it open
            raise InternalError(self.broken or "the state follower has stopped", code="closed")
        if self._open is None:
            # opened in the worker thread: opening blocks the event loop otherwise
            log = self._open_log()
            self._files.remove_unfinished()
            follower = StateFollower(log, self._files, self._refusals.append, new_items=log.new_sealed_items)
            self._open = (follower, log)
        return work(*self._open)

    def _dump_at(self, position: int) -> bytes:
        with self._open_log() as log:
            follower = StateFollower(log, self._files, writing=False, new_items=log.new_sealed_items)
            return dump_stores(follower.stores_at(position))

    def _close(self) -> None:
        self._closed = True
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _give_up(self, fault: LifebusError) -> None:
        """Go on without a state: whoever waits for it works with what the ledger's tables say."""
        self.broken = fault.detail
        self._measured.set()
        self.caught_up.set()
        _log.critical("log_broken", detail=fault.detail[:200], next="lifebus ledger verify names every fault")


def _step(follower: StateFollower, _: LedgerLog) -> tuple[bool, int, float]:
    """Take one piece; return whether there is more, where that led to, and the seconds of the processor it took."""
    # Not the time that passed: beside other programs that would be longer, and so would be the way to the end.
    began = time.thread_time()
    more = follower.step()
    return more, follower.position, time.thread_time() - began
