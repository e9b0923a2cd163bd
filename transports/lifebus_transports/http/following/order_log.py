"""The order of all signals, kept: it is durable before anybody is sent it, and the same after a restart."""

from collections.abc import Callable
from typing import Final

import anyio
import msgspec
import structlog
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_transports.http.following.order import LineName, SignalOrder, ThreadRange
from lifebus_transports.http.ports import OrderJournal

MAX_RECORDS: Final = 32_768
"""How many records are kept; then the older half goes."""

_BATCH: Final = 1_024
_PAUSE_S: Final = 1.0
_log = structlog.get_logger("lifebus.gateway")


class OrderRecord(Struct, frozen=True, array_like=True):
    """Ranges behind those of the record before, or up to where each thread is in the order."""

    epoch: str
    ranges: tuple[ThreadRange, ...] = ()
    known: tuple[tuple[str, str, int], ...] = ()


class OrderLog:
    """Keeps an order; `load` first, then `run` beside it.  `changed` is called with the lines that have more."""

    def __init__(
        self,
        order: SignalOrder,
        journal: OrderJournal,
        changed: Callable[[set[LineName]], None],
        max_records: int = MAX_RECORDS,
    ) -> None:
        self._order = order
        self._journal = journal
        self._changed = changed
        self._max = max_records
        self._kept = 0
        self._due = anyio.Event()

    async def load(self) -> None:
        """Take what is kept, unless the numbers of the signals have begun anew since.

        Raises:
            LifebusError: it cannot be read.
        """
        for number, body in await self._journal.load():
            record = msgspec.msgpack.decode(body, type=OrderRecord)
            if record.epoch != self._journal.epoch:
                await self._journal.drop(number)
                continue
            self._kept += 1
            self._order.add(record.ranges)
            for adapter, thread, last in record.known:
                self._order.mark(adapter, thread, last)

    def note(self, adapter: str, thread: str, last: int, *, floor: int = 0) -> None:
        """Note that a thread has signals up to a number, of which those up to `floor` are not kept."""
        self._order.note(adapter, thread, last, floor=floor)
        self._due.set()

    async def run(self) -> None:
        """Keep what is noted, until cancelled."""
        while True:
            self._due = anyio.Event()  # before the look: what is noted during it sets the new one
            while ranges := self._order.take(_BATCH):
                await self._append(OrderRecord(self._journal.epoch, ranges))
                self._changed(self._order.add(ranges))
                if self._kept > self._max:
                    await self._shorten()
            await self._due.wait()

    async def _append(self, record: OrderRecord) -> int:
        """Append a record, as often as it takes."""
        while True:
            try:
                number = await self._journal.append(msgspec.msgpack.encode(record))
            except LifebusError as fault:
                # Nobody is sent what is not kept: those who follow wait meanwhile.
                _log.warning("gateway_order_not_kept", code=fault.code)
                await anyio.sleep(_PAUSE_S)
            else:
                self._kept += 1
                return number

    async def _shorten(self) -> None:
        """Drop the older half, once it is kept up to where each thread is in the order."""
        known = [(adapter, thread, last) for (adapter, thread), last in self._order.kept.items()]
        number = 0
        for first in range(0, len(known), _BATCH):
            number = await self._append(OrderRecord(self._journal.epoch, (), tuple(known[first : first + _BATCH])))
        self._kept = self._max // 2
        try:
            await self._journal.drop(number - self._kept)
        except LifebusError as fault:
            _log.warning("gateway_order_not_kept", code=fault.code)
