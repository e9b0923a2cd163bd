"""Signals of app-servers as an async iterator that misses none without saying so (docs/signals.md).

Join: subscribe, wait for a marker that proves the stream live, ask for the heads of the threads, fetch what is missing,
and go live.
"""

import fnmatch
import re
from collections import deque
from collections.abc import Callable
from typing import Any, Final, Generic, Literal, TypeVar, cast

import msgspec
from msgspec import Struct

from lifebus._internal.connection import Connection
from lifebus._internal.follower import Follower
from lifebus._internal.following.gaps import GapGate, OnGap
from lifebus._internal.thread_views import ThreadItem, ThreadViews
from lifebus._internal.view import Gap, Position
from lifebus_transports.framing.frames import SIGNAL_BEACON_TOPIC
from lifebus_transports.messages.signals import SignalBeacon, SignalPage, ThreadHeads, ThreadsQuery, WireSignal

T_co = TypeVar("T_co", bound="SignalReceived | Gap", covariant=True)

_MAX_READY: Final = 4_096
_signals = msgspec.msgpack.Decoder(list[WireSignal])
_beacons = msgspec.msgpack.Decoder(SignalBeacon)


class SignalReceived(Struct, frozen=True, kw_only=True):
    """One signal: its number in its thread, its event, and the envelope as JSON bytes in `raw`.

    `thread` is empty for a signal of the whole process.  `cursor` is the signal's place in its thread.
    """

    adapter_id: str
    thread: str
    sequence: int
    event_type: str
    cursor: Position
    raw: bytes

    @property
    def envelope(self) -> dict[str, Any]:
        """The decoded envelope (docs/app-server.md): method, receivedAt, context, params and so on."""
        decoded: dict[str, Any] = msgspec.json.decode(self.raw)
        return decoded


class Signals(Follower, Generic[T_co]):
    """An async iterator of `SignalReceived`, and of `Gap` with ``gaps="yield"``.

    Use it from one task at a time.

    Signals of one thread come in order; there is no order between threads.  `cursors` has the place of the last item of
    each thread; give it to a later iterator as `since` to continue from there.  A thread's place moves past a gap when
    the gap was reported, as `Subscription.cursor` does.  If you leave the ``async for`` early, dropping the iterator
    frees its socket; `aclose` frees it at once.
    """

    def __init__(
        self,
        connection: Connection,
        views: ThreadViews,
        *,
        event: str | None,
        where: Callable[[SignalReceived], bool] | None,
        until_head: bool,
        timeout: float,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> None:
        super().__init__(connection, timeout)
        self.cursors: dict[str, Position] = {}
        self._views = views
        self._event = None if event is None else re.compile(fnmatch.translate(event))
        self._where = where
        self._until_head = until_head
        self._ready: deque[ThreadItem] = deque()
        self._gate = GapGate(gaps)

    def __aiter__(self) -> "Signals[T_co]":
        return self

    async def __anext__(self) -> T_co:
        if self._ended:
            raise StopAsyncIteration
        return cast("T_co", await self._gate.next_of(self._next_item, self._leave_gap))

    async def _next_item(self) -> SignalReceived | Gap:
        if not self._ended and not self._views.placed:
            await self._join()
        while not self._ended:
            while self._ready:
                item = self._take(self._ready.popleft())
                if item is not None:
                    return item
            if self._until_head and self._views.at_head:
                await self.aclose()
            else:
                await self._more()
        raise StopAsyncIteration

    async def join(self) -> dict[str, Position]:
        """Begin now instead of with the first item, and return the place of each thread after which nothing is missed.

        Raises:
            DeadlineExceeded: the broker does not answer.
            TransportError: the broker's stream does not reach here.
        """
        if not self._views.placed:
            await self._join()
        return self.cursors

    async def _join(self) -> None:
        """Open the feed, prove it live, and find out the threads' heads."""
        try:
            await self._subscribe((self._views.topic, SIGNAL_BEACON_TOPIC))
            while not self._views.placed:
                await self._more()
        # Also when cancelled: the socket would stay subscribed, and its queue would fill.
        except BaseException:
            self._close_feed()
            raise
        self.cursors = self._views.cursors()

    async def _more(self) -> None:
        """Ask for what is missing, or wait for live signals."""
        self._open_feed()
        question = self._views.ask()
        if question is None:
            await self._wait()
        elif isinstance(question, ThreadsQuery):
            self._views.place(await self._read("threads", question, ThreadHeads))
        else:
            self._ready.extend(self._views.fill(await self._read("signals", question, SignalPage)))

    def _leave_gap(self, gap: Gap) -> None:
        if self._gate.cursor is not None:
            self.cursors[gap.thread or ""] = self._gate.cursor

    def _take(self, found: ThreadItem) -> SignalReceived | Gap | None:
        """Return an item as the user sees it, None where it is not wanted."""
        item = found.item
        if isinstance(item, Gap):
            # Another history begins where its view was put; a pruned stretch ends at a known number.
            place = self._views.cursors()[found.thread].position if item.until is None else item.until
            self._gate.cursor = Position(found.epoch, place)
            return msgspec.structs.replace(item, thread=found.thread)
        # Each thread ends at its own head; later signals of one thread may come before another is done.
        if self._until_head and self._views.is_newer(found):
            return None
        cursor = self.cursors[found.thread] = Position(found.epoch, item.sequence)
        if self._event is not None and not self._event.match(item.event_type):
            return None
        received = SignalReceived(
            adapter_id=self._views.adapter_id,
            thread=found.thread,
            sequence=item.sequence,
            event_type=item.event_type,
            cursor=cursor,
            raw=item.signal,
        )
        return received if self._where is None or self._where(received) else None

    def _on_message(self, topic: bytes, epoch: str, body: bytes) -> None:
        if topic == SIGNAL_BEACON_TOPIC:
            self._views.note_beacon(_beacons.decode(body))
        elif len(self._ready) >= _MAX_READY:
            self._views.lose(topic)  # the reader is slow: the log is its buffer
        else:
            self._ready.extend(self._views.offer(topic, epoch, _signals.decode(body)))
