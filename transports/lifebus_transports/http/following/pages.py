"""Pages of what is followed, read once for all who are at the same place."""

import asyncio
from functools import partial
from itertools import islice
from typing import Final, Literal

import anyio
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_contract import BrokerBusy, LifebusError
from lifebus_contract.jobs import ADAPTER
from lifebus_transports.http.following.frames import Missing, PreparedRecord, own_item, receipt_item, signal_item
from lifebus_transports.http.following.order import LineName, SignalOrder, topic_of
from lifebus_transports.http.following.topics import Topic
from lifebus_transports.http.ports import Calls, GatewayPeer
from lifebus_transports.messages.reads import Backfill, BackfillPage
from lifebus_transports.messages.signals import SignalBackfill, SignalPage, ThreadHeads, ThreadsQuery, WireSignal

ROWS: Final = 256
_READERS: Final = 4  # the broker bounds its reads, and others read as well
_KEPT: Final = 64
_RANGES: Final = 64  # as many threads are asked for one page at most
_MAX_LOST: Final = 256
_BUSY_S: Final = 0.05
_TRIES: Final = 200


class PreparedPage(Struct, frozen=True, kw_only=True):
    """A page, made ready for every follower; what the fields say is as in `BackfillPage`."""

    epoch: str
    items: tuple[PreparedRecord, ...]
    next: int
    head: int
    floor: int
    complete: bool
    is_gone: bool
    is_deleted: bool = False
    lost: Missing | None = None


class Pages:
    """Reads pages; those that several followers want at once are read once."""

    def __init__(self, calls: Calls, tasks: TaskGroup, order: SignalOrder, epoch: str) -> None:
        self.reads = 0
        self._order, self._epoch = order, epoch
        self._calls = calls
        self._tasks = tasks
        self._peer = GatewayPeer()
        self._readers = anyio.Semaphore(_READERS)
        self._pages: dict[tuple[Topic, int], asyncio.Future[PreparedPage]] = {}

    def forget(self, changed: frozenset[tuple[str, str, str]]) -> None:
        """Read again what changed; whoever waits for an older page still gets that one."""
        self._pages = {key: page for key, page in self._pages.items() if key[0].wakes not in changed}

    async def read(self, topic: Topic, after: int) -> PreparedPage:
        """Return what comes after a number.

        Raises:
            LifebusError: the broker refused, or was busy for too long.
        """
        key = (topic, after)
        page = self._pages.get(key)
        if page is None:
            page = self._pages[key] = asyncio.get_running_loop().create_future()
            # In a task of its own: a follower that leaves must not take the page from the others.
            self._tasks.start_soon(self._fetch, key, page)
        return await asyncio.shield(page)

    async def place(self, topic: Topic, after: int, epoch: str | None) -> PreparedPage:
        """Return where a number stands in a topic: a page of one record at most.

        Raises:
            LifebusError: the broker refused, or was busy for too long.
        """
        return await self._ask(topic, after, epoch, 1)

    async def lost(self, topic: Topic, after: int) -> list[Missing]:
        """Return what of a line that comes behind a place is not kept any more; the stream has a gap in each place.

        Raises:
            LifebusError: the broker refused, or was busy for too long.
        """
        found: list[Missing] = []
        if topic.line is None:
            return found
        floors: dict[tuple[str, str], int] = {}
        for one in list(self._order.line(topic.line).after(after)):
            if (one.adapter, one.thread) not in floors:
                heads: ThreadHeads = await self._calls.call(
                    self._peer, "threads", ThreadsQuery(adapter_id=one.adapter, thread=one.thread)
                )
                floors[one.adapter, one.thread] = heads.threads[0].floor if heads.threads else 0
            if one.first <= floors[one.adapter, one.thread]:
                page = await self._line_page(topic.line, one.before, 1)
                found += [page.lost] if page.lost is not None else []
            if len(found) >= _MAX_LOST:
                break
        return found

    async def _line_page(self, name: LineName, after: int, limit: int) -> PreparedPage:
        """Return a page of a line: some of what its threads have, or that the first of it is gone."""
        line = self._order.line(name)
        head, floor, items = line.head, line.floor, list[PreparedRecord]()
        place, lost = after, None
        for one in list(islice(line.after(after), _RANGES)) if after >= floor else ():
            page: SignalPage = await self._calls.call(
                self._peer,
                "signals",
                SignalBackfill(
                    adapter_id=one.adapter,
                    thread=one.thread,
                    after=one.first - 1,
                    limit=min(limit - len(items), one.last - one.first + 1),
                ),
            )
            if page.snapshot_required:
                if not items:
                    through = min(page.floor, one.last)
                    reason: Literal["deleted", "pruned"] = "deleted" if page.deleted else "pruned"
                    name_of = topic_of(one.adapter, one.thread)
                    lost = Missing(topic=name_of, after=one.first - 1, through=through, reason=reason)
                    place = one.before + through - one.first + 1
                break
            for row in page.rows:
                place = one.before + row.sequence - one.first + 1
                made = own_item if one.adapter == ADAPTER else partial(_signal_of, one.thread)
                items.append(PreparedRecord(place, made(topic_of(one.adapter, one.thread), row).tail))
            if len(items) >= limit or place < one.end:
                break
        is_gone = after < floor or lost is not None
        return PreparedPage(
            epoch=self._epoch,
            items=tuple(items),
            next=max(place, floor),
            head=head,
            floor=floor,
            complete=place >= head,
            is_gone=is_gone,
            is_deleted=lost is not None and lost.reason == "deleted",
            lost=lost,
        )

    async def _fetch(self, key: tuple[Topic, int], page: asyncio.Future[PreparedPage]) -> None:
        try:
            found = await self._ask(*key, None, ROWS)
            if not page.done():
                page.set_result(found)
        except LifebusError as fault:
            if not page.done():
                page.set_exception(fault)
                page.exception()  # taken here, too: every follower may have left
            self._drop(key, page)
        finally:
            # Where the gateway stops, nobody must wait for a page that never comes.
            if not page.done():
                page.cancel()
        if len(self._pages) > _KEPT:
            self._drop(key, page)

    def _drop(self, key: tuple[Topic, int], page: asyncio.Future[PreparedPage]) -> None:
        if self._pages.get(key) is page:
            del self._pages[key]

    async def _ask(self, topic: Topic, after: int, epoch: str | None, limit: int) -> PreparedPage:
        for _ in range(_TRIES):
            try:
                async with self._readers:
                    self.reads += 1
                    return await self._once(topic, after, epoch, limit)
            except BrokerBusy:
                # Others read a lot: what is followed waits for them, and not the other way round.
                await anyio.sleep(_BUSY_S)
        raise BrokerBusy("the broker is busy with other reads", code="busy")

    async def _once(self, topic: Topic, after: int, epoch: str | None, limit: int) -> PreparedPage:
        if topic.line is not None:
            return await self._line_page(topic.line, after, limit)
        if topic.adapter is None:
            wanted = topic.filters
            return _receipts(
                topic,
                await self._calls.call(
                    self._peer,
                    "backfill",
                    Backfill(
                        epoch=epoch,
                        after=after,
                        limit=limit,
                        adapter_id=wanted.adapter,
                        session=wanted.session,
                        event=wanted.event,
                        status=wanted.status,
                        failed=wanted.failed,
                        waiting=wanted.waiting,
                    ),
                ),
            )
        asked = SignalBackfill(adapter_id=topic.adapter, thread=topic.thread, epoch=epoch, after=after, limit=limit)
        return _signals(topic, await self._calls.call(self._peer, "signals", asked))


def _signal_of(thread: str, topic: str, row: WireSignal) -> PreparedRecord:
    return signal_item(topic, thread, row)


def _receipts(topic: Topic, page: BackfillPage) -> PreparedPage:
    return PreparedPage(
        epoch=page.epoch,
        items=tuple(receipt_item(topic.name, row) for row in page.rows),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        is_gone=page.snapshot_required,
    )


def _signals(topic: Topic, page: SignalPage) -> PreparedPage:
    items = (
        own_item(topic.name, row) if topic.adapter == ADAPTER else signal_item(topic.name, topic.thread, row)
        for row in page.rows
    )
    return PreparedPage(
        epoch=page.epoch,
        items=tuple(items),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        is_gone=page.snapshot_required,
        is_deleted=page.deleted,
    )
