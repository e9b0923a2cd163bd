"""The connections of the gateway: what strangers can keep open, and what one client can have the broker keep."""

import asyncio
from typing import Any, Final

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.frames import CloseCode, Frame

HEADER_S: Final = 5.0
"""How long a client may take to say what it wants, and to end what nobody reads."""

MAX_FRAGMENTS: Final = 1_024
"""Into how many frames a message may be cut."""


class PlainConnection(H11Protocol):
    """A connection that has to say what it wants soon, each time, of which there are only so many."""

    max_connections = 1_024
    read_s = 20.0
    """How long a client may leave an answer unread; streams end before that, and say so in the log."""

    def __init__(
        self, config: Any, server_state: Any, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        # Handlers end the connection of a client that does not read by this: a farewell would wait for it, too.
        super().__init__(config, server_state, {**app_state, "abort": self._abort}, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # pyright: ignore[reportIncompatibleMethodOverride]
        """Take a connection, if there is room."""
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=65_536)
        if len(self.connections) > self.max_connections:
            transport.abort()
            return
        self._begin_deadline()

    def handle_events(self) -> None:
        """Take what came; each request has a deadline of its own for its header."""
        before = self.cycle
        super().handle_events()
        is_unfinished = self._is_unfinished()
        if self.cycle is not before or not is_unfinished:
            self._end_deadline()
        # Any byte ends uvicorn's own time limit between two requests: a client could go on for ever, byte by byte.
        if is_unfinished and self._deadline is None:
            self._begin_deadline()

    def handle_websocket_upgrade(self, event: Any) -> None:
        """Go on as a WebSocket."""
        self._end_deadline()
        super().handle_websocket_upgrade(event)

    def pause_writing(self) -> None:
        """Wait until the client reads, but not for ever."""
        super().pause_writing()
        self._end_unread()
        self._unread = self.loop.call_later(self.read_s, self._abort)

    def resume_writing(self) -> None:
        """Go on."""
        self._end_unread()
        super().resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """End the deadlines with the connection."""
        self._end_deadline()
        self._end_unread()
        super().connection_lost(exc)

    def _is_unfinished(self) -> bool:
        """Whether a request has begun whose header is not whole, or has a body still that was answered already."""
        if self.conn.their_state is h11.IDLE:
            return bool(self.conn.trailing_data[0])
        return self.conn.our_state is h11.DONE and self.conn.their_state is h11.SEND_BODY

    def _begin_deadline(self) -> None:
        self._deadline = self.loop.call_later(HEADER_S, self._check_header)

    def _check_header(self) -> None:
        """End a connection that did not say in time what it wants."""
        self._deadline = None
        self._abort()

    def _end_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _end_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _abort(self) -> None:
        self.transport.abort()


class SocketConnection(WebSocketsSansIOProtocol):
    """A WebSocket whose client cannot have more kept for it than its buffers."""

    _fragments = 0

    def handle_ping(self) -> None:
        """Answer a ping, unless the client does not read: then it is answered the next one."""
        if self.writable.is_set():
            super().handle_ping()
        else:
            # The answer is made already; it would stay in a buffer that has no bound.
            self.conn.data_to_send()

    def handle_cont(self, event: Frame) -> None:
        """Take a part of a message: how many bytes it has is bounded elsewhere, here how many parts."""
        self._fragments = 0 if event.fin else self._fragments + 1
        if self._fragments <= MAX_FRAGMENTS:
            super().handle_cont(event)
        elif not self.close_sent:
            self.conn.fail(CloseCode.MESSAGE_TOO_BIG, "too many fragments")
            self.handle_parser_exception()
