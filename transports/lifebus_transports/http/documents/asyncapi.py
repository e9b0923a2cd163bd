"""The AsyncAPI description of the streams, made of their frames.  Pure."""

from typing import Any, Final

import msgspec

from lifebus_contract import CONTRACT_VERSION
from lifebus_transports.http.documents.openapi import REFERENCE, parameters_of, plain
from lifebus_transports.http.following.frames import (
    BehindFrame,
    CaughtUpFrame,
    CursorFrame,
    ErrorFrame,
    EventFrame,
    GapFrame,
    PingCommand,
    PongFrame,
    ReadyFrame,
    ReceiptPayload,
    SignalPayload,
    SubscribeCommand,
    UnsubscribeCommand,
)
from lifebus_transports.http.following.opening import StreamQuery

_SENT: Final = {
    "event": (EventFrame, "A record of a topic; its id continues behind it."),
    "ready": (ReadyFrame, "The first frame: where the stream begins, and whether anything is missing."),
    "gap": (GapFrame, "Records are gone that the stream had yet to send."),
    "behind": (BehindFrame, "The client is late; nothing is left out."),
    "caughtUp": (CaughtUpFrame, "A client that was late has everything there is."),
    "cursor": (CursorFrame, "The stream moved past records that its filters leave out."),
    "pong": (PongFrame, "The answer to ping."),
    "error": (ErrorFrame, "A command was not followed, or the stream ends."),
}
_TAKEN: Final = {
    "subscribe": (SubscribeCommand, "Follow something else."),
    "unsubscribe": (UnsubscribeCommand, "Follow nothing."),
    "ping": (PingCommand, "Is answered with pong."),
}
# Frames with a record have it as it is in the ledger: its type stands nowhere in theirs.
_TYPES: Final = (*(kind for kind, _ in (_SENT | _TAKEN).values()), ReceiptPayload, SignalPayload)


def asyncapi() -> dict[str, Any]:
    """Return the description."""
    _, schemas = msgspec.json.schema_components(_TYPES, ref_template=REFERENCE)
    query = {
        "type": "object",
        "properties": {one["name"]: one["schema"] for one in parameters_of(StreamQuery, "query")},
        "additionalProperties": False,
    }
    description = {
        "asyncapi": "3.0.0",
        "info": {
            "title": "lifebus streams",
            "version": CONTRACT_VERSION,
            "description": "What the gateway of a lifebus broker sends to those who follow: see docs/gateway.md.",
            "license": {"name": "MIT"},
        },
        "defaultContentType": "application/json",
        "servers": {"local": {"host": "127.0.0.1:8000", "protocol": "ws"}},
        "channels": {
            "stream": {
                "address": "/api/stream",
                "description": "Over WebSocket; the same frames come from /api/events as server-sent events.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in (*_SENT, *_TAKEN)},
                "bindings": {"ws": {"method": "GET", "query": query, "bindingVersion": "0.1.0"}},
            }
        },
        "operations": {
            "follow": _operation("send", tuple(_SENT), "What the gateway sends."),
            "steer": _operation(
                "receive",
                tuple(_TAKEN),
                "What a client may send; a command with an unknown key is answered with error.",
            ),
        },
        "components": {
            "messages": {
                name: {"summary": summary, "payload": {"$ref": REFERENCE.format(name=kind.__name__)}}
                for name, (kind, summary) in (_SENT | _TAKEN).items()
            },
            "schemas": dict(sorted(schemas.items())),
        },
    }
    return plain(description)


def _operation(action: str, messages: tuple[str, ...], summary: str) -> dict[str, Any]:
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": "#/channels/stream"},
        "messages": [{"$ref": f"#/channels/stream/messages/{name}"} for name in messages],
    }
