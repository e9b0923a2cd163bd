"""Spans as text that a person can review: traces as trees, times from the first one on."""

from collections.abc import Sequence

from lifebus_contract import Receipt
from lifebus_supervisor.traces.session_spans import SessionSpans
from lifebus_supervisor.traces.spans import TraceSpan


def spans_of(receipts: Sequence[Receipt]) -> list[TraceSpan]:
    """Return the spans of receipts, in the order in which they are exported."""
    sessions: dict[tuple[str, str], SessionSpans] = {}
    found: list[TraceSpan] = []
    for position, receipt in enumerate(receipts, 1):
        key = (receipt.adapter_id, receipt.harness_session_id or "")
        session = sessions.setdefault(key, SessionSpans(*key))
        found += session.apply(receipt, position).spans
    return found


def trace_text(spans: Sequence[TraceSpan]) -> str:
    """Return spans as text: each trace is a tree, each link names the span to which it leads."""
    begin = min(span.start_ms for span in spans)
    labels = {span.context.span_id: f"#{number}" for number, span in enumerate(_sorted(spans), 1)}
    lines: list[str] = []
    traces = list(dict.fromkeys(span.context.trace_id for span in _sorted(spans)))
    for number, trace in enumerate(traces, 1):
        members = [span for span in _sorted(spans) if span.context.trace_id == trace]
        known = {span.context.span_id for span in members}
        lines.append(f"trace {number}")
        for root in members:
            if root.parent not in known:
                lines += _tree(root, members, labels, begin, 1)
    return "\n".join(lines) + "\n"


def _tree(span: TraceSpan, members: list[TraceSpan], labels: dict[bytes, str], begin: int, depth: int) -> list[str]:
    indent = "  " * depth
    failed = f" ERROR {span.error}" if span.error else ""
    times = f"{span.start_ms - begin}–{span.end_ms - begin} ms"
    lines = [f"{indent}{labels[span.context.span_id]} {span.name} [{span.kind.name}] {times}{failed}"]
    lines += [f"{indent}    {name}={value}" for name, value in sorted(span.attributes.items())]
    for event in span.events:
        told = " ".join(f"{name}={value}" for name, value in sorted(event.attributes.items()))
        lines.append(f"{indent}  * {event.at_ms - begin} ms {event.name} {told}".rstrip())
    lines += [f"{indent}  -> {link.says} {labels.get(link.span.span_id, 'elsewhere')}" for link in span.links]
    for child in members:
        if child.parent == span.context.span_id:
            lines += _tree(child, members, labels, begin, depth + 1)
    return lines


def _sorted(spans: Sequence[TraceSpan]) -> list[TraceSpan]:
    return sorted(spans, key=lambda span: (span.start_ms, -span.end_ms, span.name, span.context.span_id))
