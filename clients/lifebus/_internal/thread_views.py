"""What a follower of signals has applied of each thread, and what it must still fetch.  Pure.

Every thread counts its signals by itself.  Signals and beacons show what is missing in it; a follower that missed a
beacon does not know which threads it named, and asks for the heads of all.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from lifebus._internal.view import Gap, NumberedView, Position
from lifebus_contract import InvalidRequest
from lifebus_transports.framing.frames import read_signal_topic, signal_topic
from lifebus_transports.messages.signals import (
    SignalBackfill,
    SignalBeacon,
    SignalPage,
    ThreadHead,
    ThreadHeads,
    ThreadsQuery,
    WireSignal,
)

SignalsSince = Position | Mapping[str, Position] | int | str | None
"""Where following starts: a cursor or sequence of one thread, a cursor of each thread, ``"start"``, or None for now."""

_PAGE: Final = 256


class ThreadItem(Struct, frozen=True):
    """What came next in one thread, and the history that it is of."""

    thread: str
    epoch: str
    item: WireSignal | Gap


class _ThreadState(Struct):
    """One thread: its view, and where a follower that does not wait for more stops."""

    thread: str
    view: NumberedView[WireSignal]
    last: int


class ThreadViews:
    """Applies the signals of one thread of an adapter, or of all (`thread` is None), each once and in order.

    `last` begins so many signals before each thread's newest one, whatever `since` says.  Nothing is applied before the
    first answer to `threads` is in: `place` starts the lines.
    """

    def __init__(
        self, adapter_id: str, thread: str | None = None, since: SignalsSince = None, *, last: int | None = None
    ) -> None:
        if thread is None and isinstance(since, Position | int):
            raise InvalidRequest("a place in one thread needs the thread; give a mapping of threads", field="since")
        if isinstance(since, str) and since != "start":
            raise InvalidRequest('where to begin is "start", a sequence, or a cursor', field="since")
        self.adapter_id, self.thread = adapter_id, thread
        self.topic = signal_topic(adapter_id, thread)
        self._since = {thread or "": since} if isinstance(since, Position) else since
        self._tail = last
        self._epoch = ""
        self._threads: dict[bytes, _ThreadState] = {}
        self._behind: dict[bytes, None] = {}
        self._beacon: int | None = None
        self._doubts = 1  # how often something showed that heads may be unknown
        self._asked = 0  # the doubts that the request under way answers
        self._settled = 0  # the doubts that are answered

    @property
    def placed(self) -> bool:
        """Whether the heads of the threads are known."""
        return bool(self._epoch)

    @property
    def at_head(self) -> bool:
        """Whether everything is applied that there was when the lines were placed."""
        return self.placed and all(
            state.view.epoch == self._epoch and state.view.position >= state.last for state in self._threads.values()
        )

    def cursors(self) -> dict[str, Position]:
        """Return the place that each thread has reached."""
        return {state.thread: Position(state.view.epoch, state.view.position) for state in self._threads.values()}

    def is_newer(self, item: ThreadItem) -> bool:
        """Whether an item came after the lines were placed."""
        state = self._threads[signal_topic(self.adapter_id, item.thread)]
        return isinstance(item.item, WireSignal) and item.item.sequence > state.last

    def ask(self) -> ThreadsQuery | SignalBackfill | None:
        """Return the next question, or None when there is nothing to ask; its answer goes to `place` or `fill`."""
        # Heads first: they may show that more threads are behind.
        if self._doubts > self._settled:
            self._asked = self._doubts
            return ThreadsQuery(adapter_id=self.adapter_id, thread=self.thread)
        for topic in self._behind:
            state = self._threads[topic]
            state.view.expect_page()
            return SignalBackfill(
                adapter_id=self.adapter_id,
                thread=state.thread,
                epoch=state.view.epoch,
                after=state.view.position,
                limit=_PAGE,
            )
        return None

    def place(self, heads: ThreadHeads) -> None:
        """Take the threads' heads: the first answer sets where each begins, later ones are compared."""
        self._settled = self._asked
        if not self.placed:
            self._start(heads)
        elif heads.epoch != self._epoch:
            self._epoch = heads.epoch
            for topic, state in self._threads.items():
                state.view.lose()
                self._behind[topic] = None
        for head in heads.threads:
            self._note_head(signal_topic(self.adapter_id, head.thread), head.head)

    def fill(self, page: SignalPage) -> list[ThreadItem]:
        """Take the page that was asked for; return what follows, gaps in their place."""
        topic = next(iter(self._behind))
        state = self._threads[topic]
        if page.epoch != state.view.epoch:
            state.last = page.head
            self._doubts += page.epoch != self._epoch
        filled = state.view.fill(page)
        if page.deleted:
            filled = [replace(one, reason="deleted") if isinstance(one, Gap) else one for one in filled]
        items = self._items(state, filled)
        del self._behind[topic]
        self._note(topic, state)
        return items

    def offer(self, topic: bytes, epoch: str, signals: Iterable[WireSignal]) -> list[ThreadItem]:
        """Take live signals; return those that follow what was applied."""
        state = self._thread_of(topic)
        if epoch != self._epoch:
            self._doubts += self.placed
        items = self._items(state, state.view.offer(epoch, signals))
        self._note(topic, state)
        return items

    def lose(self, topic: bytes) -> None:
        """Forget live signals that could not be kept; the log has them."""
        state = self._thread_of(topic)
        state.view.lose()
        self._note(topic, state)

    def note_beacon(self, beacon: SignalBeacon) -> None:
        """Compare the heads with what was applied: the loss of a last signal shows here."""
        if not self.placed:
            return
        # Each beacon names only some threads, so a lost one may have named a thread that is not known here.
        if self._beacon is None or beacon.number != self._beacon + 1 or beacon.epoch != self._epoch:
            self._doubts += 1
        self._beacon = beacon.number
        for name, head in beacon.threads.items():
            topic = name.encode("ascii")
            if topic == self.topic or (self.thread is None and topic.startswith(self.topic)):
                self._note_head(topic, head)

    def _start(self, heads: ThreadHeads) -> None:
        """Put each thread where its user wants to begin; one with live signals already asks for what lies between."""
        self._epoch = heads.epoch
        known = {signal_topic(self.adapter_id, head.thread): head for head in heads.threads}
        if self.thread is not None:
            known.setdefault(self.topic, ThreadHead(self.thread, 0, 0))
        for topic, head in known.items():
            is_live = topic in self._threads  # live signals came before the heads
            state = self._thread_of(topic)
            state.last = head.head
            state.view.epoch, state.view.position = self._beginning(head)
            state.view.behind = is_live or Position(heads.epoch, head.head) != Position(
                state.view.epoch, state.view.position
            )
        for topic, state in self._threads.items():
            state.view.epoch = state.view.epoch or heads.epoch
            self._note(topic, state)

    def _beginning(self, head: ThreadHead) -> tuple[str, int]:
        if self._tail is not None:
            return self._epoch, max(head.floor, head.head - self._tail)
        if self._since is None:
            return self._epoch, head.head
        if isinstance(self._since, Mapping):
            cursor = self._since.get(head.thread, Position(self._epoch, 0))
            return cursor.epoch, cursor.position
        return self._epoch, self._since if isinstance(self._since, int) else 0

    def _thread_of(self, topic: bytes) -> _ThreadState:
        """Return a thread's state; that of a new thread begins before its first signal."""
        state = self._threads.get(topic)
        if state is None:
            view = NumberedView[WireSignal](epoch=self._epoch, position=0)
            view.behind = False
            state = self._threads[topic] = _ThreadState(read_signal_topic(topic), view, 0)
        return state

    def _note_head(self, topic: bytes, head: int) -> None:
        state = self._thread_of(topic)
        state.view.note_head(head)
        self._note(topic, state)

    def _note(self, topic: bytes, state: _ThreadState) -> None:
        if state.view.behind:
            self._behind[topic] = None
        else:
            self._behind.pop(topic, None)

    def _items(self, state: _ThreadState, applied: Iterable[WireSignal | Gap]) -> list[ThreadItem]:
        return [ThreadItem(state.thread, state.view.epoch, item) for item in applied]
