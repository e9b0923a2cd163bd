"""Clients of the gateway's streams that can be cut behind any byte.

They share nothing with the gateway: WebSocket is the state machine of `websockets` on a plain socket, server-sent
events are read by hand, chunk by chunk and line by line.
"""

import contextlib
import json
import socket
import struct
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeAlias

from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import ClientPerMessageDeflateFactory
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.uri import parse_uri

from support.patience import PATIENCE_S

Frames: TypeAlias = list[dict[str, Any]]

_READ = 65_536
_NOT_NOW = 500
_RESET = struct.pack("ii", 1, 0)


class CutClient(ABC):
    """One connection.  `ended` says that the other side ended it."""

    def __init__(self, port: int) -> None:
        self.ended = False
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_S)

    def read(self, most: int = _READ) -> Frames:
        """Wait for some bytes, and return the frames that they made whole; none where the connection ended."""
        try:
            data = self._socket.recv(most)
        except ConnectionError:
            data = b""
        self.ended = not data
        return self._feed(data)

    def read_exactly(self, count: int, patience: float) -> Frames:
        """Read so many bytes, or fewer where no more come soon."""
        frames: Frames = []
        self._socket.settimeout(patience)
        with contextlib.suppress(TimeoutError):
            while count > 0 and not self.ended:
                before = self.taken
                frames += self.read(min(count, _READ))
                count -= self.taken - before
        self._socket.settimeout(PATIENCE_S)
        return frames

    def fileno(self) -> int:
        """The descriptor that becomes readable when something came."""
        return self._socket.fileno()

    def close(self) -> None:
        """End the connection."""
        self.cut()

    def cut(self, *, reset: bool = False) -> None:
        """End the connection without a word; with `reset` as a machine that forgot it."""
        if reset:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._socket.close()
        self.ended = True

    taken = 0
    """How many bytes came."""

    def _feed(self, data: bytes) -> Frames:
        self.taken += len(data)
        return self._parse(data)

    @abstractmethod
    def _parse(self, data: bytes) -> Frames:
        """Return the frames that are whole with these bytes."""


class CutSocket(CutClient):
    """A WebSocket."""

    def __init__(self, port: int, target: str, headers: Mapping[str, str], *, deflate: bool = False) -> None:
        super().__init__(port)
        extensions = [ClientPerMessageDeflateFactory()] if deflate else None
        self._protocol = ClientProtocol(parse_uri(f"ws://127.0.0.1:{port}{target}"), extensions=extensions)
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)
        self._flush()

    def send(self, command: Mapping[str, Any]) -> None:
        """Send a command."""
        self._protocol.send_text(json.dumps(command).encode())
        self._flush()

    def _parse(self, data: bytes) -> Frames:
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        frames: Frames = []
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                # A broker that stops has no better answer to whoever comes meanwhile.
                self.ended = self.ended or event.status_code == _NOT_NOW
                assert event.status_code == 101 or self.ended, event.body
            elif isinstance(event, Frame) and event.opcode is Opcode.TEXT:
                assert event.fin
                frames += [json.loads(line) for line in bytes(event.data).decode().split("\n")]
        assert self._protocol.handshake_exc is None or self.ended, self._protocol.handshake_exc
        assert self._protocol.parser_exc is None or self.ended, self._protocol.parser_exc
        self._flush()
        return frames

    def _flush(self) -> None:
        with contextlib.suppress(OSError):
            for data in self._protocol.data_to_send():
                if data:
                    self._socket.sendall(data)


class CutEvents(CutClient):
    """Server-sent events over HTTP/1.1."""

    def __init__(self, port: int, target: str, headers: Mapping[str, str]) -> None:
        super().__init__(port)
        lines = [f"GET {target} HTTP/1.1", f"Host: 127.0.0.1:{port}", "Accept: text/event-stream"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        self._socket.sendall("\r\n".join([*lines, "", ""]).encode())
        self._answered = False
        self._raw = b""
        self._text = b""

    def _parse(self, data: bytes) -> Frames:
        self._raw += data
        if not self._answered:
            head, found, rest = self._raw.partition(b"\r\n\r\n")
            if not found:
                return []
            if head.startswith(b"HTTP/1.1 %d " % _NOT_NOW):
                self.ended = True
                return []
            assert head.startswith(b"HTTP/1.1 200 "), self._raw
            assert b"\r\ntransfer-encoding: chunked" in head.lower()
            self._answered, self._raw = True, rest
        self._unchunk()
        *whole, self._text = self._text.split(b"\n\n")
        return [frame for event in whole if (frame := _frame_of(event.decode())) is not None]

    def _unchunk(self) -> None:
        """Move what whole chunks hold to the text."""
        while True:
            size, found, rest = self._raw.partition(b"\r\n")
            if not found or len(rest) < int(size, 16) + 2:
                return
            self._text += rest[: int(size, 16)]
            self._raw = rest[int(size, 16) + 2 :]


def _frame_of(event: str) -> dict[str, Any] | None:
    """What one event holds; None for a comment."""
    fields: dict[str, list[str]] = {}
    for line in event.split("\n"):
        name, colon, value = line.partition(":")
        assert colon, event
        fields.setdefault(name, []).append(value.removeprefix(" "))
    if "data" not in fields:
        assert set(fields) == {""}, event
        return None
    frame: dict[str, Any] = json.loads("\n".join(fields["data"]))
    assert fields.get("id", [None]) == [frame.get("id")]
    return frame
