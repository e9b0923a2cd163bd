"""The line server: a Unix socket where each connection brings one request as a line of JSON, and takes its answer.

See docs/wire-protocol.md, "The line socket".  It is for programs that ask once and end: loading ZeroMQ and MessagePack
would take them longer than the answer.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import msgspec
import structlog
from anyio.abc import TaskStatus
from msgspec import Struct

from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError
from lifebus_contract.fields import Document
from lifebus_transports.framing.frames import decode_body
from lifebus_transports.framing.json_lines import (
    MAX_LINE,
    LineRequest,
    UnreadableLine,
    decode_request,
    encode_answer,
    encode_body,
    encode_refusal,
)
from lifebus_transports.framing.lines import LineFramer, Overlong
from lifebus_transports.hooks.connections import PeerConnection, serve_connections
from lifebus_transports.hooks.peer import is_same_user
from lifebus_transports.messages.verb_types import Access, Verb
from lifebus_transports.messages.verbs import find_verb

CallVerb = Callable[[str, Document], Awaitable[Any]]
"""Returns the answer to a verb with a decoded body, or raises the `LifebusError` that refuses it."""

_FOR_CONNECTIONS: Final = frozenset({Access.WORKER, Access.CONSUMER})

_log = structlog.get_logger("lifebus.line_server")


class LineServerLimits(Struct, frozen=True, kw_only=True):
    """What one request may take: seconds to send it and to take its answer; and how many are under way at once."""

    read_s: float = 2.0
    send_s: float = 2.0
    at_once: int = 64


async def serve_lines(
    path: Path,
    call: CallVerb,
    *,
    limits: LineServerLimits | None = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve one request a connection at the socket `path` (0600) until cancelled.

    The caller holds the runtime directory's lock and has removed a stale socket: binding would steal a live one.

    Raises:
        LifebusError: `socket_path_too_long`.
        OSError: the socket cannot be bound.
    """
    server = _LineServer(call, limits or LineServerLimits())
    await serve_connections(path, server.receive, server.count_starved, task_status=task_status)


class _LineServer:
    def __init__(self, call: CallVerb, limits: LineServerLimits) -> None:
        self._call, self._limits = call, limits
        self._in_hand = self._strangers = self._starved = 0

    async def receive(self, connection: PeerConnection) -> None:
        """Serve one connection from accept to close."""
        with connection:
            if not is_same_user(connection.raw):
                self._refuse_stranger()
                return
            # Refused and not queued: whoever asks in a loop must not keep others waiting.
            if self._in_hand >= self._limits.at_once:
                busy = BrokerBusy("too many requests are under way; try again")
                await connection.send(encode_refusal(None, busy), self._limits.send_s)
                return
            self._in_hand += 1
            try:
                line = await self._read(connection)
                if line is not None:
                    await connection.send(await self._answer(line), self._limits.send_s)
            finally:
                self._in_hand -= 1

    def count_starved(self) -> None:
        """Note that a connection could not be taken, because there was no descriptor for it."""
        self._starved += 1
        _log_rarely("line_starved", self._starved)

    def _refuse_stranger(self) -> None:
        self._strangers += 1
        _log_rarely("line_peer_refused", self._strangers)

    async def _read(self, connection: PeerConnection) -> bytes | Overlong | None:
        """Return the line, or None when the peer ends or stalls before its end."""
        lines = LineFramer(MAX_LINE)
        with anyio.move_on_after(self._limits.read_s):
            while data := await connection.receive():
                if found := lines.feed(data):
                    return found[0]
                if lines.is_overlong:
                    return Overlong(MAX_LINE + 1)
        return None

    async def _answer(self, line: bytes | Overlong) -> bytes:
        request = decode_request(line)
        if isinstance(request, UnreadableLine):
            return encode_refusal(request.id, request.fault)
        try:
            verb = _single(request)
            answer = await self._call(verb.name, decode_body(encode_body(verb, request.body), verb.body))
            return encode_answer(request.id, msgspec.to_builtins(answer, builtin_types=(bytes,), order="deterministic"))
        except LifebusError as fault:
            return encode_refusal(request.id, fault)
        except Exception:  # noqa: BLE001  a defect of ours costs this call, not everybody's broker
            _log.exception("line_failed", verb=request.verb)
            return encode_refusal(request.id, InternalError("the broker failed on this request; see its log"))


def _log_rarely(event: str, count: int) -> None:
    # Powers of two: the first is seen at once, and a flood costs a few lines.
    if count & (count - 1) == 0:
        _log.warning(event, count=count)


def _single(request: LineRequest) -> Verb:
    """Return the verb of a request that one answer ends.

    Raises:
        InvalidRequest: there is no such verb, or it belongs to a connection that stays.
    """
    verb = find_verb(request.verb)
    if verb.stream is not None or verb.answer is None or verb.access in _FOR_CONNECTIONS:
        raise InvalidRequest(f"`{verb.name}` is for connections that stay; use requests.ipc", code="unknown_verb")
    return verb
