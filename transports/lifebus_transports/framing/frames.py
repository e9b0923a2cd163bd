"""The frames of the ZeroMQ sockets, and strict MessagePack reading.  Sans-IO.

A request or answer is two frames: a header (version byte, 8 bytes of correlation id, verb in ASCII) and a body (one
MessagePack map).  docs/wire-protocol.md describes every verb.
"""

import struct
from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Any, Final, TypeVar, cast
from urllib.parse import unquote

from lifebus_contract import (
    CallbackResponse,
    Emission,
    InvalidRequest,
    PayloadEnvelope,
    decode_msgpack,
    encode_msgpack,
)
from lifebus_contract.codec import check_plain
from lifebus_contract.fields import MAX_MESSAGE_BYTES

T = TypeVar("T")

ANSWER_OK: Final = "ok"
ANSWER_REFUSED: Final = "refused"

ALL_TOPIC: Final = b"a/"
"""Every receipt, in position order."""

BEACON_TOPIC: Final = b"h/"
"""The heads, once a second."""

SIGNAL_BEACON_TOPIC: Final = b"hs/"
"""The heads of the threads that signals are about, once a second."""

_HEAD: Final = struct.Struct(">BQ")
_VERSION: Final = 1
_MAX_VERB: Final = 32
_SAFE: Final = frozenset(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~:@+=,")


# The verbs are few, and every request has one.
@cache
def _verb_bytes(verb: str) -> bytes:
    return verb.encode("ascii")


def encode_header(correlation: int, verb: str) -> bytes:
    """Return the header frame for a correlation id below 2^64 and a verb."""
    return _HEAD.pack(_VERSION, correlation) + _verb_bytes(verb)


def decode_header(frame: bytes) -> tuple[int, str]:
    """Return the correlation id and the verb of a header frame.

    Raises:
        InvalidRequest: too short, too long, another version, or a verb that is not lower-case ASCII.
    """
    if not _HEAD.size < len(frame) <= _HEAD.size + _MAX_VERB:
        raise InvalidRequest("header: wrong length", code="malformed", field="header")
    version, correlation = _HEAD.unpack_from(frame)
    if version != _VERSION:
        raise InvalidRequest(f"header: protocol version {version}, expected {_VERSION}", code="version", field="header")
    return correlation, _verb_of(frame[_HEAD.size :])


# Bounded, because the name comes from a peer that may send any.
@lru_cache(maxsize=64)
def _verb_of(name: bytes) -> str:
    if not name.replace(b"_", b"").isalpha() or not name.islower():
        raise InvalidRequest(
            "header: the verb must be lower-case letters and underscores", code="malformed", field="header"
        )
    return name.decode("ascii")


def decode_body(body: bytes, kind: type[T]) -> T:
    """Return the validated message in `body`, read as strictly as JSON is.

    A body that our own encoder would have written is proven free of duplicate keys by encoding it again, which is
    four times cheaper than a scan; any other body is scanned.

    Raises:
        InvalidRequest: too large, malformed, duplicate keys, too deep, or against the contract.
    """
    if len(body) > MAX_MESSAGE_BYTES:
        raise InvalidRequest(f"message of {len(body)} bytes; the limit is {MAX_MESSAGE_BYTES}", code="too_large")
    message = decode_msgpack(body, kind)
    _check_free_form(message)
    # Equal bytes prove that there are no duplicate keys: the encoder writes each key once.
    if encode_msgpack(message) != body:
        _refuse_duplicates(body)
    return message


# One session publishes many receipts.
@lru_cache(maxsize=16_384)
def session_topic(adapter_id: str, harness_session_id: str | None) -> bytes:
    """Return ``r/<adapter>/<session>/``; the closing delimiter keeps prefixes apart.

    See docs/wire-protocol.md, "Published receipts".
    """
    return b"r/%s/%s/" % (_quote(adapter_id), _quote(harness_session_id or ""))


def tick_topic(adapter_id: str | None = None, harness_session_id: str | None = None) -> bytes:
    """Return ``t/<adapter>/<session>/``, where transient receipts appear, or the prefix of several such topics.

    A receipt without a session appears on ``t/<adapter>/``.
    """
    if adapter_id is None:
        return b"t/"
    if harness_session_id is None:
        return b"t/%s/" % _quote(adapter_id)
    return b"t/%s/%s/" % (_quote(adapter_id), _quote(harness_session_id))


@lru_cache(maxsize=16_384)
def signal_topic(adapter_id: str, thread: str | None = None) -> bytes:
    """Return ``s/<adapter>/<thread>/``, or the prefix of an adapter; the empty thread is the process."""
    if thread is None:
        return b"s/%s/" % _quote(adapter_id)
    return b"s/%s/%s/" % (_quote(adapter_id), _quote(thread))


def read_signal_topic(topic: bytes) -> str:
    """Return the thread that a topic of `signal_topic` names.

    Raises:
        ValueError: it is no such topic.
    """
    _, _, thread, _ = topic.decode("ascii").split("/")
    return unquote(thread, errors="strict")


def marker_topic(nonce: str) -> bytes:
    """Return the topic on which the marker of a join appears."""
    return b"m/%s/" % _quote(nonce)


def _quote(text: str) -> bytes:
    """Percent-encode what could split or blur a topic."""
    raw = text.encode()
    if _SAFE.issuperset(raw):
        return raw
    return b"".join(bytes((byte,)) if byte in _SAFE else b"%%%02X" % byte for byte in raw)


def _refuse_duplicates(body: bytes) -> None:
    """Read the body once more as plain data, refusing the one thing that a typed reader passes over."""
    import msgpack  # noqa: PLC0415  only where a client encodes otherwise than we do

    try:
        msgpack.unpackb(body, strict_map_key=True, object_pairs_hook=unique_keys, max_ext_len=0)
    except InvalidRequest:
        raise
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as fault:
        raise InvalidRequest(f"not valid MessagePack: {type(fault).__name__}", code="malformed") from None


def unique_keys(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Build a map from its pairs; the `object_pairs_hook` of strict readers.

    Raises:
        InvalidRequest: a key comes twice.
    """
    built = dict(pairs)
    if len(built) != len(pairs):
        raise InvalidRequest("duplicate key in a map", code="duplicate_key")
    return built


def _check_free_form(message: object) -> None:
    """Check the only parts of a typed message whose depth, size and values the types do not bound: `metadata`."""
    for emission in cast("tuple[Emission, ...]", getattr(message, "emissions", ())):
        if emission.request.metadata:
            check_plain(emission.request.metadata)
        _check_payloads(emission.payloads)
    response: CallbackResponse | None = getattr(message, "response", None)
    if response is not None:
        check_plain(response.metadata)
        _check_payloads(response.client_payloads)


def _check_payloads(payloads: Iterable[PayloadEnvelope]) -> None:
    for payload in payloads:
        if payload.metadata:
            check_plain(payload.metadata)
