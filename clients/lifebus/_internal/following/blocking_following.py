"""Iterators for scripts without an event loop, and the methods of a bus that begin them."""

from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, Generic, Literal, TypeVar, cast, overload

from anyio.from_thread import BlockingPortal

from lifebus._internal.following.gaps import GapFound, GapHandler, OnGap
from lifebus._internal.following.short_names import SessionName
from lifebus._internal.thread_views import SignalsSince
from lifebus._internal.view import Gap, Position
from lifebus.client import Bus
from lifebus.consumer import Deliveries, Delivery
from lifebus.signals import SignalReceived, Signals
from lifebus.state import State
from lifebus.subscription import Since, Subscription
from lifebus_contract import Receipt
from lifebus_contract.consumers import ConsumerSettings

T = TypeVar("T")

_END: Final = object()


class _Blocking(Generic[T]):
    """Iterates in a thread over what an event loop follows; at a gap `handler` is called, in that same thread."""

    def __init__(
        self,
        portal: BlockingPortal,
        items: AsyncIterator[T],
        stop: Callable[[], Awaitable[None]],
        handler: GapHandler | None,
    ) -> None:
        self._portal = portal
        self._items = items
        self._stop = stop
        self._handler = handler
        self._unhandled: Gap | None = None

    def close(self) -> None:
        """Stop following."""
        self._unhandled = None
        self._portal.call(self._stop)

    def __iter__(self) -> Iterator[T]:
        return self

    def __next__(self) -> T:
        while True:
            self._handle()  # once more, where the handler did not return
            try:
                found = self._portal.call(self._next)
            except GapFound as fault:
                if self._handler is None:
                    raise
                self._unhandled = fault.gap
                continue
            if found is _END:
                raise StopIteration
            return cast("T", found)

    def _handle(self) -> None:
        if self._unhandled is not None and self._handler is not None:
            self._handler(self._unhandled)
            self._unhandled = None

    async def _next(self) -> object:
        try:
            return await anext(self._items)
        except StopAsyncIteration:
            # A sentinel: `__next__` ends by StopIteration, which a coroutine cannot raise.
            return _END


class BlockingSubscription(_Blocking[T]):
    """Iterates over `Receipt`, and over `Gap` with ``gaps="yield"``.  Use it from one thread at a time."""

    def __init__(self, portal: BlockingPortal, subscription: Subscription[Any], handler: GapHandler | None) -> None:
        super().__init__(portal, subscription, subscription.aclose, handler)
        self._subscription = subscription

    def state(self) -> State:
        """Return the state that replaces receipts which are gone, and continue after it; see `Subscription.state`.

        Raises:
            LifebusError: the broker keeps no state, or cannot read it.
        """
        return self._portal.call(self._subscription.state)

    @property
    def cursor(self) -> Position | None:
        """The place of the last item, to go on from with a later subscription; see `Subscription`."""
        return self._subscription.cursor


class BlockingDeliveries(_Blocking[T]):
    """Iterates over `Delivery`, and over `Gap` with ``gaps="yield"``.  Use it from one thread at a time.

    Deliveries are acknowledged here.
    """

    def __init__(self, portal: BlockingPortal, deliveries: Deliveries[Any], handler: GapHandler | None) -> None:
        super().__init__(portal, deliveries, deliveries.aclose, handler)
        self._deliveries = deliveries

    @property
    def ready(self) -> int:
        """How many deliveries have come that were not asked for yet."""
        return self._deliveries.ready

    def state(self) -> State:
        """Return the state that replaces receipts which are gone; the next item comes after it.

        Raises:
            LifebusError: the broker keeps no state, or another connection consumes this name now.
        """
        return self._portal.call(self._deliveries.state)

    def ack(self, deliveries: Iterable[Delivery | Position]) -> None:
        """Acknowledge these `deliveries`, or those at these places; when this returns, it is durable.

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        self._portal.call(self._deliveries.ack, tuple(deliveries))

    def nack(self, deliveries: Iterable[Delivery | Position], delay: float | None = None) -> None:
        """Have these `deliveries` come again, after `delay` seconds (default: a pause that grows with each try).

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        self._portal.call(self._deliveries.nack, tuple(deliveries), delay)


class BlockingSignals(_Blocking[T]):
    """Iterates over `SignalReceived`, and over `Gap` with ``gaps="yield"``.

    Use it from one thread at a time.
    """

    def __init__(self, portal: BlockingPortal, signals: Signals[Any], handler: GapHandler | None) -> None:
        super().__init__(portal, signals, signals.aclose, handler)
        self._signals = signals

    @property
    def cursors(self) -> dict[str, Position]:
        """The place of the last item of each thread, to go on from later."""
        return dict(self._signals.cursors)


class BlockingFollowing:
    """What a blocking bus follows: receipts, signals, and receipts under the name of a consumer."""

    def __init__(self, portal: BlockingPortal, bus: Bus) -> None:
        self._portal = portal
        self._bus = bus

    @overload
    def consume(
        self, name: str, settings: ConsumerSettings | None = None, *, since: Since = None, gaps: OnGap = "raise"
    ) -> AbstractContextManager[BlockingDeliveries[Delivery]]: ...
    @overload
    def consume(
        self, name: str, settings: ConsumerSettings | None = None, *, since: Since = None, gaps: Literal["yield"]
    ) -> AbstractContextManager[BlockingDeliveries[Delivery | Gap]]: ...
    def consume(
        self,
        name: str,
        settings: ConsumerSettings | None = None,
        *,
        since: Since = None,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> AbstractContextManager[BlockingDeliveries[Any]]:
        """Consume receipts under a name whose place the broker remembers; see `Bus.consume`.

        Raises:
            LifebusError: the broker refused, or no answer came.
        """
        choice, handler = _choice(gaps)
        return self._consuming(self._bus.consume(name, settings, since=since, gaps=choice), handler)

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
    ) -> BlockingSubscription[Receipt]: ...
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
    ) -> BlockingSubscription[Receipt | Gap]: ...
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
    ) -> BlockingSubscription[Any]:
        """Return an iterator of receipts; `gaps` says what happens if some are gone; see `Bus.receipts`."""
        choice, handler = _choice(gaps)
        follow = partial(
            self._bus.receipts,
            session=session,
            since=since,
            where=where,
            waiting=waiting,
            failed=failed,
            canaries=canaries,
            until_head=until_head,
            gaps=choice,
        )
        return BlockingSubscription(self._portal, self._portal.call(follow), handler)

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
    ) -> BlockingSignals[SignalReceived]: ...
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
    ) -> BlockingSignals[SignalReceived | Gap]: ...
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
    ) -> BlockingSignals[Any]:
        """Return an iterator of an app-server's signals; see `Bus.signals`."""
        choice, handler = _choice(gaps)
        follow = partial(
            self._bus.signals,
            adapter,
            thread,
            since=since,
            last=last,
            event=event,
            where=where,
            until_head=until_head,
            gaps=choice,
        )
        return BlockingSignals(self._portal, self._portal.call(follow), handler)

    @contextmanager
    def _consuming(self, consuming: Any, handler: GapHandler | None) -> Generator[BlockingDeliveries[Any]]:
        with self._portal.wrap_async_context_manager(consuming) as deliveries:
            yield BlockingDeliveries(self._portal, deliveries, handler)


def _choice(gaps: OnGap | Literal["yield"]) -> tuple[Any, GapHandler | None]:
    """Return what the iterator on the event loop does at a gap, and the function that is to be called here.

    The function runs in the thread of the script, which may hold what other threads must not touch.
    """
    return ("raise", gaps) if callable(gaps) else (gaps, None)
