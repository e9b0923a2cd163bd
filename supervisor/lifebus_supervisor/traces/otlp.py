"""Spans and log records in the form of the wire: the Protocol Buffers of OTLP 1 (the extra ``lifebus[otel]``).

Nothing else of lifebus imports `opentelemetry`, and this module is imported by whoever exports alone.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import opentelemetry.proto.logs.v1.logs_pb2 as logs
from google.protobuf.message import DecodeError, Message
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1 import common_pb2 as common
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1 import trace_pb2 as trace

from lifebus_supervisor.traces import names
from lifebus_supervisor.traces.spans import Attributes, Link, LogRecord, Severity, SpanEvent, SpanKind, TraceSpan, Value

_NS: Final = 1_000_000
_SAMPLED: Final = 1
_KINDS: Final = {SpanKind.INTERNAL: trace.Span.SPAN_KIND_INTERNAL, SpanKind.CLIENT: trace.Span.SPAN_KIND_CLIENT}
_SEVERITIES: Final = {
    Severity.DEBUG: logs.SEVERITY_NUMBER_DEBUG,
    Severity.INFO: logs.SEVERITY_NUMBER_INFO,
    Severity.WARN: logs.SEVERITY_NUMBER_WARN,
    Severity.ERROR: logs.SEVERITY_NUMBER_ERROR,
}


def encode_spans(spans: Sequence[TraceSpan], resource: Attributes, version: str) -> bytes:
    """Return spans as the body of a request to ``/v1/traces``; `version` is lifebus's."""
    found = trace.ScopeSpans(scope=_scope(version), spans=[_span(one) for one in spans])
    whole = trace.ResourceSpans(resource=Resource(attributes=_pairs(resource)), scope_spans=[found])
    return ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString()


def encode_logs(records: Sequence[LogRecord], resource: Attributes, version: str) -> bytes:
    """Return log records as the body of a request to ``/v1/logs``."""
    found = logs.ScopeLogs(scope=_scope(version), log_records=[_record(one) for one in records])
    whole = logs.ResourceLogs(resource=Resource(attributes=_pairs(resource)), scope_logs=[found])
    return ExportLogsServiceRequest(resource_logs=[whole]).SerializeToString()


def refused_spans(answer: bytes) -> tuple[int, str]:
    """Return how many spans a collector did not take, and why, as its answer says.

    Raises:
        ValueError: it is no answer of a collector.
    """
    said = ExportTraceServiceResponse()
    _read(said, answer)
    return said.partial_success.rejected_spans, said.partial_success.error_message


def refused_logs(answer: bytes) -> tuple[int, str]:
    """Return how many log records a collector did not take, and why, as its answer says.

    Raises:
        ValueError: it is no answer of a collector.
    """
    said = ExportLogsServiceResponse()
    _read(said, answer)
    return said.partial_success.rejected_log_records, said.partial_success.error_message


def _read(said: Message, answer: bytes) -> None:
    try:
        said.ParseFromString(answer)
    except DecodeError as fault:
        raise ValueError("the answer is none of OTLP") from fault


def _span(span: TraceSpan) -> trace.Span:
    failed = trace.Status.STATUS_CODE_UNSET if span.error is None else trace.Status.STATUS_CODE_ERROR
    return trace.Span(
        trace_id=span.context.trace_id,
        span_id=span.context.span_id,
        parent_span_id=span.parent or b"",
        flags=_SAMPLED,
        name=span.name,
        kind=_KINDS[span.kind],
        start_time_unix_nano=span.start_ms * _NS,
        end_time_unix_nano=span.end_ms * _NS,
        attributes=_pairs(span.attributes),
        events=[_event(one) for one in span.events],
        dropped_events_count=span.dropped_events,
        links=[_link(one) for one in span.links],
        status=trace.Status(code=failed, message=span.error or ""),
    )


def _event(event: SpanEvent) -> trace.Span.Event:
    return trace.Span.Event(time_unix_nano=event.at_ms * _NS, name=event.name, attributes=_pairs(event.attributes))


def _link(link: Link) -> trace.Span.Link:
    return trace.Span.Link(
        trace_id=link.span.trace_id, span_id=link.span.span_id, attributes=_pairs({names.LINK: link.says})
    )


def _record(record: LogRecord) -> logs.LogRecord:
    found = logs.LogRecord(
        time_unix_nano=record.at_ms * _NS,
        observed_time_unix_nano=record.at_ms * _NS,
        severity_number=_SEVERITIES[record.severity],
        severity_text=record.severity.name,
        attributes=_pairs(record.attributes),
        event_name=record.name,
    )
    if record.span is not None:
        found.flags, found.trace_id, found.span_id = _SAMPLED, record.span.trace_id, record.span.span_id
    return found


def _scope(version: str) -> common.InstrumentationScope:
    return common.InstrumentationScope(name="lifebus", version=version)


def _pairs(attributes: Attributes) -> list[common.KeyValue]:
    return [common.KeyValue(key=name, value=_value(value)) for name, value in sorted(attributes.items())]


def _value(value: Value) -> common.AnyValue:
    # bool first: it is an int as well
    if isinstance(value, bool):
        return common.AnyValue(bool_value=value)
    if isinstance(value, int):
        return common.AnyValue(int_value=value)
    if isinstance(value, str):
        return common.AnyValue(string_value=value)
    return common.AnyValue(array_value=common.ArrayValue(values=_values(value)))


def _values(values: Iterable[str]) -> list[common.AnyValue]:
    return [common.AnyValue(string_value=one) for one in values]
