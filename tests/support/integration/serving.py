"""What the tests of workers share: serve inside a block, and a worker that can be made to vanish."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from typing import Any

import zmq

import lifebus
from lifebus._internal.connection import Connection
from lifebus_contract import CallbackResponse, DispatchEnvelope, LifecycleEvent
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.workers import Serve
from support.patience import PATIENCE_S

EVENT = LifecycleEvent.SESSION_STARTED
Handler = Callable[[DispatchEnvelope], Awaitable[CallbackResponse]]


@asynccontextmanager
async def serving(
    bus: lifebus.Bus, handler: Handler, events: Iterable[str] = (EVENT,), **options: Any
) -> AsyncIterator["asyncio.Task[None]"]:
    """Serve inside a block; the broker has the client when it begins, and waits for answers as long as a test does."""
    ready = asyncio.Event()
    options = {"deadline": PATIENCE_S, "on_ready": ready.set, **options}
    worker = asyncio.ensure_future(bus.serve(events, handler, **options))
    try:
        async with asyncio.timeout(PATIENCE_S):
            await ready.wait()
        yield worker
    finally:
        worker.cancel()
        await asyncio.gather(worker, return_exceptions=True)


async def content(_: DispatchEnvelope) -> CallbackResponse:
    """A client that is content with everything."""
    return CallbackResponse.ok()


class SilentWorker:
    """A worker that takes dispatches, never answers, and can vanish without a goodbye."""

    def __init__(self, daemon: Daemon) -> None:
        self.dispatched = asyncio.Event()
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._connection = Connection(self._context, daemon.settings.runtime_dir)
        self._connection.on_push = lambda *_: self.dispatched.set()

    async def register(self, client_id: str, *events: LifecycleEvent, deadline_ms: int = 60_000) -> None:
        registration = Serve(client_id=client_id, events=events or (EVENT,), deadline_ms=deadline_ms)
        await self._connection.ask("serve", registration, Nothing, timeout=PATIENCE_S)

    def vanish(self) -> None:
        self._connection.close()
        self._context.destroy(linger=0)


@asynccontextmanager
async def silent_worker(daemon: Daemon) -> AsyncIterator[SilentWorker]:
    worker = SilentWorker(daemon)
    try:
        yield worker
    finally:
        worker.vanish()
