"""What a broker is asked for, so that `lifebus top` has something to show."""

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Final

import anyio

from lifebus._internal.view import Gap, Position
from lifebus.cli.read.receipt_pages import newest
from lifebus.top.facts import KEPT, Pair, TopFacts
from lifebus_contract import LifebusError, Receipt
from lifebus_contract.codec import decode_receipt
from lifebus_transports.messages.reads import Backfill

if TYPE_CHECKING:
    from lifebus.client import Bus

_BEGIN_WITH: Final = 100
"""How many of the newest receipts are shown at first."""
_POLL_S: Final = 2.0
"""Between two questions for status, consumers and inbox."""
_REFRESH_S: Final = 1.0
"""Between two questions for the sessions of which something came."""
_ALL_S: Final = 60.0
"""After so long all sessions are asked for, also where nothing came: some may be forgotten."""
_FEW: Final = 16
"""Most sessions that are asked for one by one; more are asked for with all others."""


class TopFeed:
    """Asks a broker and follows it; `changed` is called whenever there is something new to show."""

    def __init__(self, bus: "Bus", facts: TopFacts, changed: Callable[[], None]) -> None:
        self._bus, self._facts, self._changed = bus, facts, changed
        self._place: Position | None = None
        self._stale: set[Pair] = set()
        self._all_stale = False
        self._became_stale = anyio.Event()

    async def fill(self) -> None:
        """Ask for everything once.

        Raises:
            LifebusError: the broker does not answer.
        """
        self._facts.note_sessions(await self._bus.sessions(), all_of_them=True)
        await self._ask_rest()
        (epoch, head), found = await newest(self._bus, Backfill(canaries=False), _BEGIN_WITH, lambda _: True)
        self._place = Position(epoch, head)
        for one in found:
            self._facts.receipts.append(decode_receipt(one.receipt))

    async def run(self) -> None:
        """Follow until cancelled, across restarts of the broker."""
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._poll)
            tasks.start_soon(self._refresh_sessions)
            while True:
                await self._ask(self._follow)
                await anyio.sleep(_REFRESH_S)

    async def _follow(self) -> None:
        receipts = self._bus.receipts(since=self._place, canaries=False, gaps="yield")
        async for item in receipts:
            self._place = receipts.cursor or self._place
            self._note(item)

    def broker_changed(self, away: bool) -> None:
        """Note that no broker runs any more, or that one runs again."""
        self._facts.away_since_ms = now_ms() if away else None
        self._all_stale = not away
        self._became_stale.set()
        self._changed()

    async def show_session(self, pair: Pair) -> None:
        """Read the newest receipts of a session, to be looked at."""
        self._facts.note_history(pair, ())

        async def read() -> None:
            query = Backfill(session=pair, canaries=False)
            _, found = await newest(self._bus, query, KEPT // 5, lambda _: True)
            self._facts.note_history(pair, [decode_receipt(one.receipt) for one in found])

        await self._ask(read)

    async def _poll(self) -> None:
        while True:
            await self._ask(self._ask_rest)
            await anyio.sleep(_POLL_S)

    async def _ask_rest(self) -> None:
        self._facts.status = await self._bus.status()
        self._facts.consumers = tuple(await self._bus.cursors.standing())
        self._facts.questions = tuple(await self._bus.inbox.questions())

    async def _refresh_sessions(self) -> None:
        while True:
            with anyio.move_on_after(_ALL_S) as patience:
                await self._became_stale.wait()
            self._became_stale = anyio.Event()
            self._all_stale = self._all_stale or patience.cancelled_caught
            await self._ask(self._ask_sessions)
            await anyio.sleep(_REFRESH_S)

    async def _ask_sessions(self) -> None:
        stale, self._stale = self._stale, set()
        every, self._all_stale = self._all_stale or len(stale) > _FEW, False
        try:
            if every:
                self._facts.note_sessions(await self._bus.sessions(), all_of_them=True)
            for pair in () if every else stale:
                self._facts.note_sessions(await self._bus.sessions(pair), all_of_them=False)
        except LifebusError:
            self._all_stale = True
            self._became_stale.set()
            raise

    def _note(self, item: Receipt | Gap) -> None:
        pair = self._facts.note_receipt(item, now_ms())
        # Another history may have other sessions.
        self._all_stale = self._all_stale or isinstance(item, Gap)
        self._stale |= {pair} if pair is not None else set()
        self._became_stale.set()
        self._changed()

    async def _ask(self, ask: Callable[[], Awaitable[None]]) -> None:
        """Ask for something; what cannot be had just now is said, and asked for again."""
        try:
            await ask()
        except LifebusError as fault:
            self._facts.fault = fault.detail.partition("\n")[0]
        else:
            self._facts.fault = ""
        self._changed()


def now_ms() -> int:
    """Return the time in milliseconds since 1970."""
    return time.time_ns() // 1_000_000
