"""Receipts as CloudEvents 1.0 in their JSON format (docs/cloudevents.md).  Pure."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final, Literal
from urllib.parse import quote

import msgspec

STRUCTURED: Final = "application/cloudevents+json; charset=utf-8"
"""The media type of one event."""

BATCHED: Final = "application/cloudevents-batch+json; charset=utf-8"
"""The media type of a list of events."""

DEFAULT_SOURCE: Final = "/lifebus"
"""What the source of an event begins with, where nothing else is asked for."""

_REFERENCE: Final = re.compile(r"[A-Za-z0-9._~:/?\[\]@!$&'()*+,;=%-]{1,512}")
_ORDER_DIGITS: Final = 16
"""Positions stay below 2^53: with so many digits, texts have the order of their numbers."""


class CloudEvent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A CloudEvent: its required attributes, the optional ones, two extensions, and the receipt as `data`."""

    specversion: Literal["1.0"]
    id: str
    source: str
    type: str
    time: str
    datacontenttype: Literal["application/json"]
    sequence: str
    ledgerepoch: str
    data: msgspec.Raw
    subject: str | None = None


class _Head(msgspec.Struct, frozen=True):
    """What of a receipt stands in attributes."""

    receipt_id: str
    at_epoch_s: int
    adapter_id: str
    harness_session_id: str | None
    event: str


_HEADS: Final = msgspec.json.Decoder(_Head)


def check_source(text: str) -> str:
    """Return what the source of events begins with, without a slash at its end.

    Raises:
        ValueError: it is no reference to a URI (RFC 3986).
    """
    if not _REFERENCE.fullmatch(text):
        raise ValueError("that is no URI, and no part of one")
    return text.rstrip("/")


def event_of(receipt: bytes, epoch: str, position: int, source: str = DEFAULT_SOURCE) -> CloudEvent:
    """Return the event of a receipt, of its canonical JSON: the same one whenever it is made."""
    head = _HEADS.decode(receipt)
    return CloudEvent(
        specversion="1.0",
        id=head.receipt_id,
        source=f"{source}/{quote(head.adapter_id, safe='')}",
        type=f"lifebus.{head.event}",
        time=datetime.fromtimestamp(head.at_epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        datacontenttype="application/json",
        sequence=str(position).zfill(_ORDER_DIGITS),
        ledgerepoch=epoch,
        data=msgspec.Raw(receipt),
        subject=head.harness_session_id,
    )


def batches(events: Sequence[CloudEvent], most_bytes: int) -> list[tuple[str, bytes]]:
    """Return lists of events as JSON, each with the id of its first, and of at most so many bytes or a single event."""
    parts: list[tuple[str, list[bytes]]] = []
    size = 0
    for event in events:
        encoded = msgspec.json.encode(event)
        if not parts or size + len(encoded) + 1 > most_bytes:
            parts.append((event.id, []))
            size = 1
        parts[-1][1].append(encoded)
        size += len(encoded) + 1
    return [(first, b"[" + b",".join(part) + b"]") for first, part in parts]
