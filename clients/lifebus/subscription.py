"""Receipts as an async iterator that never misses one unknowingly (design 4.6).

Join: subscribe, wait for a marker that proves the pipe live, then fetch the backfill from the cursor, then go live.
Whatever the live stream loses, the view notices and the ledger fills.

Above: client.  Below: connection, view.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

import anyio
import msgspec
import zmq

from lifebus.connection import Connection, connected_socket
from lifebus.requests import new_id
from lifebus.view import Cursor, Gap, View
from lifebus_contract import BrokerBusy, DeadlineExceeded, InvalidRequest, Receipt, TransportError
from lifebus_contract.codec import decode_receipt
from lifebus_transports.messages import (
    Backfill,
    BackfillPage,
    Beacon,
    BrokerStatus,
    Marker,
    Nothing,
    RowInfo,
    SessionInfo,
    SessionsAsk,
)
from lifebus_transports.wire import ALL_TOPIC, BEACON_TOPIC, marker_topic, session_topic
from lifebus_transports.zmq_socket import Frames, SocketReader

__all__ = ["Since", "Subscription"]

Since = Cursor | int | datetime | str | None
"""Where a subscription starts: a cursor, a position, a time, ``"start"``, or None for what comes from now on."""

_MAX_READY: Final = 4_096
_MARKER_WAIT_S: Final = 0.25
_PAUSE_S: Final = (0.05, 5.0)
_FRAMES: Final = 3
_rows = msgspec.msgpack.Decoder(list[RowInfo])
_beacons = msgspec.msgpack.Decoder(Beacon)


class Subscription:
    """An async iterator of `Receipt` and `Gap`.  Use it from one task at a time.

    `cursor` is the place of the last item returned: hand it to a later subscription as `since` to go on from there.
    Leaving the `async for` early is fine; `aclose` frees the socket at once.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        session: tuple[str, str] | None,
        since: Since,
        where: Callable[[Receipt], bool] | None,
        until_head: bool,
        timeout: float,
    ) -> None:
        self.cursor: Cursor | None = None
        self._connection = connection
        self._session = session
        self._since = since
        self._where = where
        self._until_head = until_head
        self._timeout = timeout
        self._ready: deque[RowInfo | Gap] = deque()
        self._wake = asyncio.Event()
        self._view: View | None = None
        self._nonce = new_id("m").lower()
        self._marked = False
        self._last: int | None = None
        self._socket: zmq.Socket[bytes] | None = None
        self._reader: SocketReader | None = None

    def __aiter__(self) -> "Subscription":
        return self

    async def __anext__(self) -> Receipt | Gap:
        view = self._view or await self._join()
        while True:
            while self._ready:
                item = self._take(view, self._ready.popleft())
                if item is not None:
                    return item
            if self._last is not None and view.position >= self._last:
                await self.aclose()
                raise StopAsyncIteration
            if view.behind:
                await self._refill(view)
            else:
                self._wake.clear()
                await self._wake.wait()

    async def aclose(self) -> None:
        """Stop following and free the socket; the iterator is done then."""
        if self._reader is not None and self._socket is not None:
            self._reader.close()
            self._socket.close()
            self._reader = self._socket = None

    def _take(self, view: View, item: RowInfo | Gap) -> Receipt | Gap | None:
        if isinstance(item, Gap):
            self.cursor = Cursor(view.epoch, item.until or item.after)
            return item
        self.cursor = Cursor(view.epoch, item.position)
        if self._last is not None and item.position > self._last:
            return None
        receipt = decode_receipt(item.receipt)
        if self._session and (receipt.adapter_id, receipt.harness_session_id) != self._session:
            return None
        return receipt if self._where is None or self._where(receipt) else None

    async def _join(self) -> View:
        """Open the socket, prove it live, and place the view where the user wants to start."""
        if self._reader is not None:
            raise InvalidRequest("this subscription has ended; make a new one", code="ended")
        status = await self._connection.ask("status", Nothing(), BrokerStatus, timeout=self._timeout)
        by_session = self._session is not None and status.ledger.durability != "none"
        topic = session_topic(*self._session) if self._session and by_session else ALL_TOPIC
        self._open(topic)
        await self._wait_for_marker()
        view = View(epoch=status.ledger.epoch, position=0, by_session=by_session, topic=topic.decode("ascii"))
        await self._place(view)
        self._view = view
        return view

    def _open(self, topic: bytes) -> None:
        path = self._connection.runtime_dir / "receipts.ipc"
        self._socket = connected_socket(self._connection.context, zmq.SUB, path)
        for wanted in (topic, BEACON_TOPIC, marker_topic(self._nonce)):
            self._socket.setsockopt(zmq.SUBSCRIBE, wanted)
        self._reader = SocketReader(self._socket, self._receive)

    async def _wait_for_marker(self) -> None:
        """Ask for the marker until it arrives: the subscription may not have reached the broker yet."""
        with anyio.move_on_after(self._timeout):
            while not self._marked:
                await self._connection.ask("marker", Marker(nonce=self._nonce), Nothing, timeout=self._timeout)
                with anyio.move_on_after(_MARKER_WAIT_S):
                    await self._wake.wait()
                self._wake.clear()
        if not self._marked:
            await self.aclose()
            raise TransportError("the broker answers, but its receipt stream does not reach here", code="no_stream")

    async def _place(self, view: View) -> None:
        """Set the view's starting position, epoch and session sequence."""
        newest = await self._page(Backfill(after=0, limit=1))
        view.epoch = newest.epoch
        if isinstance(self._since, Cursor):
            view.epoch, view.position = self._since.epoch, self._since.position
        elif isinstance(self._since, datetime):
            view.position = await self._position_at(int(self._since.timestamp()), newest.head)
        elif self._since is None:
            view.position = newest.head
        elif self._since != "start":
            view.position = int(self._since)
        if self._until_head:
            self._last = newest.head
        if self._session and self._since is None:
            heads = await self._connection.ask(
                "sessions", SessionsAsk(session=self._session), list[SessionInfo], timeout=self._timeout
            )
            view.sequence = heads[0].sequence if heads else 0
            view.position = heads[0].last_position if heads else view.position
        elif view.position == 0:
            view.sequence = 0

    async def _position_at(self, epoch_s: int, head: int) -> int:
        page = await self._page(Backfill(after=0, limit=1, since_epoch_s=epoch_s))
        return page.rows[0].position - 1 if page.rows else head

    async def _refill(self, view: View) -> None:
        """Fetch one page and put what follows into the queue."""
        session = self._session if self._view_by_session() else None
        page = await self._page(Backfill(epoch=view.epoch, after=view.position, session=session))
        self._ready.extend(view.fill(page))

    def _view_by_session(self) -> bool:
        return self._session is not None and self._view is not None and self._view.by_session

    async def _page(self, query: Backfill) -> BackfillPage:
        """Ask for a page until the broker answers; a storm of askers spreads out by full jitter."""
        pause = _PAUSE_S[0]
        while True:
            try:
                return await self._connection.ask("backfill", query, BackfillPage, timeout=self._timeout)
            except (BrokerBusy, DeadlineExceeded):
                await anyio.sleep(random.uniform(0, pause))  # noqa: S311  jitter, not a secret
                pause = min(pause * 2, _PAUSE_S[1])

    def _receive(self, frames: Frames) -> None:
        """Take one published message; runs on the event loop and never waits."""
        if len(frames) != _FRAMES:
            return
        topic, epoch, body = frames
        if topic == BEACON_TOPIC:
            if self._view is not None:
                self._view.note_beacon(_beacons.decode(body))
        elif topic.startswith(b"m/"):
            self._marked = True
        elif self._view is not None:
            self._offer(self._view, epoch.decode("ascii"), body)
        self._wake.set()

    def _offer(self, view: View, epoch: str, body: bytes) -> None:
        if len(self._ready) >= _MAX_READY:
            view.lose()  # the reader is slow: the ledger is its buffer
        else:
            self._ready.extend(view.offer(epoch, _rows.decode(body)))
