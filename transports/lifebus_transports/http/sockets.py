"""Streams over WebSocket: `GET /api/stream`, and the commands of its clients."""

from typing import Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskGroup
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from lifebus_contract import LifebusError
from lifebus_transports.http.following.follower import Following
from lifebus_transports.http.following.frames import (
    Command,
    ControlFrame,
    ErrorFrame,
    PingCommand,
    PongFrame,
    SubscribeCommand,
    Trouble,
    UnsubscribeCommand,
    control_message,
)
from lifebus_transports.http.following.opening import StreamQuery, opening_of
from lifebus_transports.http.following.rendering import Form, Records
from lifebus_transports.http.following.stream import TopicStream
from lifebus_transports.http.operations.errors import HttpRefusal
from lifebus_transports.http.requests import respond

# The code of a connection whose stream cannot go on
_FAILED: Final = 1011

_log = structlog.get_logger("lifebus.gateway")
_commands: Final[msgspec.json.Decoder[Command]] = msgspec.json.Decoder(Command)


class SocketStreams:
    """Serves the connections of `GET /api/stream`."""

    def __init__(self, following: Following) -> None:
        self._following = following

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection until it ends."""
        socket = WebSocket(scope, receive, send)
        try:
            query, stream, first = await self._following.answer(scope, socket.headers.get("last-event-id"))
        except HttpRefusal as refusal:
            await socket.send_denial_response(respond(refusal.reply))
            return
        await socket.accept()
        connection = _Connection(socket, self._following, query)
        self._following.counters.streams += 1
        try:
            await connection.serve(stream, first)
        finally:
            self._following.counters.streams -= 1


class _Connection:
    """One client: what it follows now, and its commands."""

    def __init__(self, socket: WebSocket, following: Following, query: StreamQuery) -> None:
        self._socket = socket
        self._following = following
        self._query = query
        self._scope = anyio.CancelScope()
        # Answers to commands go between the messages of the stream, and a message leaves whole.
        self._sending = anyio.Lock()

    async def serve(self, stream: TopicStream, first: ControlFrame) -> None:
        """Send the stream and follow commands, until the client leaves or does not read."""
        try:
            async with anyio.create_task_group() as tasks:
                self._follow(stream, first, tasks)
                while True:
                    await self._command(await self._socket.receive(), tasks)
        except* WebSocketDisconnect:
            pass
        except* TimeoutError:
            self._following.counters.ended_slow += 1
            _log.info("gateway_slow_stream", kind="socket")
            # Its buffers are full, so that no farewell would reach it either; the last id that it has leads on.
            self._socket.scope["state"]["abort"]()

    def _follow(self, stream: TopicStream, first: ControlFrame, tasks: TaskGroup) -> None:
        """Send another stream from now on."""
        self._scope.cancel()
        self._scope = anyio.CancelScope()
        tasks.start_soon(self._send_stream, stream, first, self._scope)

    async def _send_stream(self, stream: TopicStream, first: ControlFrame, scope: anyio.CancelScope) -> None:
        with scope, stream.following():
            await self._send(control_message(first))
            while True:
                try:
                    found = await stream.read()
                except LifebusError as fault:
                    await self._trouble(fault.code or "internal_error", fault.detail, stream.last_id)
                    await self._socket.close(_FAILED)
                    return
                # A connection that is idle is kept alive by pings.
                if isinstance(found, Records):
                    await self._send_records(found)
                elif found is not None:
                    await self._send(control_message(found))

    async def _send_records(self, records: Records) -> None:
        form: Form = "batch" if self._query.batch else "frames"
        for message in self._following.renderer.render(records, form):
            await self._send(message)

    async def _command(self, message: Message, tasks: TaskGroup) -> None:
        """Do what a client asks.

        Raises:
            WebSocketDisconnect: it is gone.
        """
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", 1005))
        try:
            command = _commands.decode(message.get("text") or b"")
            match command:
                case PingCommand():
                    await self._send(control_message(PongFrame()))
                case UnsubscribeCommand():
                    self._scope.cancel()
                case SubscribeCommand():
                    await self._subscribe(command, tasks)
        except LifebusError as fault:
            await self._trouble(fault.code or "internal_error", fault.detail)
        except (ValueError, RecursionError) as fault:
            await self._trouble("invalid_request", str(fault))

    async def _subscribe(self, command: SubscribeCommand, tasks: TaskGroup) -> None:
        query = msgspec.structs.replace(
            self._query,
            topic=command.topics,
            thread_id=command.thread_id,
            last_event_id=command.last_event_id,
            begin=command.begin or self._query.begin,
        )
        stream, first = await self._following.open(opening_of(query, None))
        self._follow(stream, first, tasks)

    async def _trouble(self, code: str, message: str, last_id: str | None = None) -> None:
        await self._send(control_message(ErrorFrame(id=last_id, payload=Trouble(code=code, message=message[:512]))))

    async def _send(self, message: str) -> None:
        """Send one message.

        Raises:
            TimeoutError: the client does not read.
            WebSocketDisconnect: it is gone.
        """
        with anyio.fail_after(self._following.send_s):
            async with self._sending:
                await self._socket.send({"type": "websocket.send", "text": message})
