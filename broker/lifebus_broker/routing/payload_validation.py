"""Checks payloads against what they say of themselves, before anything is dispatched (docs/contract.md 5.2).  Pure.

A body is measured and hashed, never parsed and never repeated in a refusal; a `body_ref` is never followed,
so its size, digest and encoding are taken from the client unchecked.
"""

import hashlib
from collections.abc import Iterator, Sequence
from typing import Final

from lifebus_broker.ports import Refusal
from lifebus_contract import PayloadEnvelope
from lifebus_contract.fields import MAX_MESSAGE_BYTES

ENCODINGS: Final = frozenset({"utf8"})
"""Encodings a body may have; binary data travels as text in a format of the client's own."""

MAX_BODY_BYTES: Final = MAX_MESSAGE_BYTES // 2
"""Largest body, in UTF-8 bytes: escaped and with its envelope it still fits into one message."""


def check_payloads(
    payloads: Sequence[PayloadEnvelope], now_epoch_s: int, client_id: str | None = None
) -> Refusal | None:
    """Return why the first faulty payload is refused, or None (see `check_each`)."""
    return next((refusal for refusal in check_each(payloads, now_epoch_s, client_id) if refusal is not None), None)


def check_each(
    payloads: Sequence[PayloadEnvelope], now_epoch_s: int, client_id: str | None = None
) -> Iterator[Refusal | None]:
    """Yield of each payload why it is refused, or None; payload ids must not repeat.

    With a `client_id` all of them must be that client's: nobody delivers in another's name.
    """
    seen: set[str] = set()
    for payload in payloads:
        if client_id is not None and payload.client_id != client_id:
            yield _refuse(payload, "foreign_payload", f"client_id: is not `{client_id[:64]}`, who sends it")
        elif payload.payload_id in seen:
            yield _refuse(payload, "duplicate_payload", "payload_id: comes twice in one request")
        else:
            yield check_payload(payload, now_epoch_s)
        seen.add(payload.payload_id)


def check_payload(payload: PayloadEnvelope, now_epoch_s: int) -> Refusal | None:
    """Return why the payload is refused, or None: expiry, encoding, size and digest, in this order."""
    expiry = payload.expires_at_epoch_s
    if expiry is not None and expiry <= now_epoch_s:
        return _refuse(payload, "payload_expired", f"expires_at_epoch_s: expired at {expiry}, it is {now_epoch_s}")
    if payload.body is None:
        return None
    return _check_body(payload, payload.body)


def _check_body(payload: PayloadEnvelope, body: str) -> Refusal | None:
    if payload.content_encoding not in ENCODINGS:
        known = ", ".join(sorted(ENCODINGS))
        return _refuse(payload, "unknown_encoding", f"content_encoding: a body must be one of {known}")
    try:  # JSON can carry a lone surrogate, which has no UTF-8 form
        data = body.encode()
    except UnicodeEncodeError:
        return _refuse(payload, "lone_surrogate", "body: is not valid UTF-8 text")
    if len(data) > MAX_BODY_BYTES:
        detail = f"body: {len(data)} bytes; the limit is {MAX_BODY_BYTES}"
        return _refuse(payload, "body_too_large", detail)
    if len(data) != payload.byte_size:
        return _refuse(payload, "byte_size_mismatch", f"byte_size: says {payload.byte_size}, the body has {len(data)}")
    # The digest costs most and comes last; the size was compared already.
    digest = payload.content_digest
    if digest is not None and digest != f"sha256:{hashlib.sha256(data).hexdigest()}":
        return _refuse(payload, "digest_mismatch", "content_digest: is not the SHA-256 of the body")
    return None


def _refuse(payload: PayloadEnvelope, code: str, detail: str) -> Refusal:
    return Refusal.of(code, f"payload `{payload.payload_id[:64]}`: {detail}")
