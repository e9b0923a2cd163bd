"""Named consumers: receipts with acknowledgements, from a place that the broker remembers (docs/consuming.md)."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Final, Generic, Literal, TypeVar, cast

import anyio
from msgspec import structs

from lifebus._internal.answers import decode_answer, decode_recorded
from lifebus._internal.backoff import Backoff
from lifebus._internal.connection import Connection
from lifebus._internal.following.gaps import GapGate, OnGap
from lifebus._internal.log import ClientLogger
from lifebus._internal.view import Gap, Position
from lifebus.state import State, fetch_state
from lifebus_contract import (
    BrokerBusy,
    DeadlineExceeded,
    InvalidRequest,
    LifebusError,
    Receipt,
    encode_msgpack,
)
from lifebus_contract.codes import TEMPORARY
from lifebus_contract.consumers import ConsumerGap, ConsumerInfo, ConsumerSettings
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.consumers import Ack, AckAnswer, Consume, Delivered, Fetch, FetchAnswer, Nack, Release
from lifebus_transports.messages.state import StatePage

T = TypeVar("T")
T_co = TypeVar("T_co", bound="Delivery | Gap", covariant=True)

_REFRESH_S: Final = 1.0
_FETCH_MS: Final = 5_000
_MOST: Final = 256
_MOST_POSITIONS: Final = 1024
_PAUSE_S: Final = (0.02, 2.0)
_PROMPT_S: Final = 0.02
"""A reader that asks for more so soon after an acknowledgement is taken to do so again."""
_log = ClientLogger("lifebus.consumer")


class Delivery:
    """A receipt that was delivered.  Acknowledge it when you are done; otherwise it comes again.

    `position` is its place in the ledger, `cursor` the same place with the epoch; `attempt` counts from 1.
    """

    def __init__(self, deliveries: "Deliveries[Delivery | Gap]", epoch: str, found: Delivered) -> None:
        self.receipt: Receipt = decode_recorded(found.receipt)
        self.raw = found.receipt
        self.position = found.position
        self.cursor = Position(epoch, found.position)
        self.attempt = found.attempt
        self._deliveries = deliveries

    async def ack(self) -> None:
        """Acknowledge this receipt; when this returns, it is durable.

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        await self._deliveries.ack((self,))

    async def nack(self, delay: float | None = None) -> None:
        """Have it come again, after `delay` seconds (default: a pause that grows with each try).

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        await self._deliveries.nack((self,), delay)


class Deliveries(Generic[T_co]):
    """An async iterator of `Delivery`, and of `Gap` with ``gaps="yield"``.  Use it from one task at a time.

    A gap counts as reported when the next item is asked for, but not if its handler raised an error or was cancelled.
    """

    def __init__(
        self,
        connection: Connection,
        request: Consume,
        timeout: float,
        gaps: OnGap | Literal["yield"] = "raise",
    ) -> None:
        self._connection = connection
        self._request = request
        self._settings = request.settings or ConsumerSettings()
        self._timeout = timeout
        self._ready: deque[Delivery] = deque()
        self._settled: set[Position] = set()  # what was acknowledged while the open fetch may hold it once more
        self._pending_fetch: asyncio.Future[bytes] | None = None
        self._stale: asyncio.Future[bytes] | None = None  # a fetch whose answer is of a broker that is gone
        self._arrived_at = 0.0
        self._settled_at = float("-inf")
        self._prompt = False  # whether the reader asked for more as soon as it had acknowledged
        self._lost: ConsumerGap | None = None
        self._confirmed = True  # whether the newest renewal of the lease was answered
        self._ended = False
        self._gate = GapGate(gaps)

    def __aiter__(self) -> "Deliveries[T_co]":
        return self

    async def __anext__(self) -> T_co:
        if self._ended:
            raise StopAsyncIteration
        return cast("T_co", await self._gate.next_of(self._next_item, _leave_gap))

    async def _next_item(self) -> Delivery | Gap:
        while True:
            if self._ended:
                raise StopAsyncIteration
            await self.skip_gap()
            if not self._confirmed:  # a broker that was restarted meanwhile knows nothing of what waits here
                await self._retry(self.attach)
            if self._ready and time.monotonic() < self._arrived_at + self._settings.ack_wait_ms / 1000:
                return self._ready.popleft()  # after that the broker has handed them out again
            self._prompt = time.monotonic() - self._settled_at < _PROMPT_S
            await self._fetch()
            if self._lost is not None:
                return _gap(self._lost)

    @property
    def ready(self) -> int:
        """How many deliveries have come but were not asked for yet.  At 0, acknowledge many at once."""
        return len(self._ready)

    @property
    def unseen(self) -> tuple[int, ...]:
        """The positions of deliveries that have come but were never returned."""
        positions = [one.position for one in self._ready]
        pending = self._pending_fetch
        if pending is not None and pending.done() and not pending.cancelled() and pending.exception() is None:
            positions += [found.position for found in decode_answer(pending.result(), FetchAnswer).deliveries]
        return tuple(positions)

    async def ack(self, deliveries: Iterable[Delivery | Position]) -> None:
        """Acknowledge these `deliveries`, or those at these places; when this returns, it is durable.

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        for epoch, positions in _by_message(deliveries):
            if self._prompt and not self._ready and self._lost is None:
                # Right behind the acknowledgement: the broker has both on record by one commit, and not by one after
                # the other.
                asyncio.get_running_loop().call_soon(self._ask_ahead)
            await self._settle("ack", Ack(cursor=self._request.cursor, epoch=epoch, positions=positions))
            self._drop({Position(epoch, position) for position in positions})
        self._settled_at = time.monotonic()

    async def nack(self, deliveries: Iterable[Delivery | Position], delay: float | None = None) -> None:
        """Have these `deliveries` come again, after `delay` seconds (default: a pause that grows with each try).

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        delay_ms = None if delay is None else int(delay * 1000)
        for epoch, positions in _by_message(deliveries):
            body = Nack(cursor=self._request.cursor, epoch=epoch, positions=positions, delay_ms=delay_ms)
            await self._settle("nack", body)

    async def state(self) -> State:
        """Return the state that replaces receipts which are gone; the next item comes exactly after it.

        Call it at a gap; the gap then counts as reported.  If more was dropped meanwhile, the state replaces that as
        well.

        Raises:
            LifebusError: the broker keeps no state, or another connection consumes this name now.
        """
        ask = partial(self._connection.ask, "state", answer=StatePage, timeout=self._timeout)
        state = await fetch_state(lambda body: self._retry(partial(ask, body)))
        # The state may reach further than the gap said: receipts up to it must not be applied twice.
        if self._lost is not None:
            self._lost = structs.replace(self._lost, epoch=state.epoch, until=max(state.position, self._lost.until))
        return state

    async def skip_gap(self) -> None:
        """Acknowledge the gap that came last; when this returns, it is durable.

        Asking for the next item also acknowledges it.

        Raises:
            StateConflict: another connection consumes this name now, or it was evicted.
        """
        if self._lost is not None:
            await self._skip_gap(self._lost)
        self._gate.leave(_leave_gap)

    async def aclose(self) -> None:
        """Stop consuming.  The iterator then ends."""
        self._ended = True
        if self._pending_fetch is not None:
            self._pending_fetch.cancel()

    async def attach(self, seconds: float | None = None) -> None:
        """Become the connection that consumes, or renew the lease; wait `seconds` for the answer.

        The block of `Bus.consume` does this when it begins and then each second, so programs need not call it.  After a
        restart of the broker it drops the deliveries that wait here, because the broker sends them again.

        Raises:
            LifebusError: the broker refused, or did not answer.
        """
        pending = self._pending_fetch
        try:
            info = await self._connection.ask("consume", self._request, ConsumerInfo, timeout=seconds or self._timeout)
        except LifebusError:
            self._confirmed = False
            raise
        self._confirmed, self._settings = True, info.settings
        # A broker that knows of no fetch was restarted, and will never answer ours, which was sent before this request.
        if info.fetching:
            return
        # It was restarted, gave it to somebody else, or was reset: what waits here comes again, or is settled already.
        if not info.in_flight:
            self._ready.clear()
            self._stale = pending
        if pending is not None and not pending.done():
            pending.set_exception(DeadlineExceeded("the broker was restarted"))

    async def _fetch(self) -> None:
        answer = await self._retry(self._fetch_once)
        come = (Delivery(self, answer.epoch, found) for found in answer.deliveries)
        # Handed out once more before its acknowledgement, and read only now.
        self._ready = deque(one for one in come if one.cursor not in self._settled)
        self._lost = answer.lost

    async def _fetch_once(self) -> FetchAnswer:
        """Return the answer to the open fetch; a cancelled caller leaves it open, so that nothing is lost."""
        pending = self._post_fetch()
        try:
            with anyio.fail_after(self._timeout + _FETCH_MS / 1000):
                raw = await asyncio.shield(pending)
        except (TimeoutError, LifebusError) as fault:
            self._pending_fetch = None
            pending.cancel()
            if isinstance(fault, TimeoutError):
                raise DeadlineExceeded("no answer to `fetch`") from None
            raise
        self._pending_fetch = None
        if pending is self._stale:
            raise DeadlineExceeded("the broker was restarted after it answered `fetch`")
        return decode_answer(raw, FetchAnswer)

    def _post_fetch(self) -> "asyncio.Future[bytes]":
        """Return the open fetch, of which there is one at most."""
        if self._pending_fetch is None:
            # More than may be in flight would not be delivered anyway.
            limit = min(self._settings.max_in_flight, _MOST)
            body = Fetch(cursor=self._request.cursor, limit=limit, wait_ms=_FETCH_MS)
            self._pending_fetch = self._connection.post("fetch", encode_msgpack(body))
            self._settled.clear()  # the broker knows of these before it answers this fetch
            self._pending_fetch.add_done_callback(self._note_arrival)
        return self._pending_fetch

    def _ask_ahead(self) -> None:
        with suppress(LifebusError):  # who asks for the next item hears of it
            self._post_fetch()

    def _drop(self, settled: set[Position]) -> None:
        """Forget what was acknowledged wherever it waits to be returned: an earlier try of it may have been meant."""
        self._ready = deque(one for one in self._ready if one.cursor not in settled)
        if self._pending_fetch is not None:
            self._settled |= settled

    def _note_arrival(self, pending: "asyncio.Future[bytes]") -> None:
        self._arrived_at = time.monotonic()
        if not pending.cancelled():
            pending.exception()  # retrieved: asyncio would log it where no caller is waiting

    async def _skip_gap(self, lost: ConsumerGap) -> None:
        """Acknowledge the loss to the broker."""
        self._ready.clear()
        await self._settle("ack", Ack(cursor=self._request.cursor, epoch=lost.epoch, through=lost.until))
        self._lost = None

    async def _settle(self, verb: str, body: Ack | Nack) -> None:
        try:
            await self._retry(partial(self._connection.ask, verb, body, AckAnswer, timeout=self._timeout))
        except LifebusError as fault:
            if fault.code != "epoch_changed":  # the next fetch reports the other history as a gap
                raise

    async def _retry(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the broker answers, over its restarts; full jitter spreads out many clients that ask at once."""
        backoff = Backoff(*_PAUSE_S)
        while True:
            try:
                return await ask()
            except LifebusError as fault:
                if not _is_transient(fault):
                    raise
                await backoff.wait()
                # The broker was restarted or the lease ran out: without attaching again every request fails.
                if fault.code == "detached":
                    await self._attach_again()

    async def _attach_again(self) -> None:
        try:
            await self.attach()
        except LifebusError as fault:
            if not _is_transient(fault):
                raise


@asynccontextmanager
async def consume(
    connection: Connection,
    request: Consume,
    timeout: float,  # noqa: ASYNC109  in seconds
    gaps: OnGap | Literal["yield"],
) -> AsyncGenerator[Deliveries[Delivery | Gap]]:
    """Consume under a name inside a block; at its end what was not acknowledged is given back.

    Raises:
        LifebusError: the broker refused.
    """
    if request.cursor in connection.consuming:
        raise InvalidRequest(f"this connection consumes `{request.cursor}` already", code="already_consuming")
    deliveries = Deliveries[Delivery | Gap](connection, request, timeout, gaps)
    # The task group would wrap the block's error in an ExceptionGroup that callers cannot catch by type.
    failure: Exception | None = None
    # Before the first await: two tasks must not attach under one name.
    connection.consuming.add(request.cursor)
    try:
        await deliveries.attach()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_renew_lease, deliveries)
            try:
                yield deliveries
            except Exception as fault:  # noqa: BLE001  raised again outside of the group, which would wrap it
                failure = fault
            tasks.cancel_scope.cancel()
        if failure is not None:
            raise failure
    finally:
        connection.consuming.discard(request.cursor)
        await deliveries.aclose()
        # Also when cancelled: unreleased deliveries would come again only after the acknowledgement time.
        with anyio.CancelScope(shield=True):
            await _release(connection, request.cursor, deliveries.unseen)


async def _renew_lease(deliveries: Deliveries[Delivery | Gap]) -> None:
    """Renew the lease each second; a final refusal is raised by the next fetch or acknowledgement."""
    while True:
        await anyio.sleep(_REFRESH_S)
        try:
            await deliveries.attach(_REFRESH_S)
        except LifebusError as fault:
            if not _is_transient(fault):
                return
            _log.info("lease_unanswered", code=fault.code)


async def _release(connection: Connection, cursor: str, unseen: tuple[int, ...]) -> None:
    try:
        await connection.ask("release", Release(cursor=cursor, unseen=unseen), Nothing, timeout=0.2)
    except LifebusError:
        _log.info("release_unanswered")


def _leave_gap(_: Gap) -> None:
    """Do nothing: the broker keeps the place, and is informed before the next item is asked for."""


def _is_transient(fault: LifebusError) -> bool:
    """Whether the same request may succeed later."""
    return isinstance(fault, BrokerBusy | DeadlineExceeded) or fault.code in TEMPORARY


def _by_message(deliveries: Iterable[Delivery | Position]) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield epoch and positions, as many as go into one message."""
    by_epoch: dict[str, list[int]] = {}
    for one in deliveries:
        place = one if isinstance(one, Position) else one.cursor
        by_epoch.setdefault(place.epoch, []).append(place.position)
    for epoch, positions in by_epoch.items():
        # A message has a limit; each part is durable by itself.
        for start in range(0, len(positions), _MOST_POSITIONS):
            yield epoch, tuple(positions[start : start + _MOST_POSITIONS])


def _gap(lost: ConsumerGap) -> Gap:
    until = lost.until if lost.reason == "pruned" else None
    return Gap(epoch=lost.epoch, after=lost.after, until=until, reason=lost.reason, state_at=lost.state_at)
