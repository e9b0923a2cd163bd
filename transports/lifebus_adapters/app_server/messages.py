"""The kinds of messages of the app-server: JSON objects, one a line, without a `jsonrpc` member.  Pure.

What is none of them is no message: not JSON, not UTF-8, an array, a blank line, an id that is neither text nor an
integer that every JSON reader can hold.  The real program drops all of that and goes on, and so do we.
"""

from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType

from lifebus_adapters.app_server.naming import event_type
from lifebus_contract.fields import MAX_INTEGER

RequestId = int | str
"""What a request is called by; 0 is an id."""

ABSENT: Final = Raw(b"null")
"""What stands for params that are not there."""

MAX_NAME: Final = 256
"""Longest method, name of a signal, and textual id, in characters."""

_NOTHING: Final = Raw(b"")


class RpcRequest(Struct, frozen=True):
    """One side asks the other; `params` is the original JSON."""

    id: RequestId
    method: str
    params: Raw


class RpcNotification(Struct, frozen=True):
    """One side notifies the other; `params` is the original JSON."""

    method: str
    params: Raw


class RpcResponse(Struct, frozen=True):
    """One side answers a request; `result` is the original JSON, None for an error."""

    id: RequestId
    result: Raw | None


RpcMessage = RpcRequest | RpcNotification | RpcResponse
"""Everything that goes over the wire."""


class _Wire(Struct):
    id: Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)] | str | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = ABSENT
    result: Raw = _NOTHING
    error: Raw = _NOTHING


_WIRE: Final = msgspec.json.Decoder(_Wire)


def read_message(line: bytes) -> RpcMessage | None:
    """Return the message that a line holds, None where it holds none."""
    try:
        line.decode()  # what is skipped over inside `params` is not checked by the decoder
        wire = _WIRE.decode(line)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None
    if _is_long(wire.id) or _is_long(wire.method):
        return None
    if not isinstance(wire.method, UnsetType):
        # The name of the signal is longer than the method, and has the same limit.
        if len(event_type(wire.method, request=True)) > MAX_NAME:
            return None
        return _asked(wire.id, wire.method, wire.params)
    if isinstance(wire.id, UnsetType) or (wire.result == _NOTHING and wire.error == _NOTHING):
        return None
    # A response with both is an error, as in JSON-RPC.
    return RpcResponse(wire.id, wire.result if wire.error == _NOTHING else None)


def _asked(number: RequestId | UnsetType, method: str, params: Raw) -> RpcMessage:
    return RpcNotification(method, params) if isinstance(number, UnsetType) else RpcRequest(number, method, params)


def _is_long(name: RequestId | UnsetType) -> bool:
    return isinstance(name, str) and len(name) > MAX_NAME
