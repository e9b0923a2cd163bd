"""The channel between a shim and its owner, as the shim has it: its end is the owner's end."""

import contextlib
import select
import socket
from typing import Any, Final, cast

from lifebus_transports.shims.messages import ShimCommand, Unpacker, pack

_CHUNK: Final = 65_536


class OwnerChannel:
    """Messages from and to the owner; `descriptor` is -1 once the owner is gone."""

    def __init__(self, descriptor: int) -> None:
        self._socket = socket.socket(fileno=descriptor)
        self._messages = Unpacker()
        self._received: list[dict[str, Any]] = []

    @property
    def descriptor(self) -> int:
        """What is readable when something came."""
        return self._socket.fileno()

    @property
    def is_open(self) -> bool:
        """Whether the owner is there."""
        return self._socket.fileno() >= 0

    def next_command(self) -> ShimCommand | None:
        """Wait for the next command and return it; None when the owner is gone."""
        while True:
            while self._received:
                message = self._received.pop(0)
                # A request to end that came too late is about a command that has ended.
                if "argv" in message:
                    return cast("ShimCommand", message)
            if not self.is_open:
                return None
            self._received = self._read()

    def receive(self) -> list[dict[str, Any]]:
        """Return what has come since the command; waits if nothing has."""
        received, self._received = self._received or self._read(), []
        return received

    @property
    def has_received(self) -> bool:
        """Whether something came together with the command."""
        return bool(self._received)

    def has_owner(self) -> bool:
        """Whether the owner is there now, whatever it has sent before it went."""
        if not self.is_open:
            return False
        waiting = select.poll()
        gone = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
        waiting.register(self._socket.fileno(), gone)
        return not any(events & gone for _, events in waiting.poll(0))

    def send(self, message: object) -> None:
        """Send a message; the owner may be gone, and what has to be done is done all the same."""
        with contextlib.suppress(OSError):
            self._socket.sendall(pack(message))

    def _read(self) -> list[dict[str, Any]]:
        try:
            data = self._socket.recv(_CHUNK)
        except OSError:
            data = b""
        if not data:
            self._socket.close()
        return self._messages.feed(data)
