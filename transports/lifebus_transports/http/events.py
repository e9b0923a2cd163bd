"""Streams as server-sent events."""

from collections.abc import Callable

import anyio
import structlog
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from lifebus_contract import LifebusError
from lifebus_transports.http.following.follower import Following
from lifebus_transports.http.following.frames import (
    KEEP_ALIVE,
    ControlFrame,
    ErrorFrame,
    Trouble,
    control_event,
)
from lifebus_transports.http.following.rendering import Records, Renderer
from lifebus_transports.http.following.stream import TopicStream
from lifebus_transports.http.operations.errors import HttpRefusal
from lifebus_transports.http.requests import respond

_log = structlog.get_logger("lifebus.gateway")
_TYPE = (b"content-type", b"text/event-stream; charset=utf-8")


class EventStreams:
    """Answers `GET /api/events`."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def answer(self, request: Request) -> Response:
        """Return the answer that follows, or why there is none."""
        try:
            _, stream, first = await self._following.answer(request.scope, request.headers.get("last-event-id"))
        except HttpRefusal as refusal:
            return respond(refusal.reply)
        if request.method == "HEAD":
            return Response(headers={"Content-Type": "text/event-stream"})
        return EventResponse(self._following, stream, first)


class EventResponse(Response):
    """An answer that goes on until its client leaves, does not read, or the gateway stops."""

    def __init__(self, following: Following, stream: TopicStream, first: ControlFrame) -> None:
        super().__init__(headers={"Content-Type": "text/event-stream"})
        self._following = following
        self._stream = stream
        self._first = first
        self._abort: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream; `receive` says when its client is gone."""
        self._following.counters.streams += 1
        self._abort = scope["state"]["abort"]
        try:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_until_gone, receive, tasks.cancel_scope)
                tasks.start_soon(_until_closing, self._following.closing, tasks.cancel_scope)
                await send({"type": "http.response.start", "status": 200, "headers": [_TYPE]})
                with self._stream.following():
                    await self._send_all(send)
                tasks.cancel_scope.cancel()
        finally:
            self._following.counters.streams -= 1

    async def _send_all(self, send: Send) -> None:
        data = control_event(self._first)
        while True:
            try:
                with anyio.fail_after(self._following.send_s):
                    # What is too much for the buffers is waited for by the next piece: an empty one waits now, and
                    # a client that does not read is found out also where nothing follows.
                    for piece in (data, b""):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            except TimeoutError:
                # What is in its buffers stands before a last id that the client has: it continues there.
                self._following.counters.ended_slow += 1
                _log.info("gateway_slow_stream", kind="events")
                self._abort()
                return
            try:
                found = await self._stream.read()
            except LifebusError as fault:
                trouble = Trouble(code=fault.code or fault.failure_class.value, message=fault.detail[:512])
                frame = ErrorFrame(id=self._stream.last_id, payload=trouble)
                await send({"type": "http.response.body", "body": control_event(frame)})
                return
            data = _bytes_of(found, self._following.renderer)


def _bytes_of(found: Records | ControlFrame | None, renderer: Renderer) -> bytes:
    if found is None:
        return KEEP_ALIVE
    if not isinstance(found, Records):
        return control_event(found)
    return "".join(renderer.render(found, "events")).encode()


async def _until_gone(receive: Receive, scope: anyio.CancelScope) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    scope.cancel()


async def _until_closing(closing: anyio.Event, scope: anyio.CancelScope) -> None:
    await closing.wait()
    scope.cancel()
