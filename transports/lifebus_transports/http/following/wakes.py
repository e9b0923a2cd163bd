"""Wakes those who follow what was recorded, a few times a second at most."""

import asyncio
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from typing import Final

from lifebus_transports.http.following.order import LineName
from lifebus_transports.http.following.topics import Topic
from lifebus_transports.http.ports import NotedReceipt

PACE_S: Final = 0.02
"""At least so much lies between two wakes, so that many followers of many commits are few turns of the loop."""

_Key = tuple[str, str, str]
_ALL: Final = ("receipts", "", "")


class Wakes:
    """The followers that wait.  `stale` is called with what changed, before anybody is woken."""

    def __init__(self, stale: Callable[[frozenset[_Key]], None]) -> None:
        self._stale = stale
        self._waiting: dict[_Key, set[asyncio.Event]] = {}
        self._due: set[_Key] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._last = 0.0

    @contextmanager
    def waiting(self, topics: Sequence[Topic], event: asyncio.Event) -> Generator[None]:
        """Set an event whenever one of some topics changed, within the block."""
        keys = {topic.wakes for topic in topics}
        for key in keys:
            self._waiting.setdefault(key, set()).add(event)
        try:
            yield
        finally:
            for key in keys:
                self._waiting[key].discard(event)
                if not self._waiting[key]:
                    del self._waiting[key]
                    # Nobody is woken for it from here on, so that nothing that was read of it may be used again.
                    self._stale(frozenset({key}))

    def receipts_recorded(self, stored: Sequence[NotedReceipt]) -> None:
        """Note that receipts were recorded; this is on the way of every commit."""
        if not self._waiting:
            return
        keys: set[_Key] = {_ALL}
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

    def _note(self, keys: set[_Key]) -> None:
        due = keys & self._waiting.keys()
        if not due:
            return
        self._due |= due
        if self._timer is None:
            loop = asyncio.get_running_loop()
            # The first one after a pause is woken at once, those that follow together.
            self._timer = loop.call_later(max(0.0, self._last + PACE_S - loop.time()), self._wake)

    def _wake(self) -> None:
        self._timer, due = None, frozenset(self._due)
        self._due.clear()
        self._last = asyncio.get_running_loop().time()
        # What was read before is forgotten first: who is woken must not be given a page that lacks what woke it.
        self._stale(due)
        for key in due:
            for event in self._waiting.get(key, ()):
                event.set()
