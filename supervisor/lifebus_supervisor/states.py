"""The verb `state`: what stands for receipts that were dropped, in pages.

Above: daemon.  Below: the fold, the log, lifebus_transports.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from lifebus_broker.fold.stores import Stores, load_stores, store_digests
from lifebus_broker.fold.working import compile_working_set, encode_working_set
from lifebus_broker.ledger.sqlite_log import SqliteLog
from lifebus_broker.ports import Ledger
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_transports.state_messages import STATE_PIECE, StateAsk, StatePage

__all__ = ["States"]

_KEPT: Final = 2
"""Compiled states that are kept, so that who reads the pages of one can go on when the floor moves."""


class _Compiled(Struct, frozen=True):
    """A working set in its canonical bytes, with the digests of what it was compiled from."""

    raw: bytes
    digests: dict[str, str]


class States:
    """Answers `state` from the ledger file at `path`; `pins` returns those of this broker."""

    def __init__(self, ledger: Ledger, path: Path, pins: Callable[[], Mapping[str, Any]]) -> None:
        self._ledger, self._path, self._pins = ledger, path, pins
        self._kept: OrderedDict[int, _Compiled] = OrderedDict()
        self._one = anyio.Lock()

    async def answer(self, body: StateAsk) -> StatePage:
        """Return a piece of the state at the floor, or of one that was read from before.

        Raises:
            InvalidRequest: this ledger keeps no state.
            StateConflict: there is no such state any more (`state_gone`).
        """
        async with self._one:
            position, compiled = await self._find(body.position)
        return StatePage(
            epoch=self._ledger.epoch,
            position=position,
            snapshot_id=None,
            digests=compiled.digests,
            size=len(compiled.raw),
            offset=body.offset,
            data=compiled.raw[body.offset : body.offset + STATE_PIECE],
        )

    async def _find(self, position: int | None) -> tuple[int, _Compiled]:
        wanted = self._ledger.status().floor if position is None else position
        if wanted in self._kept:
            return wanted, self._kept[wanted]
        if not self._ledger.durable:
            raise InvalidRequest("this ledger is not durable and keeps no state", code="no_state")
        floor, compiled = await anyio.to_thread.run_sync(_compile, self._path, self._pins())
        if position not in (None, floor):
            raise StateConflict(f"the state at {position} is gone; ask without a position", code="state_gone")
        self._kept[floor] = compiled
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return floor, compiled


def _compile(path: Path, pins: Mapping[str, Any]) -> tuple[int, _Compiled]:
    """Return the working set where the log begins, and that position; blocks."""
    with SqliteLog(path) as log:
        dump = log.base()
    stores = Stores() if dump is None else load_stores(dump)
    raw = encode_working_set(compile_working_set(stores, pins))
    digests: dict[str, str] = msgspec.to_builtins(store_digests(stores, pins))
    return stores.position, _Compiled(raw, digests)
