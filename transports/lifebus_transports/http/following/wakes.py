"""Wakes those who follow what was recorded: at once after a pause, together while a lot is recorded."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final, Protocol

from lifebus_transports.http.following.order import LineName
from lifebus_transports.http.following.topics import Topic
from lifebus_transports.http.ports import NotedReceipt

PACE_S: Final = 0.02
"""The most that lies between two wakes: what a record waits where a crowd follows or a lot is recorded."""

_QUICK_S: Final = 0.001
_EACH_S: Final = 0.000_1  # of each follower that is woken: about twice what it costs to send it one record
_FEW: Final = 2

WakeKey = tuple[str, str, str]
"""What a record changes, and a topic is changed by."""

_ALL: Final = ("receipts", "", "")


class Timers(Protocol):
    """What is asked of an event loop."""

    def time(self) -> float:
        """Return the time in seconds."""
        ...

    def call_later(self, delay: float, callback: Callable[[], None], /) -> asyncio.TimerHandle:
        """Call something after so many seconds."""
        ...


class Waiter:
    """One follower: what changed of its topics since it last looked, which `event` says."""

    __slots__ = ("_due", "event")

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self._due: set[WakeKey] = set()

    def wake(self, key: WakeKey) -> None:
        """Note that something changed."""
        self._due.add(key)
        self.event.set()

    def take(self) -> set[WakeKey]:
        """Return what changed since this was last asked for."""
        due, self._due = self._due, set()
        self.event.clear()
        return due


class Wakes:
    """The followers there are.  `stale` is called with what changed, before anybody is woken."""

    def __init__(self, stale: Callable[[frozenset[WakeKey]], None], loop: Timers) -> None:
        self._stale = stale
        self._loop = loop
        self._waiting: dict[WakeKey, set[Waiter]] = {}
        self._due: set[WakeKey] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0
        self._pace = _QUICK_S
        self._notes = 0

    @contextmanager
    def waiting(self, topics: Sequence[Topic], waiter: Waiter) -> Generator[None]:
        """Wake a follower whenever one of some topics changed, within the block."""
        keys = {topic.wakes for topic in topics}
        for key in keys:
            self._waiting.setdefault(key, set()).add(waiter)
        try:
            yield
        finally:
            for key in keys:
                self._waiting[key].discard(waiter)
                if not self._waiting[key]:
                    del self._waiting[key]
                    # Nobody is woken for it from here on, so that nothing that was read of it may be used again.
                    self._stale(frozenset({key}))

    def receipts_recorded(self, stored: Sequence[NotedReceipt]) -> None:
        """Note that receipts were recorded; this is on the way of every commit."""
        if not self._waiting:
            return
        keys: set[WakeKey] = {_ALL}
        # Looked at one by one only where somebody follows a session, which is more than that of all.
        if len(self._waiting) > (_ALL in self._waiting):
            keys |= {("receipts", one.adapter_id, one.harness_session_id or "") for one in stored}
        self._note(keys)

    def signals_recorded(self, adapter: str, thread: str, _: object) -> None:
        """Note that a thread has new signals."""
        self._note({("signals", adapter, thread)})

    def order_changed(self, lines: Iterable[LineName]) -> None:
        """Note that lines have more."""
        self._note({("order", name, "") for name in lines})

    def close(self) -> None:
        """Wake nobody any more."""
        if self._timer is not None:
            self._timer.cancel()

    def _note(self, keys: set[WakeKey]) -> None:
        due = keys & self._waiting.keys()
        if not due:
            return
        self._due |= due
        self._notes += 1
        if self._timer is None:
            # What comes after a pause wakes at once; what comes sooner wakes together at the end of the pace.
            wait = self._last + self._pace - self._loop.time()
            self._timer = self._loop.call_later(max(0.0, wait), self._wake)

    def _wake(self) -> None:
        self._timer, due = None, frozenset(self._due)
        self._due.clear()
        self._last = self._loop.time()
        # What was read before is forgotten first: who is woken must not be given a page that lacks what woke it.
        self._stale(due)
        woken: set[Waiter] = set()
        for key in due:
            for waiter in self._waiting.get(key, ()):
                waiter.wake(key)
                woken.add(waiter)
        self._pace = next_pace(self._pace, self._notes, len(woken))
        self._notes = 0


def next_pace(pace: float, notes: int, followers: int) -> float:
    """Return what lies between two wakes at least, where the last one was for so many notes and followers.

    A wake costs a page and a turn of each follower, whatever it is for: while notes come faster than wakes there are
    ever fewer of these, and as few as ever soon after.
    """
    wanted = pace * 2 if notes > _FEW else pace / 2
    return min(PACE_S, max(wanted, _QUICK_S, followers * _EACH_S))
