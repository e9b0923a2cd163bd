"""Peer identity on the ZeroMQ sockets: the kernel says which user is at the other end.

libzmq asks this handler (ZAP, RFC 27) for every connection of a socket with a domain, whichever side it is, and again
each time it connects anew.  On `ipc://` the peer's address is ``localhost:uid:gid:pid``; a peer of another user is
refused before any message of his is read, and before any message is sent to him.
"""

import itertools
from collections.abc import Callable, Collection

import zmq

from lifebus_transports.zmq.socket import Message, SocketReader

DOMAIN = "lifebus"
_ENDPOINT = "inproc://zeromq.zap.01"
_REQUEST_FRAMES = 6


def admit(address: str, mechanism: str, users: Collection[int]) -> int | None:
    """Return the user id of an admitted peer, None for anyone else.

    `address` is what libzmq saw: ``localhost:uid:gid:pid`` on ipc, an IP address on TCP, which is never admitted here.
    """
    parts = address.split(":")
    if mechanism != "NULL" or len(parts) != 4 or parts[0] != "localhost":  # noqa: PLR2004  the form above
        return None
    if not (parts[1].isascii() and parts[1].isdecimal()) or int(parts[1]) not in users:
        return None
    return int(parts[1])


class UserGate:
    """Answers ZAP requests of one context; `refused` counts the peers it turned away.

    Open it before any socket binds or connects, and close it after the last has closed.  `on_refused` is called with
    the address of each peer that is turned away, before libzmq is told, and may close the gate; `on_admitted` at each
    connection with a peer that is not.
    """

    def __init__(
        self,
        context: "zmq.Context[zmq.Socket[bytes]]",
        users: Collection[int],
        on_refused: Callable[[str], None] | None = None,
        on_admitted: Callable[[], None] | None = None,
    ) -> None:
        self.refused = 0
        self._users = frozenset(users)
        self._on_refused = on_refused
        self._on_admitted = on_admitted
        self._connections = itertools.count(1)
        self._socket = context.socket(zmq.REP)
        # Answers that are still queued when the gate closes are of no use to anybody.
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.bind(_ENDPOINT)
        self._reader = SocketReader(self._socket, self._answer)

    def close(self) -> None:
        """Stop answering."""
        self._reader.close()
        self._socket.close()

    def _answer(self, message: Message) -> None:
        request_id = message[1] if len(message) > 1 else b""
        user, address = None, ""
        if len(message) >= _REQUEST_FRAMES and message[0] == b"1.0" and message[2] == DOMAIN.encode():
            address = message[3].decode("ascii", "replace")
            user = admit(address, message[5].decode("ascii", "replace"), self._users)
        # A request that cannot be read is refused like a stranger: libzmq waits for some answer.
        if user is None:
            self.refused += 1
            if self._on_refused is not None:
                self._on_refused(address)
            reply = [b"1.0", request_id, b"400", b"not admitted", b"", b""]
        else:
            # Each connection gets an id of its own, which libzmq puts beside each of its messages.
            connection = f"{user}:{next(self._connections)}"
            reply = [b"1.0", request_id, b"200", b"OK", connection.encode(), b""]
        if self._socket.closed:
            return
        self._socket.send_multipart(reply)
        self._reader.poke()
        if user is not None and self._on_admitted is not None:
            self._on_admitted()
