"""Ids of traces and spans, which are the same wherever they are made, and the header that passes them on.

A trace is a turn with its sub-agents and dispatches, or what a session has outside of its turns (docs/traces.md).  All
ids are digests of the receipt's own ids: whoever exports a span again exports the same one, and a client is told the
span of its dispatch before anybody exports it.
"""

import hashlib
from collections.abc import Mapping
from typing import Final, Protocol

from msgspec import Struct

from lifebus_contract.vocabulary import LifecycleEvent

_SAMPLED: Final = "01"
_TRACE_BYTES: Final = 16
_SPAN_BYTES: Final = 8


class SpanContext(Struct, frozen=True):
    """Which span it is: the ids of its trace and its own, 16 and 8 bytes."""

    trace_id: bytes
    span_id: bytes


class TracedRequest(Protocol):
    """What a request and its receipts have in common."""

    @property
    def adapter_id(self) -> str:
        """Which harness."""
        ...

    @property
    def harness_session_id(self) -> str | None:
        """Which session, None where it is about none."""
        ...

    @property
    def invocation_id(self) -> str:
        """Which hook call or emit."""
        ...

    @property
    def event(self) -> LifecycleEvent:
        """What happened."""
        ...

    @property
    def event_id(self) -> str:
        """What it is called."""
        ...


def trace_of(what: TracedRequest, facts: Mapping[str, object]) -> bytes:
    """Return the id of the trace in which a request is dispatched; `facts` are those of its receipts.

    It is that of the turn: of the frame that is named as the parent, or else of the frame itself.
    """
    session = what.harness_session_id
    if session is None:
        return _digest("invocation", what.adapter_id, what.invocation_id)[:_TRACE_BYTES]
    turn = _text(facts.get("parent_frame_id")) or _text(facts.get("frame_id"))
    return session_trace(what.adapter_id, session) if turn is None else turn_trace(what.adapter_id, session, turn)


def session_trace(adapter_id: str, session: str) -> bytes:
    """Return the id of the trace of a session: of all that stands in no turn."""
    return _digest("session", adapter_id, session)[:_TRACE_BYTES]


def turn_trace(adapter_id: str, session: str, frame_id: str) -> bytes:
    """Return the id of the trace of a turn."""
    return _digest("turn", adapter_id, session, frame_id)[:_TRACE_BYTES]


def dispatch_span(what: TracedRequest, facts: Mapping[str, object], client_id: str) -> SpanContext:
    """Return the span of a dispatch: of one client that is asked about one event."""
    session, frame = what.harness_session_id or "", _text(facts.get("frame_id")) or ""
    words = (what.adapter_id, session, what.invocation_id, what.event.value, what.event_id, frame, client_id)
    return SpanContext(trace_of(what, facts), _digest("dispatch", *words)[:_SPAN_BYTES])


def begun_span(receipt_id: str, kind: str) -> bytes:
    """Return the id of the span that begins with a receipt; `kind` tells a session from a turn."""
    return _digest(kind, receipt_id)[:_SPAN_BYTES]


def traceparent(span: SpanContext) -> str:
    """Return a span as the header of W3C Trace Context."""
    return f"00-{span.trace_id.hex()}-{span.span_id.hex()}-{_SAMPLED}"


def _digest(*words: str) -> bytes:
    # Identifiers are printable, so that no two lists of words have the same bytes.
    return hashlib.sha256("\0".join(words).encode()).digest()


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
