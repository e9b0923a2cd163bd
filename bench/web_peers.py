"""Web clients that follow a gateway or a NATS server over WebSocket, in a process of their own.

`python -m bench.web_peers lifebus URL TOKEN_FILE TARGET FOLLOWERS MESSAGES` and
`python -m bench.web_peers nats PORT FOLLOWERS MESSAGES` print `ready` when all have joined, `done SECONDS` when each
has had so many messages, and then `got` each time that each has had one more.
Both kinds are plain sockets, and both count messages in the same way: by a few bytes that each has once.
"""

import base64
import itertools
import os
import selectors
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from urllib.parse import urlsplit

from bench.child import child

_SHORT = 126
_BINARY, _PING, _PONG = 0x2, 0x9, 0xA
_READ = 262_144
_TIMEOUT_S = 120


def following(*arguments: object) -> "AbstractContextManager[subprocess.Popen[str]]":
    """Run that process for the length of a block, which starts when all have joined."""
    return child("bench.web_peers", *arguments)


class Follower:
    """One WebSocket, and how often some bytes came in its messages."""

    def __init__(self, port: int, target: str, headers: dict[str, str], mark: bytes) -> None:
        self.count = 0
        self._mark = mark
        self._rest = b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=_TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Upgrade: websocket", "Connection: Upgrade"]
        lines += ["Sec-WebSocket-Version: 13", f"Sec-WebSocket-Key: {base64.b64encode(os.urandom(16)).decode()}"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self.socket.sendall("\r\n".join([*lines, "", ""]).encode())
        while b"\r\n\r\n" not in self._rest:
            self._rest += self.socket.recv(_READ)
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        if b" 101 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(head.decode(errors="replace"))

    def send(self, text: bytes) -> None:
        """Send a short message."""
        self._send(_BINARY, text)

    def read(self) -> bytes:
        """Wait for some bytes; return the payloads of the frames that they made whole, and count."""
        data = self.socket.recv(_READ)
        if not data:
            raise RuntimeError("the server ended the connection")
        self._rest += data
        found = b"".join(self._payloads())
        self.count += found.count(self._mark)
        return found

    def wait_for(self, text: bytes) -> None:
        """Wait until a message holds a text; nothing is counted of what came until then."""
        found = b"".join(self._payloads())  # it may have come with the answer to the handshake
        while text not in found:
            found = self.read()
        self.count = 0

    def _send(self, opcode: int, payload: bytes) -> None:
        # A mask of zeros is a mask.
        self.socket.sendall(bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload)

    def _payloads(self) -> Iterator[bytes]:
        at, data = 0, self._rest
        while len(data) >= at + 2:
            length, start = data[at + 1] & 0x7F, at + 2
            if length >= _SHORT:
                size = 2 if length == _SHORT else 8
                length, start = int.from_bytes(data[start : start + size]), start + size
            if len(data) < start + length:
                break
            payload = data[start : start + length]
            if data[at] & 0x0F == _PING:
                self._send(_PONG, payload)
            else:
                yield payload
            at = start + length
        self._rest = data[at:]


def _follow_lifebus(url: str, token_file: str, target: str) -> Follower:
    headers = {"Authorization": f"Bearer {Path(token_file).read_text().strip()}"}
    found = Follower(urlsplit(url).port or 0, target, headers, b'"position":')
    found.wait_for(b'"ready"')
    return found


def _follow_nats(port: str) -> Follower:
    found = Follower(int(port), "/", {}, b"MSG r.")
    for line in (b'CONNECT {"verbose":false,"pedantic":false}\r\n', b"SUB r.> 1\r\n", b"PING\r\n"):
        found.send(line)
    found.wait_for(b"PONG")
    return found


def _read_all(followers: list[Follower], messages: int) -> None:
    with selectors.DefaultSelector() as waiting:
        for one in followers:
            if one.count < messages:
                waiting.register(one.socket, selectors.EVENT_READ, one)
        while waiting.get_map():
            for key, _ in waiting.select(_TIMEOUT_S):
                key.data.read()
                if key.data.count >= messages:
                    waiting.unregister(key.fileobj)


def main() -> None:
    """Join, follow, and say how far all are."""
    kind, *where, how_many, messages = sys.argv[1:]
    open_one = _follow_lifebus if kind == "lifebus" else _follow_nats
    followers = [open_one(*where) for _ in range(int(how_many))]
    print("ready", flush=True)
    started = time.perf_counter()
    _read_all(followers, int(messages))
    print(f"done {time.perf_counter() - started:.3f}", flush=True)
    for more in itertools.count(int(messages) + 1):
        _read_all(followers, more)
        print("got", flush=True)


if __name__ == "__main__":
    main()
