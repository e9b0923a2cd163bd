"""The client library: emit, negotiate, serve, follow.

Above: users, the command line, the blocking facade.  Below: connection, subscription, worker.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from pathlib import Path
from typing import overload

import anyio
import zmq
from msgspec import Struct

from lifebus.connection import Connection
from lifebus.requests import tick_request
from lifebus.subscription import Subscription
from lifebus.view import Cursor
from lifebus.worker import Handler, serve
from lifebus_contract import (
    AdapterManifest,
    BrokerBusy,
    CallbackRequest,
    CapabilityRequest,
    DeadlineExceeded,
    Emission,
    InvalidRequest,
    LifebusError,
    LifecycleEvent,
    Negotiation,
    Receipt,
    TransportError,
    decode_msgpack,
    encode_msgpack,
)
from lifebus_contract.codec import decode_receipt
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.directories import default_runtime_dir
from lifebus_transports.messages import (
    Backfill,
    BackfillPage,
    BrokerStatus,
    ClientInfo,
    DeliveredPayload,
    Emit,
    EmitAnswer,
    EmitResult,
    Negotiate,
    Nothing,
    Serve,
    SessionInfo,
    SessionsAsk,
)

__all__ = ["Bus", "Emitted", "connect"]

_BATCH = 64
_ATTEMPT_S = 1.0
_PAUSE_S = (0.05, 1.0)


class Emitted(Struct, frozen=True, kw_only=True):
    """What became of one emission: its receipts with their positions, or the refusal.

    `replayed` says that the receipts were there before, under the same idempotency key.  `deliveries` are the
    payloads that the emitter is to deliver to its harness.
    """

    receipts: tuple[Receipt, ...] = ()
    positions: tuple[int, ...] = ()
    replayed: bool = False
    deliveries: tuple[DeliveredPayload, ...] = ()
    refusal: LifebusError | None = None


class Bus:
    """A connection to a broker.  Made by `connect`; safe for many tasks of one event loop at once."""

    def __init__(self, connection: Connection, client_id: str, timeout: float) -> None:
        self.client_id = client_id
        self.timeout = timeout
        self._connection = connection
        self._outbox: list[tuple[Emission, asyncio.Future[EmitResult]]] = []

    @overload
    async def emit(self, emission: Emission | CallbackRequest, /) -> Emitted: ...
    @overload
    async def emit(self, emission: Sequence[Emission | CallbackRequest], /) -> list[Emitted]: ...
    async def emit(
        self, emission: Emission | CallbackRequest | Sequence[Emission | CallbackRequest], /
    ) -> Emitted | list[Emitted]:
        """Record one lifecycle moment, or several in order, and return when it is durable.

        Callers of the same tick share one message.  Where every emission carries an idempotency key, silence and
        "busy" are met by asking again with the same key until the timeout, which cannot record anything twice.

        Raises:
            LifebusError: one emission was refused, or no answer came.  In a list a refusal stands in its place.
        """
        if isinstance(emission, Emission | CallbackRequest):
            result = (await self._record([_emission(emission)]))[0]
            if result.refusal is not None:
                raise result.refusal
            return result
        return await self._record([_emission(one) for one in emission])

    async def tick(self, adapter_id: str, *, adapter_version: str = "0.1.0", session: str | None = None) -> Emitted:
        """Drive one supervisor tick; it always gets a stored receipt (design 3.12).

        Raises:
            LifebusError: the tick was refused, or no answer came.
        """
        return await self.emit(tick_request(adapter_id, adapter_version, session))

    async def negotiate(self, adapter_id: str, requirements: Iterable[CapabilityRequest]) -> Negotiation:
        """Return what the adapter would give for these requirements; nothing is dispatched or recorded.

        Raises:
            AdapterUnavailable: no such adapter.
        """
        body = Negotiate(adapter_id=adapter_id, requirements=tuple(requirements))
        return await self._connection.ask("negotiate", body, Negotiation, timeout=self.timeout)

    async def serve(
        self,
        events: Iterable[LifecycleEvent | str],
        handler: Handler,
        *,
        adapters: Iterable[str] = (),
        requirements: Iterable[CapabilityRequest] = (),
        deadline: float = 2.0,
        client_id: str | None = None,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        """Be a callback client until cancelled: `handler` gets each dispatch and returns the response.

        `deadline` is in seconds, counted by the broker.  `on_ready` is called when the broker has registered the
        client.  Registration survives a broker restart.

        Raises:
            LifebusError: the broker refused the registration.
        """
        registration = Serve(
            client_id=client_id or self.client_id,
            events=tuple(LifecycleEvent(event) for event in events),
            adapters=tuple(adapters),
            requirements=tuple(requirements),
            deadline_ms=int(deadline * 1000),
        )
        await serve(self._connection, registration, handler, on_ready or _nothing)

    def receipts(
        self,
        *,
        session: tuple[str, str] | None = None,
        since: "Cursor | int | datetime | str | None" = None,
        where: Callable[[Receipt], bool] | None = None,
        until_head: bool = False,
    ) -> Subscription:
        """Follow receipts: an async iterator of `Receipt` and, where history is gone, `Gap`.

        `session` is (adapter_id, harness_session_id).  `since` is a cursor, a position, a time, ``"start"``, or None
        for what comes from now on.  `until_head` ends the iteration at the newest receipt instead of waiting.
        """
        return Subscription(
            self._connection, session=session, since=since, where=where, until_head=until_head, timeout=self.timeout
        )

    async def read(self, query: Backfill) -> BackfillPage:
        """Return one page of recorded receipts.

        Raises:
            BrokerBusy: too many reads are under way.
        """
        return await self._connection.ask("backfill", query, BackfillPage, timeout=self.timeout)

    async def sessions(self, session: tuple[str, str] | None = None) -> list[SessionInfo]:
        """Return what the ledger knows of all sessions, or of one."""
        return await self._connection.ask(
            "sessions", SessionsAsk(session=session), list[SessionInfo], timeout=self.timeout
        )

    async def clients(self) -> list[ClientInfo]:
        """Return the callback clients that are registered now."""
        return await self._connection.ask("clients", Nothing(), list[ClientInfo], timeout=self.timeout)

    async def manifests(self) -> list[AdapterManifest]:
        """Return the manifests of the running broker."""
        return await self._connection.ask("manifests", Nothing(), list[AdapterManifest], timeout=self.timeout)

    async def status(self) -> BrokerStatus:
        """Return how the broker and its ledger are."""
        return await self._connection.ask("status", Nothing(), BrokerStatus, timeout=self.timeout)

    async def _record(self, emissions: Sequence[Emission]) -> list[Emitted]:
        keyed = all(one.request.idempotency_key for one in emissions)
        deadline = anyio.current_time() + self.timeout
        pause = _PAUSE_S[0]
        while True:
            left = deadline - anyio.current_time()
            try:
                results = await self._attempt(emissions, min(_ATTEMPT_S, left) if keyed else left)
            except (DeadlineExceeded, BrokerBusy) as fault:
                left = deadline - anyio.current_time()
                if left <= 0 or not (keyed or isinstance(fault, BrokerBusy)):
                    raise
                await anyio.sleep(min(left, random.uniform(0, pause)))  # noqa: S311  full jitter, not a secret
                pause = min(pause * 2, _PAUSE_S[1])
            else:
                return [_emitted(result) for result in results]

    async def _attempt(self, emissions: Sequence[Emission], wait: float) -> list[EmitResult]:
        futures = [self._queue(emission) for emission in emissions]
        try:
            with anyio.fail_after(max(wait, 0.001)):
                results = [await future for future in futures]
        except TimeoutError:
            raise DeadlineExceeded(f"no acknowledgement within {wait:g} s; it may be recorded") from None
        finally:
            for future in futures:
                future.cancel()
        if results[0].refusal is not None and results[0].refusal.code == "busy":
            raise results[0].refusal.error()
        return results

    def _queue(self, emission: Emission) -> "asyncio.Future[EmitResult]":
        """Put an emission into the message of this tick."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[EmitResult] = loop.create_future()
        if not self._outbox:
            loop.call_soon(self._flush)
        self._outbox.append((emission, future))
        return future

    def _flush(self) -> None:
        waiting, self._outbox = self._outbox, []
        for start in range(0, len(waiting), _BATCH):
            self._send([item for item in waiting[start : start + _BATCH] if not item[1].done()])

    def _send(self, batch: list[tuple[Emission, "asyncio.Future[EmitResult]"]]) -> None:
        """Send one message; split it when it is over the limit, so that one large payload hurts no neighbour."""
        if not batch:
            return
        body = Emit(client_id=self.client_id, emissions=tuple(emission for emission, _ in batch))
        try:
            if len(encode_msgpack(body)) > MAX_MESSAGE_BYTES:
                if len(batch) == 1:
                    raise InvalidRequest(f"an emission may take {MAX_MESSAGE_BYTES} bytes", code="too_large")
                middle = len(batch) // 2
                self._send(batch[:middle])
                self._send(batch[middle:])
                return
            _, answer = self._connection.post("emit", body)
        except LifebusError as fault:
            _fail(batch, fault)
            return
        answer.add_done_callback(lambda done: _settle(batch, done))


@asynccontextmanager
async def connect(
    client_id: str = "lifebus-python",
    *,
    runtime_dir: str | Path | None = None,
    timeout: float = 5.0,  # noqa: ASYNC109  the default deadline of every call on the bus
) -> AsyncIterator[Bus]:
    """Connect to the broker of this user and yield a `Bus`.

    `client_id` is the stable label under which idempotency keys are scoped.  `timeout` bounds every call, in seconds.

    Raises:
        TransportError: no broker answers at `runtime_dir`.
    """
    directory = Path(runtime_dir) if runtime_dir else default_runtime_dir()
    if not (directory / "requests.ipc").exists():
        raise TransportError(f"no broker at {directory}; start one with `lifebus up`", code="no_broker")
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    connection = Connection(context, directory)
    try:
        try:
            await connection.ask("ping", Nothing(), Nothing, timeout=timeout)
        except DeadlineExceeded:
            raise TransportError(f"the broker at {directory} does not answer", code="no_broker") from None
        yield Bus(connection, client_id, timeout)
    finally:
        connection.close()
        context.destroy(linger=200)


def _emission(what: Emission | CallbackRequest) -> Emission:
    return what if isinstance(what, Emission) else Emission(request=what)


def _emitted(result: EmitResult) -> Emitted:
    return Emitted(
        receipts=tuple(decode_receipt(raw) for raw in result.receipts),
        positions=result.positions,
        replayed=result.replayed,
        deliveries=result.deliveries,
        refusal=result.refusal.error() if result.refusal else None,
    )


def _settle(batch: list[tuple[Emission, "asyncio.Future[EmitResult]"]], answer: "asyncio.Future[bytes]") -> None:
    """Give every caller of a message its own result."""
    if answer.cancelled():
        _fail(batch, TransportError("the connection was closed before the answer came"))
        return
    fault = answer.exception()
    if fault is not None:
        _fail(batch, fault)
        return
    results = decode_msgpack(answer.result(), EmitAnswer).results
    for (_, future), result in zip(batch, results, strict=True):
        if not future.done():
            future.set_result(result)


def _fail(batch: list[tuple[Emission, "asyncio.Future[EmitResult]"]], fault: BaseException) -> None:
    for _, future in batch:
        if not future.done():
            future.set_exception(fault)


def _nothing() -> None:
    """Do nothing."""
