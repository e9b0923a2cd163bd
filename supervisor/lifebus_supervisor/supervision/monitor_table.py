"""The sessions under supervision, and how each monitor keeps up with the ledger.

A receipt that continues what a monitor knows is applied at once.  Where something lies between, the monitor reads the
session's receipts from the ledger, after what the state follower has reduced already.  Either way its state is the
reduction of the receipts and nothing else.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import anyio

from lifebus_broker.ports import Ledger, Query, StoredReceipt
from lifebus_broker.state.receipt_view import ReceiptLike, read_receipt
from lifebus_broker.state.session_reducer import is_app
from lifebus_broker.state.session_state import SessionState
from lifebus_contract import LifebusError
from lifebus_supervisor.supervision.monitor import compactions, hooks, process, telemetry
from lifebus_supervisor.supervision.monitor.compactions import CompactionState
from lifebus_supervisor.supervision.monitor.process import ProcessState
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey, SessionMonitor
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState

KnownState = Callable[[SessionKey], Awaitable[tuple[int, SessionState | None]]]
"""Returns a session's state as of a position that is reduced already, None where it had no receipt until then."""

MAX_MONITORS: Final = 4_096
"""Most sessions under supervision; of more, those that are over or only history, then the first ones are forgotten.

The live ones among them are supervised again once there is room.
"""

_PAGE_ROWS: Final = 512


class MonitorTable:
    """The monitors, by adapter and session.

    `learn` is given the receipts that are read as history.  `known` says from which state and position on a session's
    receipts have to be read; without it they are read from the first one.
    """

    def __init__(
        self,
        ledger: Ledger,
        learn: Callable[[Sequence[ReceiptLike]], None],
        epoch: Callable[[], float],
        known: KnownState | None = None,
    ) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._learn = learn
        self._known = known
        self._monitors: dict[SessionKey, SessionMonitor] = {}
        # The live sessions that were forgotten because there were too many, and their processes, the oldest first.
        self._crowded_out: dict[SessionKey, ProcessState] = {}
        # What the files of forgotten sessions have shown, the oldest first.
        self._shown: dict[SessionKey, tuple[TelemetryState, CompactionState]] = {}

    def __iter__(self) -> Iterator[SessionMonitor]:
        return iter(tuple(self._monitors.values()))

    def __len__(self) -> int:
        return len(self._monitors)

    def get(self, key: SessionKey) -> SessionMonitor | None:
        """Return the monitor of a session, if there is one."""
        return self._monitors.get(key)

    def open(self, key: SessionKey) -> SessionMonitor:
        """Return the monitor of a session, made where there was none."""
        monitor = self._monitors.get(key)
        if monitor is None:
            numbers, proofs = self._shown.pop(key, (TelemetryState(), CompactionState()))
            monitor = self._monitors[key] = SessionMonitor(
                state=SessionState(adapter_id=key[0], harness_session_id=key[1]),
                telemetry=numbers,
                compactions=proofs,
                process=self._crowded_out.pop(key, ProcessState()),
            )
            if len(self._monitors) > MAX_MONITORS:
                self._make_room(monitor)
        return monitor

    def _make_room(self, newest: SessionMonitor) -> None:
        """Forget a session for the newest one, which shows no life before its first receipt."""
        over = (one for one in self._monitors.values() if one is not newest and not one.is_live)
        forgotten = next(over, next(iter(self)))
        if forgotten.is_live and len(self._crowded_out) < MAX_MONITORS:
            self._crowded_out[forgotten.key] = forgotten.process
        self.drop(forgotten)

    def reopen(self) -> None:
        """Supervise live sessions again that were forgotten for others, as far as there is room now."""
        while self._crowded_out and len(self._monitors) < MAX_MONITORS:
            self.open(next(iter(self._crowded_out)))

    def drop(self, monitor: SessionMonitor) -> None:
        """Forget a session; the ledger remembers it.

        What its files have shown is kept for when it is resumed, because they are read on then, and not again.
        """
        has_shown = monitor.telemetry.has_numbers or bool(monitor.compactions.in_files)
        if self._monitors.pop(monitor.key, None) is None or not has_shown:
            return
        self._shown[monitor.key] = telemetry.numbers_of(monitor.telemetry), compactions.read_so_far(monitor.compactions)
        if len(self._shown) > MAX_MONITORS:
            del self._shown[next(iter(self._shown))]

    def on_commit(self, stored: Sequence[StoredReceipt], unmonitored: dict[SessionKey, None]) -> None:
        """Take note of which sessions have new receipts, those without a monitor in `unmonitored`."""
        monitors = self._monitors  # every commit of the bus comes here
        for one in stored:
            if one.harness_session_id is None:
                continue
            key = (one.adapter_id, one.harness_session_id)
            monitor = monitors.get(key)
            if monitor is not None:
                monitor.newest = one.position
            elif len(unmonitored) < MAX_MONITORS:
                unmonitored[key] = None

    def apply(self, monitor: SessionMonitor, stored: Iterable[StoredReceipt], now: float) -> None:
        """Apply receipts that continue what the monitor knows; the others wait for `refresh`."""
        for one in stored:
            monitor.newest = max(monitor.newest, one.position)
            if (one.adapter_id, one.harness_session_id) != monitor.key or one.position <= monitor.position:
                continue
            # Receipts of other clients may stand between: only the session's own sequence shows that none is missing.
            if one.sequence is None or one.sequence == monitor.state.sequence + 1:
                if not monitor.loaded and one.sequence == 1:
                    monitor.load(now, self._epoch())
                self._apply(monitor, one, now)

    async def refresh(self, monitor: SessionMonitor, now: float, patience: float | None = None) -> None:
        """Read what the ledger knows of a session beyond what the monitor knows; of what was pruned, what is left.

        With `patience`, in seconds, a monitor stays as it is where the reduced state is longer in coming.
        """
        if not monitor.position and self._ledger.is_new(monitor.key):  # nothing is to be read, and a hook waits
            monitor.begin(self._ledger.head, None)
            monitor.load(now, self._epoch())
            return
        with anyio.move_on_after(patience) as waiting:
            await self._begin(monitor)
        if waiting.cancelled_caught:
            return
        while not monitor.loaded or monitor.position < monitor.newest:
            # A session whose past is damaged is supervised by what is left of it.
            query = Query(after=monitor.position, limit=_PAGE_ROWS, session=monitor.key, past_damage=True)
            page = await self._ledger.read(query)
            for one in page.stored:
                if one.position > monitor.position:  # others may have applied receipts while the page was read
                    self._apply(monitor, one, now if monitor.loaded else None)
            # The page's own end, not the last receipt's: what was pruned or is another session's is passed over.
            monitor.position = max(monitor.position, page.next)
            if page.complete:
                if not monitor.loaded:
                    monitor.load(now, self._epoch())
                monitor.newest = monitor.position
        monitor.process = process.on_recorded(monitor.process, monitor.state.process)

    async def _begin(self, monitor: SessionMonitor) -> None:
        """Begin with what was reduced already; where that is not known, the receipts are read from the first one."""
        if self._known is None or monitor.position:
            return
        # A follower that has stopped is no reason to stop: the receipts themselves are in the ledger.
        with suppress(LifebusError):
            position, state = await self._known(monitor.key)
            # Another caller may have begun, and applied receipts, while this one waited.
            if not monitor.position:
                monitor.begin(position, state)

    def _apply(self, monitor: SessionMonitor, stored: StoredReceipt, now: float | None) -> None:
        """Reduce one receipt; `now` is None where it is history."""
        receipt = read_receipt(stored.receipt, stored.position)
        monitor.apply(stored.position, receipt)
        if now is None:
            self._learn([receipt])
        if is_app(receipt):
            monitor.hooks = hooks.on_app(monitor.hooks, hooked=monitor.is_hooked, now=now)
