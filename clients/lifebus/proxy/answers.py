"""The server's answers to requests that the client has not made: taken out of what the client gets, whole lines.

A thread that such an answer opens is none of the client's: what the server says of it is taken out as well.
"""

TYPE_CHECKING = False  # `typing` costs more than all the rest
if TYPE_CHECKING:
    from typing import cast
else:

    def cast(_kind: str, value: object) -> object:
        """Return the value: what `typing.cast` does."""
        return value


MAX_HELD_BYTES = 1_048_576
"""A line of more bytes is no answer to us, and is passed on."""

MAX_AWAITED = 64
"""Requests of ours that may be unanswered at once; an app-server never answers some."""

MAX_THREADS = 1_024
"""Threads of ours that are kept from the client; what is said of more of them reaches it."""

_OURS = b'"lifebus:'


class AnswerFilter:
    """Takes the answers to our requests out of a stream of lines.

    Nothing is read while no answer is awaited and no thread of ours is open.  One thread awaits, another one filters.
    """

    def __init__(self) -> None:
        self._awaited: set[str] = set()
        self._held = bytearray()
        self._threads: list[bytes] = []

    @property
    def is_idle(self) -> bool:
        """Whether all bytes may pass as they are."""
        return not self._awaited and not self._held and not self._threads

    def expect(self, request_id: str) -> bool:
        """Await the answer to a request that is about to be sent; return False where too many are awaited."""
        if len(self._awaited) >= MAX_AWAITED:
            return False
        self._awaited.add(request_id)
        return True

    def forget(self, request_id: str) -> None:
        """Await no answer: the request was not sent."""
        self._awaited.discard(request_id)

    def feed(self, data: bytes, *, begins_line: bool) -> bytes:
        """Return what of these bytes, and of those held before, goes to the client.

        `begins_line` says that the byte before was a newline, or that there was none.
        """
        passed = bytearray()
        if not self._held and not begins_line:
            # This line has begun before anything was awaited, and its beginning has gone out.
            start = data.find(b"\n") + 1
            if not start:
                return data
            passed += data[:start]
            data = data[start:]
        for line in _lines(data):
            self._held += line
            if line.endswith(b"\n"):
                if not self._takes(self._held):
                    passed += self._held
                self._held.clear()
        if len(self._held) > MAX_HELD_BYTES or not (self._awaited or self._threads):
            passed += self.flush()
        return bytes(passed)

    def flush(self) -> bytes:
        """Return what is held: the stream has ended, or nothing is awaited any more."""
        held = bytes(self._held)
        self._held.clear()
        return held

    def _takes(self, line: bytearray) -> bool:
        if _OURS not in line and not any(name in line for name in self._threads):
            return False
        import json  # noqa: PLC0415  an editor waits for this program to start, and most never get here

        try:
            message: dict[str, object] | object = json.loads(line)
        except (ValueError, RecursionError):
            return False
        if not isinstance(message, dict):
            return False
        said = cast("dict[str, object]", message)
        # A message with a method is a request or a notification of the server, whatever its id is.
        if "method" in said:
            return self._is_of_ours(_object(said.get("params")))
        found = said.get("id")
        if not isinstance(found, str) or found not in self._awaited:
            return False
        self._awaited.discard(found)
        opened = _object(_object(said.get("result")).get("thread")).get("id")
        if isinstance(opened, str) and opened and len(self._threads) < MAX_THREADS:
            self._threads.append(opened.encode("utf-8", "replace"))
        return True

    def _is_of_ours(self, params: "dict[str, object]") -> bool:
        named = params.get("threadId") or params.get("conversationId") or _object(params.get("thread")).get("id")
        return isinstance(named, str) and named.encode("utf-8", "replace") in self._threads


def _object(value: object) -> "dict[str, object]":
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}


def _lines(data: bytes) -> list[bytes]:
    """Return the pieces of bytes that end behind each newline, and the rest."""
    *whole, rest = data.split(b"\n")
    return [*(line + b"\n" for line in whole), *([rest] if rest else [])]
