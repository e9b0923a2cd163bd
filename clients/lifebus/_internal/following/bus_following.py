"""The methods of a bus that follow receipts and signals; their overloads say when an iterator has gaps as items."""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from datetime import datetime
from typing import Any, Literal, overload

from lifebus._internal.connection import Connection
from lifebus._internal.following.gaps import OnGap
from lifebus._internal.following.short_names import SessionName
from lifebus._internal.thread_views import SignalsSince, ThreadViews
from lifebus._internal.view import Gap, Position
from lifebus.consumer import Deliveries, Delivery, consume
from lifebus.signals import SignalReceived, Signals
from lifebus.subscription import Since, Subscription, selected
from lifebus.ticks import Ticks
from lifebus_contract import Receipt
from lifebus_contract.consumers import ConsumerSettings
from lifebus_transports.adapter_names import adapter_id_of
from lifebus_transports.messages.consumers import Consume


class BusFollowing:
    """What a bus follows: receipts, signals, and receipts under the name of a consumer."""

    def __init__(self, connection: Connection, client_id: str, timeout: float) -> None:
        self.client_id = client_id
        self.timeout = timeout
        self._connection = connection

    @overload
    def receipts(
        self,
        *,
        session: SessionName | None = None,
        since: Since = None,
        where: Callable[[Receipt], bool] | None = None,
        waiting: bool = False,
        failed: bool = False,
        canaries: bool = True,
        until_head: bool = False,
        gaps: OnGap = "raise",
    ) -> Subscription[Receipt]: ...
    @overload
    def receipts(
        self,
        *,
        session: SessionName | None = None,
        since: Since = None,
        where: Callable[[Receipt], bool] | None = None,
        waiting: bool = False,
        failed: bool = False,
        canaries: bool = True,
        until_head: bool = False,
        gaps: Literal["yield"],
    ) -> Subscription[Receipt | Gap]: ...
    def receipts(  # noqa: PLR0913  each chooses what is followed
        self,
        *,
        session: SessionName | None = None,
        since: Since = None,
        where: Callable[[Receipt], bool] | None = None,
        waiting: bool = False,
        failed: bool = False,
        canaries: bool = True,
        until_head: bool = False,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> Subscription[Any]:
        """Follow receipts: an async iterator of `Receipt`.

        `session` is (adapter_id, harness_session_id), or a short name such as ``api#3`` (docs/sessions.md); if no
        session has this name, the first step raises an error.  `since` is a cursor, a position, a time or ``"start"``;
        None begins with the next receipt.  `where` is a function that selects receipts.  `waiting` selects receipts
        which say who waits for a person (docs/waiting.md), and `failed` those of failures; ``canaries=False`` leaves
        out those of ``lifebus hooks test``.  `until_head` ends the iteration at the newest receipt instead of waiting
        for more.

        `gaps` says what happens if receipts are gone: ``"raise"`` raises `GapFound`, and the next step continues after
        them; a function is called with the `Gap` (and awaited if it is async); ``"yield"`` has gaps among the items.

        Raises:
            ValueError: `gaps` has another value.
        """
        if session is not None and not isinstance(session, str):
            session = (adapter_id_of(session[0]), session[1])
        return Subscription(
            self._connection,
            session=session,
            since=since,
            where=selected(where, waiting=waiting, failed=failed, canaries=canaries),
            until_head=until_head,
            timeout=self.timeout,
            gaps=gaps,
        )

    @overload
    def signals(
        self,
        adapter: str = "codex",
        thread: str | None = None,
        *,
        since: SignalsSince = None,
        last: int | None = None,
        event: str | None = None,
        where: Callable[[SignalReceived], bool] | None = None,
        until_head: bool = False,
        gaps: OnGap = "raise",
    ) -> Signals[SignalReceived]: ...
    @overload
    def signals(
        self,
        adapter: str = "codex",
        thread: str | None = None,
        *,
        since: SignalsSince = None,
        last: int | None = None,
        event: str | None = None,
        where: Callable[[SignalReceived], bool] | None = None,
        until_head: bool = False,
        gaps: Literal["yield"],
    ) -> Signals[SignalReceived | Gap]: ...
    def signals(  # noqa: PLR0913  each chooses what is followed
        self,
        adapter: str = "codex",
        thread: str | None = None,
        *,
        since: SignalsSince = None,
        last: int | None = None,
        event: str | None = None,
        where: Callable[[SignalReceived], bool] | None = None,
        until_head: bool = False,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> Signals[Any]:
        """Follow the signals of an adapter's app-servers: an async iterator of `SignalReceived`.

        It follows one `thread` ("" is the process itself), or all threads including future ones.  `since` is a cursor,
        a sequence (of one thread), a mapping of threads to cursors, or ``"start"``; None begins with the next signals.
        `last` begins that many signals before the newest one of each thread.  `event` is a pattern such as
        ``app_server.turn.*``, and `where` a function that selects signals.  `until_head` ends the iteration at the
        newest signals instead of waiting for more.  `gaps` says what happens if signals are gone, as with `receipts`.

        Raises:
            InvalidRequest: `since` is a single place but there is no `thread`, or it is no place.
            ValueError: `gaps` has a value that is not allowed.
        """
        return Signals(
            self._connection,
            ThreadViews(adapter_id_of(adapter), thread, since, last=last),
            event=event,
            where=where,
            until_head=until_head,
            timeout=self.timeout,
            gaps=gaps,
        )

    @overload
    def consume(
        self, name: str, settings: ConsumerSettings | None = None, *, since: Since = None, gaps: OnGap = "raise"
    ) -> AbstractAsyncContextManager[Deliveries[Delivery]]: ...
    @overload
    def consume(
        self, name: str, settings: ConsumerSettings | None = None, *, since: Since = None, gaps: Literal["yield"]
    ) -> AbstractAsyncContextManager[Deliveries[Delivery | Gap]]: ...
    def consume(
        self,
        name: str,
        settings: ConsumerSettings | None = None,
        *,
        since: Since = None,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> AbstractAsyncContextManager[Deliveries[Any]]:
        """Consume receipts under a name whose place the broker remembers: each at least once, until acknowledged.

        The block has an async iterator of `Delivery`.  `settings` say which receipts are delivered and how.  Without
        them a known name keeps its own settings; without a filter in them it keeps its filter.  `since` says where a
        new name begins, as with `receipts`; a known name continues where it was.  Only one connection at a time
        consumes a name, the newest one.  The iterator survives restarts of the broker.  `gaps` says what happens if
        receipts are gone, as with `receipts`; a gap counts as reported when the next item is asked for.

        Raises:
            StateConflict: the name has another filter; in the block: another connection consumes it now.
            LifebusError: the broker refused, or no answer came.
            ValueError: `gaps` has a value that is not allowed.
        """
        return consume(self._connection, _request(name, self.client_id, settings, since), self.timeout, gaps)

    def ticks(self, adapter: str | None = None) -> Ticks:
        """Follow the ticks that observed nothing, of one adapter or of all: an async iterator of `Receipt`.

        These receipts are in no ledger and are never repeated: what is not read in time is lost (docs/contract.md 2.6).
        """
        return Ticks(self._connection, adapter_id=adapter and adapter_id_of(adapter), timeout=self.timeout)


def _request(name: str, client_id: str, settings: ConsumerSettings | None, since: Since) -> Consume:
    """Return the request that attaches a consumer."""
    match since:
        case Position(epoch, position):
            return Consume(cursor=name, client_id=client_id, settings=settings, after=position, epoch=epoch)
        case datetime():
            return Consume(cursor=name, client_id=client_id, settings=settings, since_epoch_s=int(since.timestamp()))
        case None:
            return Consume(cursor=name, client_id=client_id, settings=settings)
        case _:
            after = 0 if since == "start" else int(since)
            return Consume(cursor=name, client_id=client_id, settings=settings, after=after)
