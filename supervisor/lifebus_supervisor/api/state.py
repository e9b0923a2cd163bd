"""The verbs `state` and `resume`: working sets in pages, of where the ledger begins and of now."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import anyio
import anyio.to_thread
import msgspec
from msgspec import Struct

from lifebus_broker.ledger.log import LedgerLog
from lifebus_broker.ports import Ledger
from lifebus_broker.snapshots.frozen import FrozenMap, thaw
from lifebus_broker.state.stores import Stores, load_stores, store_digests
from lifebus_broker.state.working_set import compile_working_set, encode_working_set
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_transports.messages.state import STATE_PIECE, StatePage, StateQuery

# The bytes of UTF-8 that no letter begins with
_CONTINUED: Final = bytes(range(0x80, 0xC0))

# Compiled states that are kept, so that who reads the pages of one can go on when it moves on
_KEPT: Final = 2


class Compiled(Struct, frozen=True):
    """A working set in its canonical bytes, its position, and the digests of what it was compiled from."""

    position: int
    raw: bytes
    digests: dict[str, str]


class States:
    """Answers in pages.  `read` compiles the newest state; `newest` is its position where that is known beforehand."""

    def __init__(
        self,
        ledger: Ledger,
        read: Callable[[], Awaitable[Compiled]],
        newest: Callable[[], int | None] = lambda: None,
    ) -> None:
        self._ledger, self._read, self._newest = ledger, read, newest
        self._kept: OrderedDict[int, Compiled] = OrderedDict()
        self._one = anyio.Lock()

    async def answer(self, body: StateQuery) -> StatePage:
        """Return a piece of the newest state, or of one that was read from before.

        Raises:
            InvalidRequest: this ledger keeps no state.
            StateConflict: there is no such state any more (`state_gone`).
        """
        # One at a time: all pages of one state are asked for at once, and compiling it takes a while.
        async with self._one:
            compiled = await self._find(body.position)
        return StatePage(
            epoch=self._ledger.epoch,
            position=compiled.position,
            digests=compiled.digests,
            size=len(compiled.raw),
            offset=body.offset,
            data=_piece(compiled.raw, body.offset),
        )

    async def _find(self, position: int | None) -> Compiled:
        wanted = self._newest() if position is None else position
        if wanted is not None and wanted in self._kept:
            return self._kept[wanted]
        if not self._ledger.capabilities.durable:
            raise InvalidRequest("this ledger is not durable and keeps no state", code="no_state")
        compiled = await self._read()
        if position not in (None, compiled.position):
            raise StateConflict(f"the state at {position} is gone; ask without a position", code="state_gone")
        # Kept under its own position, which may lie beyond the one that was named as newest.
        self._kept[compiled.position] = compiled
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return compiled


def _piece(raw: bytes, offset: int) -> bytes:
    """Return what follows the offset, cut between two letters."""
    # Adaptors that are text send a piece as text, so no letter may be cut in two.
    end = offset + STATE_PIECE
    while raw[end : end + 1].strip(_CONTINUED) == b"" and end < len(raw):
        end -= 1
    return raw[offset:end]


def compile_state(stores: Stores, pins: FrozenMap) -> Compiled:
    """Return the working set of the stores; blocks."""
    plain = thaw(pins)
    digests: dict[str, str] = msgspec.to_builtins(store_digests(stores, plain))
    return Compiled(stores.position, encode_working_set(compile_working_set(stores, plain)), digests)


async def state_at_floor(open_log: Callable[[], LedgerLog], pins: Callable[[], FrozenMap]) -> Compiled:
    """Return the working set where the log of a ledger begins.

    Raises:
        LifebusError: the ledger cannot be read.
    """
    return await anyio.to_thread.run_sync(_compile_base, open_log, pins())


def _compile_base(open_log: Callable[[], LedgerLog], pins: FrozenMap) -> Compiled:
    with open_log() as log:
        dump = log.base()
    return compile_state(Stores() if dump is None else load_stores(dump), pins)
