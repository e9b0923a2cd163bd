"""Spans that have not ended yet.  Pure."""

from typing import Final

from lifebus_broker.trace_context import SpanContext
from lifebus_supervisor.traces.spans import Attributes, Link, SpanEvent, SpanKind, TraceSpan, Value

MAX_EVENTS: Final = 128
"""Most events of one span, as the libraries of OpenTelemetry have it; of more, the span says how many were left out."""


class OpenSpan:
    """A session or a frame under way.

    `ending_ms` is when its harness announced the end that is not settled yet, `ending_error` why it failed then.
    """

    def __init__(self, context: SpanContext, parent: bytes | None, name: str, start_ms: int) -> None:
        self.context, self.parent, self.name = context, parent, name
        self.attributes: dict[str, Value] = {}
        self.links: list[Link] = []
        self.ending_ms: int | None = None
        self.ending_error: str | None = None
        self._start_ms = start_ms
        self._events: list[SpanEvent] = []
        self._dropped = 0

    def set(self, name: str, value: object) -> None:
        """Take an attribute; what is not known is left out."""
        if isinstance(value, str | int | bool):
            self.attributes[name] = value

    def count(self, name: str) -> None:
        """Count one more of something."""
        known = self.attributes.get(name, 0)
        self.attributes[name] = (known if isinstance(known, int) else 0) + 1

    def add_event(self, name: str, at_ms: int, attributes: Attributes) -> None:
        """Take an event; the first ones stay where there are too many."""
        if len(self._events) < MAX_EVENTS:
            self._events.append(SpanEvent(name, at_ms, attributes))
        else:
            self._dropped += 1

    def ended(self, at_ms: int, error: str | None) -> TraceSpan:
        """Return the span as it ended at a time; a clock that was set back makes it no shorter than nothing."""
        return TraceSpan(
            context=self.context,
            parent=self.parent,
            name=self.name,
            kind=SpanKind.INTERNAL,
            start_ms=self._start_ms,
            end_ms=max(at_ms, self._start_ms),
            attributes=dict(self.attributes),
            events=tuple(self._events),
            dropped_events=self._dropped,
            links=tuple(self.links),
            error=error,
        )
