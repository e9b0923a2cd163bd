"""The saver: takes a snapshot whenever something ended, in the keeper's thread, and never keeps anybody waiting.

A frame's end asks for a scene; the end of a session, a rewritten context, critical pressure, a crash before this start
and receipts that were dropped ask for a session (docs/ledger.md, "Snapshots").  What is asked for while a save is
under way
or has just been is answered by one save later on, so that the last boundary is always saved and a burst costs little.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeVar

import anyio
import structlog

from lifebus_broker.atomic_files import remove_file, write_file
from lifebus_broker.ledger.log import LogSource
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.snapshots.files import SnapshotFiles
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_contract import LifebusError
from lifebus_supervisor.jobs.state_directory import save_now
from lifebus_transports.messages.snapshots import SaveAnswer

T = TypeVar("T")

_REST_S: Final = 1.0
_REST_FACTOR: Final = 20
"""A save that took a second is followed by a rest of twenty: saving takes a twentieth of one core at most."""

_LONGEST_REST_S: Final = 60.0

_PIECE_REST_S: Final = 0.05
"""Rest after each piece of the log's hash, of which a first save may have to read a million lines."""

_LINES_PER_S: Final = 50_000
"""How many lines are surely read in a second, and hashed."""

_CLIENT: Final = b'"client_id":"'
_EVENT: Final = b'"event":"'
_PRESSURE: Final = b"context.pressure_observed"
_CRITICAL: Final = b'"context_pressure":"critical"'
_TRIGGERS: Final = {
    b"frame.ended": SaveType.SCENE,
    b"session.ended": SaveType.SESSION,
    b"context.compacted": SaveType.SESSION,
}
_ORDER: Final = tuple(SaveType)

_log = structlog.get_logger("lifebus.saver")


class Use(Protocol):
    """Runs work on the keeper and its log in the keeper's thread, and returns what it returned (`Keeping.use`)."""

    async def __call__(self, work: Callable[[StateFollower, LogSource], T], /) -> T:
        """Return what the work returned."""
        ...


class Snapshotter:
    """Saves at boundaries.  `pins` returns those of this broker; `now` is the monotonic clock, in seconds.

    A save that fails is logged and counted, and the next boundary asks for another; nobody else notices.
    """

    def __init__(self, use: Use, files: SnapshotFiles, pins: Callable[[], FrozenMap], now: Callable[[], float]) -> None:
        self.made = 0
        self.failed = 0
        self._use, self._files, self._pins, self._now = use, files, pins, now
        self._wanted: SaveType | None = None
        self._boundary = 0
        self._asked = anyio.Event()
        self._took = 0.0

    def note(self, rows: Sequence[StoredReceipt]) -> None:
        """Look whether something ended; a listener of the fan-out, which looks at bytes and decodes nothing."""
        for row in rows:
            if self._wanted is SaveType.SESSION:
                break
            wanted = trigger_of(row.receipt)
            if wanted is not None:
                self.ask(wanted)
        if self._wanted is not None:
            self._boundary = rows[-1].position

    def ask(self, save_type: SaveType) -> None:
        """Have a save made soon; what was asked for already and is more stays."""
        if self._wanted is None or _ORDER.index(save_type) > _ORDER.index(self._wanted):
            self._wanted = save_type
        self._asked.set()

    async def run(self) -> None:
        """Save what is asked for, one at a time with rests between, until cancelled."""
        while True:
            await self._asked.wait()
            await self._save_wanted()
            await anyio.sleep(min(max(_REST_S, _REST_FACTOR * self._took), _LONGEST_REST_S))

    async def save(self, save_type: SaveType) -> SaveAnswer:
        """Save now, for somebody who waits: everything up to the log's end.

        Raises:
            LifebusError: the log cannot be read, or the snapshot cannot be written.
        """
        await self._use(lambda keeper, _: keeper.advance())
        return await self._save(save_type)

    async def finish(self, seconds: float) -> None:
        """Save a session at the end of the broker, if that can be done in so many seconds.

        Raises:
            LifebusError: as `save`.
        """
        lines = await self._use(_lines_to_read)
        if max(self._took, lines / _LINES_PER_S) < seconds:
            await self.save(SaveType.SESSION)

    def counters(self) -> dict[str, int]:
        """Return what `status` tells of saves."""
        return {"saves": self.made, "saves_failed": self.failed}

    async def _save_wanted(self) -> None:
        """Save what was asked for, once the keeper has come there."""
        wanted, self._wanted, self._asked = self._wanted, None, anyio.Event()
        if wanted is None:
            return
        try:
            await self._reach(self._boundary)
            if wanted is not SaveType.SCENE:
                await self._hash()
            answer = await self._save(wanted)
        except LifebusError as fault:
            self._count_failure(wanted, fault.detail)
        except Exception as fault:  # noqa: BLE001  a defect of saving costs saves, not everybody's bus
            self._count_failure(wanted, f"{type(fault).__name__}: {fault}")
        else:
            _log.info("saved", snapshot=answer.snapshot_id, type=wanted, position=answer.position, new=answer.new)

    async def _reach(self, position: int) -> None:
        """Wait until the keeper, which follows at its own pace, has read up to a position."""
        while await self._use(lambda keeper, _: keeper.position) < position:  # noqa: ASYNC110  the keeper is a thread
            await anyio.sleep(_REST_S)

    async def _hash(self) -> None:
        """Hash the log up to where the keeper is, piece by piece with rests between."""
        while await self._use(lambda keeper, log: keeper.hash_batch(log.floor)):  # noqa: ASYNC110  each time it works
            await anyio.sleep(_PIECE_REST_S)

    async def _save(self, save_type: SaveType) -> SaveAnswer:
        began, pins = self._now(), self._pins()
        try:
            answer = await self._use(lambda keeper, log: save_now(save_type, keeper, log, self._files, pins))
        except OSError as fault:
            raise LifebusError(f"the snapshot cannot be written: {fault.strerror}", code="unreadable") from fault
        self._took = self._now() - began
        self.made += answer.new
        return answer

    def _count_failure(self, wanted: SaveType, why: str) -> None:
        self.failed += 1
        _log.warning("save_failed", type=wanted, detail=why[:200])


class RunningMark:
    """A file that says that a broker runs here; one that is found at a start was left by a broker that crashed."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def set(self) -> bool:
        """Say that a broker runs; return whether the one before did not stop in order.

        Raises:
            OSError: the state directory takes no file.
        """
        was_there = self._path.exists()
        if not was_there:
            write_file(self._path, b"")
        return was_there

    def remove(self) -> None:
        """Say that it stopped in order.

        Raises:
            OSError: the system refused.
        """
        remove_file(self._path)


def trigger_of(receipt: bytes) -> SaveType | None:
    """Return which save the canonical bytes of a receipt ask for, None for none.

    The first event behind the first client is the receipt's own: quotes within texts are escaped, and what stands
    before it, degradations, names events and no client.
    """
    start = receipt.find(_EVENT, receipt.find(_CLIENT)) + len(_EVENT)
    event = receipt[start : receipt.find(b'"', start)]
    if event == _PRESSURE:
        return SaveType.SESSION if _CRITICAL in receipt else None
    return _TRIGGERS.get(event)


def _lines_to_read(keeper: StateFollower, log: LogSource) -> int:
    """Return how many lines a save would have to read at most."""
    return log.head - min(log.floor, keeper.position)
