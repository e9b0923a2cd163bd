"""Unix sockets where each connection brings one message and takes one answer: listen, accept, receive, send.

Plain sockets instead of anyio's streams: making a stream takes longer than all else that a server does with a hook.
"""

import asyncio
import errno
import socket
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import anyio
from anyio.abc import TaskGroup, TaskStatus

from lifebus_transports.runtime_dir import check_socket_path

_CHUNK: Final = 65_536
_BACKLOG: Final = 65_536
"""Connections that wait to be accepted; the kernel bounds them further."""

_PASSING: Final = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED)
_STARVED_S: Final = 0.1


class PeerConnection:
    """An accepted connection; a `with` block closes it."""

    def __init__(self, raw: socket.socket) -> None:
        raw.setblocking(False)
        self.raw = raw

    @property
    def is_open(self) -> bool:
        """Whether it was not closed on this side."""
        return self.raw.fileno() >= 0

    async def receive(self) -> bytes:
        """Return what has come, waiting for some; nothing at the end, or where the peer is gone."""
        while True:
            try:
                return self.raw.recv(_CHUNK)
            except BlockingIOError:
                await anyio.wait_readable(self.raw)
            except OSError:
                return b""

    async def send(self, message: bytes, patience_s: float) -> bool:
        """Send to a peer that may be gone, or may never read; return whether it was there to take the message."""
        rest = self.send_now(memoryview(message))
        if rest:  # rare; a deadline for what is sent at once would take longer than to send it
            with anyio.move_on_after(patience_s):
                while rest:
                    await anyio.wait_writable(self.raw)
                    rest = self.send_now(rest)
        return rest is not None and not rest

    def send_now(self, message: memoryview) -> memoryview | None:
        """Send what the socket takes at once; return the rest, None where the peer is gone."""
        try:
            return message[self.raw.send(message) :]
        except BlockingIOError:
            return message
        except OSError:
            return None

    def close(self) -> None:
        """Close it; once more does nothing."""
        self.raw.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


ServeConnection = Callable[[PeerConnection], Coroutine[Any, Any, None]]
"""Serves one connection, and closes it."""


async def serve_connections(
    path: Path,
    serve: ServeConnection,
    starved: Callable[[], None],
    *,
    task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Listen at `path` (0600) until cancelled, and have each connection served in a task of its own.

    While there is no descriptor for one, it waits, and `starved` is called.
    The caller holds the runtime directory's lock: a socket that is there already is replaced, a live one, too.

    Raises:
        LifebusError: `socket_path_too_long`.
        OSError: the socket cannot be bound, or connections cannot be accepted any more.
    """
    with _listen(check_socket_path(path)) as listener:
        async with anyio.create_task_group() as tasks:
            with _Acceptor(listener, tasks, serve, starved) as acceptor:
                task_status.started()
                await acceptor.failed


def _listen(path: Path) -> socket.socket:
    """Return a socket that listens at a path, for its owner only from the first connection on."""
    if path.is_socket():
        path.unlink()
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(str(path))
        path.chmod(0o600)
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


class _Acceptor:
    """Accepts inside a `with` block; `failed` is done by an error that does not pass."""

    def __init__(
        self,
        listener: socket.socket,
        tasks: TaskGroup,
        serve: ServeConnection,
        starved: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self.failed: asyncio.Future[None] = self._loop.create_future()
        self._listener, self._tasks, self._serve, self._starved = listener, tasks, serve, starved
        self._again: asyncio.TimerHandle | None = None

    def __enter__(self) -> Self:
        self._resume()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.remove_reader(self._listener)
        if self._again is not None:
            self._again.cancel()

    def _resume(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        """Accept one connection; a further one is accepted in the next turn of the loop."""
        try:
            raw, _ = self._listener.accept()
        except BlockingIOError:  # it is gone again
            return
        except OSError as fault:
            self._loop.remove_reader(self._listener)
            # Out of descriptors is a state that passes; any other error here would come again at once.
            if fault.errno in _PASSING:
                self._starved()
                self._again = self._loop.call_later(_STARVED_S, self._resume)
            elif not self.failed.done():
                self.failed.set_exception(fault)
            return
        self._tasks.start_soon(self._serve, PeerConnection(raw))
