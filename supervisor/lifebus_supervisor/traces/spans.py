"""Spans and log records as they are exported, before they have the form of the wire.  Pure."""

from collections.abc import Mapping
from enum import Enum

from msgspec import Struct

from lifebus_broker.trace_context import SpanContext

Value = str | int | bool | tuple[str, ...]
"""What an attribute may be."""

Attributes = Mapping[str, Value]
"""Attributes by name."""


class SpanKind(Enum):
    """What a span is: something within, or a question to another program."""

    INTERNAL = 1
    CLIENT = 3


class Severity(Enum):
    """How grave a log record is, by the numbers of OpenTelemetry."""

    DEBUG = 5
    INFO = 9
    WARN = 13
    ERROR = 17


class SpanEvent(Struct, frozen=True):
    """Something that happened during a span, in milliseconds since 1970."""

    name: str
    at_ms: int
    attributes: Attributes


class Link(Struct, frozen=True):
    """Another span, and what it is to this one."""

    span: SpanContext
    says: str


class TraceSpan(Struct, frozen=True, kw_only=True):
    """A span that has ended.  `parent` is of the same trace, None for its root; `error` is why it failed."""

    context: SpanContext
    parent: bytes | None
    name: str
    kind: SpanKind
    start_ms: int
    end_ms: int
    attributes: Attributes
    events: tuple[SpanEvent, ...] = ()
    dropped_events: int = 0
    links: tuple[Link, ...] = ()
    error: str | None = None


class LogRecord(Struct, frozen=True, kw_only=True):
    """A receipt as a log record: it has no body.  `span` is the one during which it happened, if there is one."""

    name: str
    at_ms: int
    severity: Severity
    attributes: Attributes
    span: SpanContext | None
