"""How questions and answers of a warm worker follow each other on its streams.  Sans-IO.

`jsonl`: one JSON document a line in each direction.  `msgpack`: one MessagePack map after the other.  What cannot be
read comes out as a value, in its place.
"""

from typing import Any, Literal, Protocol

import msgpack

from lifebus_contract import (
    DispatchEnvelope,
    InvalidRequest,
    LifebusError,
    encode_json,
    encode_msgpack,
    load_json,
)
from lifebus_contract.codec import check_plain
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_transports.framing.frames import unique_keys
from lifebus_transports.framing.lines import LineFramer
from lifebus_transports.processes.outcomes import Failure, Finished, bad_answer, fault_of

WarmProtocol = Literal["jsonl", "msgpack"]
"""How a warm worker is spoken to."""


class Framing(Protocol):
    """One conversation's framing; it remembers what has come of a document that is not whole yet."""

    def encode(self, envelope: DispatchEnvelope) -> bytes:
        """Return a question as it is written to the worker."""
        ...

    def feed(self, data: bytes) -> list[Any]:
        """Return the documents that are whole now as plain data; a fault in the place of one that cannot be read."""
        ...


class JsonFraming:
    """One JSON document a line; blank lines mean nothing."""

    def __init__(self) -> None:
        self._lines = LineFramer(MAX_MESSAGE_BYTES)
        self._refused = False

    def encode(self, envelope: DispatchEnvelope) -> bytes:
        """Return the envelope on a line."""
        return encode_json(envelope) + b"\n"

    def feed(self, data: bytes) -> list[Any]:
        """Return the documents of the lines that are whole now."""
        found: list[Any] = []
        for line in self._lines.feed(data):
            if isinstance(line, bytes):
                found += [_read_line(line)] if line.strip() else []
            else:
                self._refuse(found)
                self._refused = False
        if self._lines.is_overlong:  # its end may never come, and somebody waits for the answer
            self._refuse(found)
        return found

    def _refuse(self, found: list[Any]) -> None:
        """Add the fault of a line that is too long, once for each."""
        if not self._refused:
            found.append(_too_large())
        self._refused = True


def _read_line(line: bytes) -> Any:
    try:
        return load_json(line)
    except InvalidRequest as fault:
        return bad_answer(fault)


class MsgpackFraming:
    """One MessagePack document after the other, read as strictly as JSON is."""

    def __init__(self) -> None:
        self._unpacker = _new_unpacker()
        self._fed = 0  # bytes since the last whole document

    def encode(self, envelope: DispatchEnvelope) -> bytes:
        """Return the envelope as one map."""
        return encode_msgpack(envelope)

    def feed(self, data: bytes) -> list[Any]:
        """Return the documents that are whole now; after nonsense the rest of it is forgotten."""
        found: list[Any] = []
        # Counted here, because the unpacker's own limit is about its buffer.
        self._fed += len(data)
        if self._fed > MAX_MESSAGE_BYTES:
            return self._forget(_too_large())
        try:
            self._unpacker.feed(data)
            for document in self._unpacker:
                check_plain(document)
                found.append(document)
                self._fed = 0
        except (ValueError, TypeError, msgpack.UnpackException, RecursionError, LifebusError) as fault:
            found += self._forget(_nonsense(fault))
        return found

    def _forget(self, fault: LifebusError) -> list[Any]:
        self._unpacker, self._fed = _new_unpacker(), 0
        return [fault]


def framing_of(protocol: WarmProtocol) -> Framing:
    """Return a new conversation's framing."""
    return JsonFraming() if protocol == "jsonl" else MsgpackFraming()


def _too_large() -> LifebusError:
    return fault_of(Finished(failure=Failure.TOO_LARGE))


def _new_unpacker() -> "msgpack.Unpacker":
    return msgpack.Unpacker(
        max_buffer_size=2 * MAX_MESSAGE_BYTES, strict_map_key=True, object_pairs_hook=unique_keys, max_ext_len=0
    )


def _nonsense(fault: Exception) -> LifebusError:
    if isinstance(fault, InvalidRequest):
        return bad_answer(fault)
    return InvalidRequest(f"the answer is no MessagePack: {type(fault).__name__}", code="bad_answer")
