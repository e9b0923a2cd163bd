"""The sessions under supervision, and how their folds keep up with the ledger.

A receipt that continues what a watch knows is applied at once; where something lies between, the watch reads the
session's rows from the ledger.  Either way the state is the fold over the rows and nothing else.

Above: supervisor.  Below: watch, the ledger.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

from lifebus_broker.fold.supervision import supervise
from lifebus_broker.ports import EMITTER, Ledger, Query, Row
from lifebus_contract import LifecycleEvent, Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_supervisor.supervision.watch import MATCH_S, Key, Watch, process_of

__all__ = ["APP_SERVER", "HOOKS", "MAX_WATCHES", "Watches"]

MAX_WATCHES: Final = 4_096
"""Most sessions under supervision; of more, those that are over or only a file, then the first ones are forgotten."""

HOOKS: Final = "lifebus.hook"
"""The client that speaks for hooks."""

APP_SERVER: Final = "lifebus.app_server"
"""The client that speaks for app-servers."""

_OWN: Final = frozenset({HOOKS, APP_SERVER, "lifebus.supervisor"})
"""The clients that speak for lifebus itself: what they record is no sign of life of an app."""


class Watches:
    """The watches, by adapter and session.  `learn` is given the receipts that are read as history."""

    def __init__(self, ledger: Ledger, learn: Callable[[Sequence[Receipt]], None], epoch: Callable[[], float]) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._learn = learn
        self._watches: dict[Key, Watch] = {}

    def __iter__(self) -> Iterator[Watch]:
        return iter(tuple(self._watches.values()))

    def __len__(self) -> int:
        return len(self._watches)

    def get(self, key: Key) -> Watch | None:
        """Return the watch of a session, if there is one."""
        return self._watches.get(key)

    def open(self, key: Key) -> Watch:
        """Return the watch of a session, made where there was none."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = Watch(key=key)
            if len(self._watches) > MAX_WATCHES:
                self.drop(next((one for one in self._watches.values() if not one.is_live), next(iter(self))))
        return watch

    def drop(self, watch: Watch) -> None:
        """Forget a session; the ledger remembers it."""
        self._watches.pop(watch.key, None)

    def note(self, rows: Sequence[Row], strangers: dict[Key, None]) -> None:
        """Note which sessions have new rows, those without a watch in `strangers`; called for every commit."""
        watches = self._watches
        for row in rows:
            if row.harness_session_id is None:
                continue
            key = (row.adapter_id, row.harness_session_id)
            watch = watches.get(key)
            if watch is not None:
                watch.newest = row.position
            elif len(strangers) < MAX_WATCHES:
                strangers[key] = None

    def apply(self, watch: Watch, rows: Iterable[Row], now: float) -> None:
        """Apply rows that continue what the watch knows; the others wait for `refresh`."""
        for row in rows:
            watch.newest = max(watch.newest, row.position)
            if (row.adapter_id, row.harness_session_id) != watch.key or row.position <= watch.position:
                continue
            if row.sequence is None or row.sequence == watch.state.sequence + 1:
                if not watch.loaded and row.sequence == 1:
                    watch.load(now)
                self._apply(watch, row, now)

    async def refresh(self, watch: Watch, now: float) -> None:
        """Read what the ledger knows of a session beyond what the watch knows."""
        while not watch.loaded or watch.position < watch.newest:
            page = await self._ledger.read(Query(after=watch.position, limit=512, session=watch.key))
            for row in page.rows:
                if row.position > watch.position:
                    self._apply(watch, row, now if watch.loaded else None)
            watch.position = max(watch.position, page.next)
            if page.complete or page.snapshot_required:
                if not watch.loaded:
                    watch.load(now)
                watch.newest = watch.position
        if watch.process is None:
            watch.process = process_of(watch.state.process)

    def _apply(self, watch: Watch, row: Row, now: float | None) -> None:
        """Fold one row; `now` is None where it is history."""
        receipt = decode_receipt(row.receipt)
        known = watch.state.compactions
        watch.apply(receipt, supervise(watch.state, receipt))
        watch.position = row.position
        if now is None:
            self._learn([receipt])
            watch.recent += watch.state.compactions > known and self._epoch() - receipt.at_epoch_s <= MATCH_S
        emitter = receipt.telemetry_summary.get(EMITTER, receipt.client_id)
        watch.hooked = watch.hooked or emitter == HOOKS
        if emitter == APP_SERVER:
            watch.note_wire(receipt)
        if emitter not in _OWN and receipt.event is not LifecycleEvent.SUPERVISOR_TICK:
            watch.app = watch.hook_at is None
            watch.heard_at = now if now is not None else watch.heard_at
