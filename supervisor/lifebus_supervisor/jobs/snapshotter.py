"""Take a snapshot whenever something ended, in the state follower's thread, so that nobody waits for it.

The end of a frame asks for a scene.  The end of a session, a compacted context, critical pressure, a crash before this
start and dropped receipts ask for a session (docs/ledger.md, "Snapshots").  What is asked for while a snapshot is under
way, or soon after one, is answered by one snapshot later on: so the last boundary is always covered, and a burst costs
little.
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
from lifebus_supervisor.jobs.state_directory import take_snapshot
from lifebus_transports.messages.snapshots import SaveAnswer

T = TypeVar("T")

_REST_S: Final = 1.0
_REST_FACTOR: Final = 20
"""A snapshot that took a second is followed by a rest of twenty: at most a twentieth of one core is spent on them."""

_LONGEST_REST_S: Final = 60.0

_PIECE_REST_S: Final = 0.05
"""Rest after each piece of the log's hash, of which a first snapshot may have to read a million lines."""

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

_log = structlog.get_logger("lifebus.snapshotter")


class Use(Protocol):
    """Runs work on the follower and its log in the follower's thread (`StateFollowerTask.use`)."""

    async def __call__(self, work: Callable[[StateFollower, LogSource], T], /) -> T:
        """Return what the work returned."""
        ...


class Snapshotter:
    """Takes snapshots at boundaries.  `pins` returns those of this broker; `now` is the monotonic clock, in seconds.

    A snapshot that fails is logged and counted, and the next boundary asks for another.
    """

    def __init__(self, use: Use, files: SnapshotFiles, pins: Callable[[], FrozenMap], now: Callable[[], float]) -> None:
        self.made = 0
        self.failed = 0
        self._use, self._files, self._pins, self._now = use, files, pins, now
        self._wanted: SaveType | None = None
        self._boundary = 0
        self._asked = anyio.Event()
        self._took = 0.0

    def on_commit(self, stored: Sequence[StoredReceipt]) -> None:
        """Ask for a snapshot if something ended; a listener of the fan-out, which decodes nothing."""
        for one in stored:
            # nothing that a commit asks for covers more, so its receipts need not be searched
            if self._wanted is SaveType.SESSION:
                break
            wanted = trigger_of(one.receipt)
            if wanted is not None:
                self.ask(wanted)
        # the end of the commit, not the receipt: the receipts of one commit are one moment
        if self._wanted is not None:
            self._boundary = stored[-1].position

    def ask(self, save_type: SaveType) -> None:
        """Have a snapshot taken soon; one that was asked for already and covers more stays."""
        if self._wanted is None or _ORDER.index(save_type) > _ORDER.index(self._wanted):
            self._wanted = save_type
        self._asked.set()

    async def run(self) -> None:
        """Take what is asked for, one at a time with rests between, until cancelled."""
        while True:
            await self._asked.wait()
            await self._take_wanted()
            await anyio.sleep(min(max(_REST_S, _REST_FACTOR * self._took), _LONGEST_REST_S))

    async def save(self, save_type: SaveType) -> SaveAnswer:
        """Take a snapshot now, up to the end of the log.

        Raises:
            LifebusError: the log cannot be read, or the snapshot cannot be written.
        """
        await self._use(lambda follower, _: follower.advance())
        return await self._save(save_type)

    async def finish(self, seconds: float) -> None:
        """Take the last snapshot of a broker, if that can be done in so many seconds.

        Raises:
            LifebusError: as `save`.
        """
        lines = await self._use(_lines_to_read)
        # a stop must not hang on a snapshot: the next start can make it
        if max(self._took, lines / _LINES_PER_S) < seconds:
            await self.save(SaveType.SESSION)

    def counters(self) -> dict[str, int]:
        """Return what `status` shows of snapshots."""
        return {"saves": self.made, "saves_failed": self.failed}

    async def _take_wanted(self) -> None:
        """Take what was asked for, once the follower has read up to there."""
        # cleared before the work: what is asked for meanwhile is another snapshot
        wanted, self._wanted, self._asked = self._wanted, None, anyio.Event()
        if wanted is None:
            return
        try:
            await self._reach(self._boundary)
            if wanted is not SaveType.SCENE:
                # beforehand and with rests: the save itself then holds the follower's thread only briefly
                await self._hash()
            answer = await self._save(wanted)
        except LifebusError as fault:
            self._count_failure(wanted, fault.detail)
        except Exception as fault:  # noqa: BLE001  a defect here costs snapshots, not the bus
            self._count_failure(wanted, f"{type(fault).__name__}: {fault}")
        else:
            _log.info(
                "snapshot_taken", snapshot=answer.snapshot_id, type=wanted, position=answer.position, new=answer.new
            )

    async def _reach(self, position: int) -> None:
        """Wait until the follower, which goes at its own pace, has read up to a position."""
        while await self._use(lambda follower, _: follower.position) < position:  # noqa: ASYNC110  the follower is a thread
            await anyio.sleep(_REST_S)

    async def _hash(self) -> None:
        """Hash the log up to where the follower is, piece by piece with rests between."""
        while await self._use(lambda follower, log: follower.hash_batch(log.floor)):  # noqa: ASYNC110  each call hashes one piece
            await anyio.sleep(_PIECE_REST_S)

    async def _save(self, save_type: SaveType) -> SaveAnswer:
        began, pins = self._now(), self._pins()
        try:
            answer = await self._use(lambda follower, log: take_snapshot(save_type, follower, log, self._files, pins))
        except OSError as fault:
            raise LifebusError(f"the snapshot cannot be written: {fault.strerror}", code="unreadable") from fault
        self._took = self._now() - began
        self.made += answer.new
        return answer

    def _count_failure(self, wanted: SaveType, why: str) -> None:
        self.failed += 1
        _log.warning("snapshot_failed", type=wanted, detail=why[:200])


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


def _lines_to_read(follower: StateFollower, log: LogSource) -> int:
    """Return how many lines a save would have to read at most."""
    return log.head - min(log.floor, follower.position)
