"""The sessions under supervision, and how their stories keep up with the ledger.

A receipt that continues what a watch knows is applied at once; where something lies between, the watch reads the
session's rows from the ledger, behind what somebody else has folded already.  Either way the state is the fold over the
rows and nothing else.
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
from lifebus_supervisor.supervision.session_monitor import Key, SessionMonitor, process_of

Known = Callable[[Key], Awaitable[tuple[int, SessionState | None]]]
"""Returns a session's story as of a position that is folded already, None where it had no receipt until then."""

MAX_WATCHES: Final = 4_096
"""Most sessions under supervision; of more, those that are over or only a file, then the first ones are forgotten."""


class MonitorTable:
    """The watches, by adapter and session.

    `learn` is given the receipts that are read as history.  `known`, where somebody sets it, says from which story and
    position on a session's rows have to be read.
    """

    def __init__(
        self, ledger: Ledger, learn: Callable[[Sequence[ReceiptLike]], None], epoch: Callable[[], float]
    ) -> None:
        self._ledger = ledger
        self._epoch = epoch
        self._learn = learn
        self._watches: dict[Key, SessionMonitor] = {}
        self.known: Known | None = None

    def __iter__(self) -> Iterator[SessionMonitor]:
        return iter(tuple(self._watches.values()))

    def __len__(self) -> int:
        return len(self._watches)

    def get(self, key: Key) -> SessionMonitor | None:
        """Return the watch of a session, if there is one."""
        return self._watches.get(key)

    def open(self, key: Key) -> SessionMonitor:
        """Return the watch of a session, made where there was none."""
        watch = self._watches.get(key)
        if watch is None:
            watch = self._watches[key] = SessionMonitor(
                state=SessionState(adapter_id=key[0], harness_session_id=key[1])
            )
            if len(self._watches) > MAX_WATCHES:
                self.drop(next((one for one in self._watches.values() if not one.is_live), next(iter(self))))
        return watch

    def drop(self, watch: SessionMonitor) -> None:
        """Forget a session; the ledger remembers it."""
        self._watches.pop(watch.key, None)

    def note(self, rows: Sequence[StoredReceipt], strangers: dict[Key, None]) -> None:
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

    def apply(self, watch: SessionMonitor, rows: Iterable[StoredReceipt], now: float) -> None:
        """Apply rows that continue what the watch knows; the others wait for `refresh`."""
        for row in rows:
            watch.newest = max(watch.newest, row.position)
            if (row.adapter_id, row.harness_session_id) != watch.key or row.position <= watch.position:
                continue
            if row.sequence is None or row.sequence == watch.state.sequence + 1:
                if not watch.loaded and row.sequence == 1:
                    watch.load(now, self._epoch())
                self._apply(watch, row, now)

    async def refresh(self, watch: SessionMonitor, now: float, patience: float | None = None) -> None:
        """Read what the ledger knows of a session beyond what the watch knows; of what was pruned, what is left.

        With `patience`, in seconds, a watch stays as it is where what was folded is longer in coming.
        """
        with anyio.move_on_after(patience) as waiting:
            await self._begin(watch)
        if waiting.cancelled_caught:
            return
        while not watch.loaded or watch.position < watch.newest:
            page = await self._ledger.read(Query(after=watch.position, limit=512, session=watch.key))
            for row in page.rows:
                if row.position > watch.position:
                    self._apply(watch, row, now if watch.loaded else None)
            watch.position = max(watch.position, page.next)
            if page.complete:
                if not watch.loaded:
                    watch.load(now, self._epoch())
                watch.newest = watch.position
        if watch.process is None:
            watch.process = process_of(watch.state.process)

    async def _begin(self, watch: SessionMonitor) -> None:
        """Begin with what was folded already; where nobody can say, the rows are read from the first one."""
        if self.known is None or watch.position:
            return
        with suppress(LifebusError):
            position, story = await self.known(watch.key)
            if not watch.position:
                watch.begin(position, story)

    def _apply(self, watch: SessionMonitor, row: StoredReceipt, now: float | None) -> None:
        """Fold one row; `now` is None where it is history."""
        told = read_receipt(row.receipt, row.position)
        watch.apply(row.position, told)
        if now is None:
            self._learn([told])
        if is_app(told):
            watch.app = not watch.hooked
            watch.heard_at = now if now is not None else watch.heard_at
