"""The hook server: a Unix socket where each connection brings one hook call and takes its answer.

See docs/wire-protocol.md, "The hook socket".

The server never parses a payload.  Whatever it does not answer whole, the hook puts into the spool: so a busy server
says `busy` and loses nothing.  A late answer is given up, never the call: its handling goes on, in the server's own
scope, and keeps its place among the calls that are allowed at once.  A call whose hook has gone before it was read (the
broker was stopped for a while) counts as spooled, because nothing can be delivered to it.
"""

import asyncio
import select
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import anyio
import structlog
from anyio.abc import TaskStatus
from msgspec import Struct, structs

from lifebus_adapters.adapter import CallerProcess, HookAnswer, HookCall
from lifebus_contract import BrokerBusy, InvalidRequest
from lifebus_transports.framing.hook_frames import BUSY, CallMessage, CallReader, encode_answer
from lifebus_transports.hooks.connections import PeerConnection, serve_connections
from lifebus_transports.hooks.peer import PeerSocket, is_same_user, peer_pid

HandleCall = Callable[[HookCall], Awaitable[HookAnswer]]
"""Turns one hook call into its answer; raises `BrokerBusy` when the hook had better spool the call."""

OnAnswered = Callable[[HookCall, bool], None]
"""Takes whether the answer that a call's handler returned was sent in time, to a hook that was still there."""

CallerOf = Callable[[int, int | None], CallerProcess | None]
"""Turns the process id that a call claims, and the one the kernel names, into the harness's process."""

_EMPTY: Final = encode_answer(HookAnswer())
_SEND_S: Final = 1.0
"""How long a peer may take to read its answer."""

_log: Final = structlog.get_logger("lifebus.hook_server")


class HookServerLimits(Struct, frozen=True, kw_only=True):
    """What one call may take: seconds to send it, to answer it and to handle it; and how many are taken at once.

    `answer_s` lies below the 0.24 s that the hook waits; what is answered later would be spooled and come twice.
    """

    read_s: float = 2.0
    answer_s: float = 0.22
    handle_s: float = 4.0
    at_once: int = 64


class HookServerCounters(Struct, kw_only=True):
    """What came to the server since it began.

    `calls` were handled; of these `late` were answered empty, `failed` raised, `gone` had no peer left to answer and
    `oversized` had a payload over the limit.  The others were not handled: `refused` came from another user, `busy`
    found no free place, `malformed` broke the protocol, `cut_off` ended or stalled in the middle.  `starved` counts how
    often a connection could not even be taken, because the process or the system had no descriptor left.
    """

    calls: int = 0
    late: int = 0
    failed: int = 0
    gone: int = 0
    refused: int = 0
    busy: int = 0
    malformed: int = 0
    cut_off: int = 0
    oversized: int = 0
    starved: int = 0


async def serve_hooks(
    path: Path,
    handle: HandleCall,
    *,
    limits: HookServerLimits | None = None,
    counters: HookServerCounters | None = None,
    caller_of: CallerOf | None = None,
    on_answered: OnAnswered | None = None,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve hook calls at the socket `path` (0600) until cancelled; calls in hand are then still answered.

    `caller_of` is called while the caller waits, so that the process it names is still there.  `on_answered` is called
    once for each call that was handled.
    The caller holds the runtime directory's lock and has removed a stale socket: binding would steal a live one.

    Raises:
        LifebusError: `socket_path_too_long`.
        OSError: the socket cannot be bound.
    """
    limits, counters = limits or HookServerLimits(), counters or HookServerCounters()
    server = _HookServer(handle, limits, counters, caller_of or _nobody, on_answered or _ignore)
    await serve_connections(path, server.receive, server.count_starved, task_status=task_status)


class _HookServer:
    """One server's limits and counters, and the connections that it has in hand."""

    def __init__(
        self,
        handle: HandleCall,
        limits: HookServerLimits,
        counters: HookServerCounters,
        caller_of: CallerOf,
        on_answered: OnAnswered,
    ) -> None:
        self._handle = handle
        self._on_answered = on_answered
        self._caller_of = caller_of
        self._limits = limits
        self._counters = counters
        self._in_hand = 0

    def count_starved(self) -> None:
        """Note that a connection could not be taken; its hook spools in the end."""
        self._count("starved")

    async def receive(self, connection: PeerConnection) -> None:
        """Serve one connection from accept to close."""
        with connection:
            if not is_same_user(connection.raw):
                self._count("refused")
                return
            # Answered and not queued: the hook spools the call, and nothing waits beyond its deadline.
            if self._in_hand >= self._limits.at_once:
                self._count("busy")
                await connection.send(BUSY, _SEND_S)
                return
            self._in_hand += 1
            try:
                await self._serve(connection)
            finally:
                self._in_hand -= 1

    async def _serve(self, connection: PeerConnection) -> None:
        try:
            message = await self._read(connection)
        except InvalidRequest as fault:
            self._count("malformed", code=fault.code)
            await connection.send(_EMPTY, _SEND_S)
            return
        if message is None:
            self._count("cut_off")
            return
        if message.header.oversized is not None:
            self._count("oversized", adapter=message.header.adapter, size=message.header.oversized)
        await self._answer(connection, self._call(message, connection.raw))

    def _call(self, message: CallMessage, connection: PeerSocket) -> HookCall:
        """Return the call with what only the connection shows: whose it is, and whether its hook still waits."""
        call, pid = message.call, message.header.pid
        if call.spooled_at_epoch_s is not None:
            return call
        if _has_gone(connection):
            self._count("gone", call_id=call.call_id)
            return structs.replace(call, spooled_at_epoch_s=int(time.time()))
        return call if pid is None else structs.replace(call, process=self._caller_of(pid, peer_pid(connection)))

    async def _read(self, connection: PeerConnection) -> CallMessage | None:
        """Return the message, or None when the peer ends or stalls in the middle of it."""
        reader = CallReader()
        with anyio.move_on_after(self._limits.read_s):
            while data := await connection.receive():
                if (message := reader.feed(data)) is not None:
                    return message
        return None

    async def _answer(self, connection: PeerConnection, call: HookCall) -> None:
        """Have the call handled, and answer in time, with or without the result."""
        taken = False

        def give_up() -> None:
            # The hook gives up a little later and would spool the call that is being handled here.
            self._count("late", call_id=call.call_id)
            connection.send_now(memoryview(_EMPTY))
            connection.close()

        self._counters.calls += 1
        late = asyncio.get_running_loop().call_later(self._limits.answer_s, give_up)
        # Shielded: a call that was taken is recorded, even while the broker stops.
        with anyio.move_on_after(self._limits.handle_s, shield=True) as scope:
            try:
                answer = await self._handled(call)
            finally:
                late.cancel()
            if connection.is_open:
                taken = await connection.send(answer or _EMPTY, _SEND_S) and answer is not None
                connection.close()
        if scope.cancelled_caught:
            self._count("failed", call_id=call.call_id, error="deadline")
        # Behind the handler: what a late one promised is known only then.
        self._on_answered(call, taken)

    async def _handled(self, call: HookCall) -> bytes | None:
        """Return the handler's answer, None where it has none to give."""
        try:
            return encode_answer(await self._handle(call))
        except BrokerBusy:
            self._count("busy")
            return BUSY
        except Exception as fault:  # noqa: BLE001  a broken handler must not take the server down
            self._count("failed", call_id=call.call_id, error=type(fault).__name__)
            return None

    def _count(self, what: str, **facts: object) -> None:
        """Count a mishap; log the 1st, 2nd, 4th, 8th … of a kind, and never what a peer sent unchecked."""
        count: int = getattr(self._counters, what) + 1
        setattr(self._counters, what, count)
        # Powers of two: the first is seen at once, and a flood costs a few lines.
        if count & (count - 1) == 0:
            _log.warning(f"hook_{what}", count=count, **facts)


def _nobody(_claimed: int, _peer: int | None) -> None:
    """Know no process."""


def _ignore(_call: HookCall, _taken: bool) -> None:
    """Do nothing."""


def _has_gone(connection: PeerSocket) -> bool:
    """Whether the peer has closed its end; one that has only finished sending still waits for its answer.

    Only Linux distinguishes the two.
    """
    if sys.platform != "linux":
        return False
    poll = select.poll()
    poll.register(connection.fileno(), 0)
    return any(event & select.POLLHUP for _, event in poll.poll(0))
