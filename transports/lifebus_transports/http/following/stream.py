"""One stream: the records of some topics after a place, as frames, for as long as somebody reads them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Final, Literal

import anyio

from lifebus_transports.http.following.cursors import Cursor, numbers_of, prefix_of
from lifebus_transports.http.following.frames import (
    Behind,
    BehindFrame,
    CaughtUpFrame,
    ControlFrame,
    CursorFrame,
    GapFrame,
    Missing,
    Ready,
    ReadyFrame,
    Standing,
)
from lifebus_transports.http.following.pages import Pages, PreparedPage
from lifebus_transports.http.following.rendering import Records
from lifebus_transports.http.following.topics import Topic
from lifebus_transports.http.following.wakes import Waiter, Wakes

Begin = Literal["now", "oldest"]
"""Where a stream begins whose client was nowhere: behind what is there, or with the oldest record that is kept."""

BEHIND: Final = 2_048
"""How many records a client that was up to date may be late before it is told so."""

KEEP_ALIVE_S: Final = 15.0


class TopicStream:
    """Follows topics.  `open` first, which returns the first frame; then, `following`, `read` again and again."""

    def __init__(self, topics: Sequence[Topic], pages: Pages, wakes: Wakes, *, thread_id: str | None = None) -> None:
        self.topics = tuple(topics)
        self._pages = pages
        self._wakes = wakes
        self._thread_id = thread_id
        self._numbers = [0] * len(self.topics)
        self._late = [False] * len(self.topics)
        self._fresh = [False] * len(self.topics)  # whether the client once had everything there was
        self._prefix = ""
        self._sent = ""
        self._unread = set[int]()  # topics that may have something
        self._turn = 0
        self._waiter = Waiter()

    @property
    def last_id(self) -> str:
        """The id that continues behind everything that was read."""
        return self._prefix + numbers_of(self._numbers)

    async def open(self, cursor: Cursor | None, begin: Begin) -> ControlFrame:
        """Find the place in every topic; return the first frame, which says whether anything is missing.

        Raises:
            LifebusError: the broker refused.
        """
        missing: list[Missing] = []
        standing: list[Standing] = []
        epochs: dict[str, str] = {}
        for index, topic in enumerate(self.topics):
            after = cursor.numbers[index] if cursor is not None else 0
            epoch = cursor.epoch_of(topic) if cursor is not None else None
            page = await self._pages.place(topic, after, epoch)
            epochs[topic.history] = page.epoch
            if cursor is None:
                start = page.head if begin == "now" else page.floor
            else:
                start, lost = _resume(topic, after, epoch, page)
                if topic.line is not None and (not lost or page.lost is not None):
                    # Its gaps lie between what is there: each is told of now, and again in its place.
                    start, lost = after, await self._pages.lost(topic, after)
                missing += lost
            self._numbers[index] = start
            self._fresh[index] = start >= page.head
            standing.append(Standing(topic=topic.name, after=start, head=page.head))
        self._prefix = prefix_of(self.topics, epochs)
        resume: Literal["none", "complete", "incomplete"] = "incomplete" if missing else "complete"
        ready = Ready(
            thread_id=self._thread_id,
            resume="none" if cursor is None else resume,
            topics=tuple(standing),
            missing=tuple(missing),
        )
        return self._control(ReadyFrame, payload=ready)

    def following(self) -> AbstractContextManager[None]:
        """Be woken by what is recorded, within the block; what is read stands in one."""
        # All topics are read once: what came before this is nothing that it is woken for.
        self._unread = set(range(len(self.topics)))
        return self._wakes.waiting(self.topics, self._waiter)

    async def read(self) -> Records | ControlFrame | None:
        """Return what comes next; None where nothing came for a while, so that the client is shown that we live.

        Raises:
            LifebusError: the broker refused.
        """
        while True:
            # Taken before the read: what is recorded during it is taken the next time.
            changed = self._waiter.take()
            self._unread |= {index for index, topic in enumerate(self.topics) if topic.wakes in changed}
            for index in self._in_turn():
                found = self._take(index, await self._pages.read(self.topics[index], self._numbers[index]))
                if found is not None:
                    self._turn = index + 1
                    return found
            if not self._unread and not self._waiter.event.is_set():
                with anyio.move_on_after(KEEP_ALIVE_S):
                    await self._waiter.event.wait()
                if not self._waiter.event.is_set():
                    return await self._idle()

    def _in_turn(self) -> list[int]:
        """Return the topics to be read, so that one with much to send does not hold up the others."""
        return sorted(self._unread, key=lambda index: (index < self._turn, index))

    def _take(self, index: int, page: PreparedPage) -> Records | ControlFrame | None:
        """Move one topic on by a page; return what a client is to know of it, None where there is nothing."""
        topic, after = self.topics[index], self._numbers[index]
        if page.is_gone:
            self._numbers[index] = page.next
            reason: Literal["deleted", "pruned"] = "deleted" if page.is_deleted else "pruned"
            missing = page.lost or Missing(topic=topic.name, after=after, through=page.next, reason=reason)
            return self._control(GapFrame, payload=missing)
        lag = page.head - after
        if self._fresh[index] and not self._late[index] and lag > BEHIND:
            self._late[index] = True
            return self._control(BehindFrame, payload=Behind(topic=topic.name, after=after, head=page.head))
        if not page.items:
            self._numbers[index] = max(after, page.next)
            return self._at_end(index, page)
        records = Records(page, self._prefix, tuple(self._numbers), index)
        self._numbers[index] = page.items[-1].number
        self._sent = self.last_id
        self._numbers[index] = max(self._numbers[index], page.next)
        if page.complete and not self._late[index]:
            self._fresh[index] = True
            self._unread.discard(index)
        return records

    def _at_end(self, index: int, page: PreparedPage) -> ControlFrame | None:
        if not page.complete:
            # Nothing of this page is wanted, and more pages follow.
            return None
        self._unread.discard(index)
        was_late, self._late[index], self._fresh[index] = self._late[index], False, True
        if not was_late:
            return None
        caught_up = Behind(topic=self.topics[index].name, after=self._numbers[index], head=page.head)
        return self._control(CaughtUpFrame, payload=caught_up)

    async def _idle(self) -> Records | ControlFrame | None:
        """Move on past records of other sessions, which wake nobody here; return a frame with the id where it moved."""
        for index, topic in enumerate(self.topics):
            if topic.filters.session is not None:
                self._pages.forget(frozenset({topic.wakes}))
                found = self._take(index, await self._pages.read(topic, self._numbers[index]))
                if found is not None:
                    return found
        return self._control(CursorFrame) if self._sent != self.last_id else None

    def _control(self, kind: Callable[..., ControlFrame], **fields: Ready | Missing | Behind) -> ControlFrame:
        self._sent = self.last_id
        return kind(id=self._sent, thread_id=self._thread_id, **fields)


def _resume(topic: Topic, after: int, epoch: str | None, page: PreparedPage) -> tuple[int, list[Missing]]:
    """Return where a stream goes on that was at a number of a history, and what it cannot have."""
    reason: Literal["pruned", "deleted", "other_history", "ahead_of_history"]
    if epoch != page.epoch:
        start, reason = page.floor, "other_history"
    elif page.is_gone:
        start, reason = page.next, "deleted" if page.is_deleted else "pruned"
    elif after > page.head:
        start, reason = page.head, "ahead_of_history"
    else:
        return after, []
    return start, [Missing(topic=topic.name, after=after, through=start, reason=reason)]
