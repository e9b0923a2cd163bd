"""The reducer of a session's spans: receipts in the order of the ledger in, spans that have ended out.

The same receipts always give the same spans with the same ids, so that whoever reads a session again exports again what
was exported, and nothing else.  Pure.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.session_head import INITIAL, MAX_OPEN_FRAMES, next_head
from lifebus_broker.state.telemetry_keys import (
    BACKGROUND_CLIENT,
    CORRECTS,
    FRAME,
    FRAME_END,
    PARENT_FRAME,
    SESSION_END,
    SOURCE,
)
from lifebus_broker.trace_context import SpanContext, begun_span, dispatch_span, session_trace, trace_of
from lifebus_contract import LifecycleEvent, Receipt
from lifebus_contract.facts.selections import tells_of_failure
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.traces import attributes, names
from lifebus_supervisor.traces.moments import moment_of
from lifebus_supervisor.traces.open_spans import OpenSpan
from lifebus_supervisor.traces.receipt_times import asked_ms, happened_ms, recorded_ms
from lifebus_supervisor.traces.spans import Link, SpanKind, TraceSpan

MAX_REMEMBERED: Final = 64
"""How many frames that have ended, and how many events, a session remembers."""

_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_STARTS: Final = frozenset({LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED})
_ABANDONED: Final = "abandoned"
_UNKNOWN: Final = "unknown"
_OTHER: Final = "_OTHER"
"""The word of OpenTelemetry for an error of which nothing more is known."""

_EventKey = tuple[LifecycleEvent, str, str, object]


class Applied(Struct, frozen=True):
    """What follows from a receipt: the spans that ended with it, and the one during which it happened."""

    spans: tuple[TraceSpan, ...]
    during: SpanContext | None


class SessionSpans:
    """The spans of one session.  `last_position` is the position of the receipt that was applied last."""

    def __init__(self, adapter_id: str, session: str) -> None:
        self.last_position = 0
        self._adapter, self._session = adapter_id, session
        self._course = INITIAL
        self._life: OpenSpan | None = None
        self._last_life: SpanContext | None = None
        self._frames: dict[str, OpenSpan] = {}
        self._known: OrderedDict[str, SpanContext] = OrderedDict()
        self._events: OrderedDict[_EventKey, None] = OrderedDict()

    def apply(self, receipt: Receipt, position: int) -> Applied:
        """Take the next receipt of the session; one that was applied before ends nothing."""
        if position <= self.last_position:
            return Applied((), None)
        self.last_position = position
        self._begin_life(receipt)
        ended = list(self._apply_event(receipt)) if self._is_new(receipt) else []
        during = self._during(receipt)
        if EMITTER in receipt.telemetry_summary and CORRECTS not in receipt.telemetry_summary:
            asked = dispatch_of(receipt, during, self._last_life)
            ended.insert(0, asked)
            during = asked.context
        return Applied(tuple(ended), during)

    def _is_new(self, receipt: Receipt) -> bool:
        """Whether an event was not applied with another receipt: each client that was asked about it has its own."""
        facts = receipt.telemetry_summary
        if BACKGROUND_CLIENT in facts and CORRECTS not in facts:
            return False
        which = receipt.receipt_id if CORRECTS in facts else facts.get(FRAME)
        key = (receipt.event, receipt.event_id, receipt.invocation_id, which)
        if key in self._events:
            return False
        self._events[key] = None
        if len(self._events) > MAX_REMEMBERED:
            self._events.popitem(last=False)
        return True

    def _begin_life(self, receipt: Receipt) -> None:
        """Begin a span of the session with its first receipt, and with the one that shows that it goes on."""
        before, self._course = self._course, next_head(self._course, receipt.event, receipt.telemetry_summary)
        if self._life is None and (self._last_life is None or (before.ended and not self._course.ended)):
            context = SpanContext(
                session_trace(self._adapter, self._session), begun_span(receipt.receipt_id, names.SESSION)
            )
            life = OpenSpan(context, None, f"{names.SESSION} {self._adapter}", happened_ms(receipt))
            life.attributes |= attributes.identity(receipt)
            if self._last_life is not None:
                life.links.append(Link(self._last_life, "resumed"))
                life.set(names.SESSION_RESUMED, True)
            self._life, self._last_life = life, context

    def _apply_event(self, receipt: Receipt) -> list[TraceSpan]:
        event, facts, frame = receipt.event, receipt.telemetry_summary, receipt.telemetry_summary.get(FRAME)
        self._note_start(receipt)
        if isinstance(frame, str) and event in _OPENS and CORRECTS not in facts:
            self._open_frame(receipt, frame)
        self._note_moment(receipt)
        if CORRECTS in facts:
            return []
        if event is LifecycleEvent.FRAME_ENDING and isinstance(frame, str) and frame in self._frames:
            self._frames[frame].ending_ms = happened_ms(receipt)
            self._frames[frame].ending_error = attributes.word(facts.get("error"))
        if event is LifecycleEvent.FRAME_ENDED and isinstance(frame, str):
            return [self._end_frame(receipt, frame)]
        if event is LifecycleEvent.SESSION_ENDED:
            return self._end_life(receipt)
        return [self._give_up(frame, receipt) for frame in list(self._frames)[:-MAX_OPEN_FRAMES]]

    def _note_start(self, receipt: Receipt) -> None:
        life = self._life
        if life is not None and receipt.event in _STARTS:
            life.set(names.MODEL, attributes.word(receipt.telemetry_summary.get(attributes.MODEL)))
            life.set(names.SESSION_SOURCE, attributes.word(receipt.telemetry_summary.get(SOURCE)))

    def _open_frame(self, receipt: Receipt, frame: str) -> None:
        """Open a frame, or go on with one whose end was announced."""
        facts = receipt.telemetry_summary
        if frame in self._frames:
            self._frames[frame].ending_ms = self._frames[frame].ending_error = None
        else:
            self._frames[frame] = self._new_frame(receipt, frame)
            self._known[frame] = self._frames[frame].context
            if len(self._known) > MAX_REMEMBERED:
                self._known.popitem(last=False)
        self._frames[frame].set(names.MODEL, attributes.word(facts.get(attributes.MODEL)))

    def _new_frame(self, receipt: Receipt, frame: str) -> OpenSpan:
        facts, parent = receipt.telemetry_summary, receipt.telemetry_summary.get(PARENT_FRAME)
        around = self._known.get(parent) if isinstance(parent, str) else None
        trace = trace_of(receipt, facts) if around is None else around.trace_id
        context = SpanContext(trace, begun_span(receipt.receipt_id, "frame"))
        is_nested = isinstance(parent, str)
        agent = attributes.word(facts.get(attributes.AGENT_TYPE)) or "sub-agent" if is_nested else self._adapter
        found = OpenSpan(
            context, None if around is None else around.span_id, self._name(receipt, agent), happened_ms(receipt)
        )
        found.attributes |= attributes.identity(receipt) | attributes.agent(self._adapter, agent)
        found.set(names.FRAME, frame)
        found.set(names.FRAME_CLASS, "sub-agent" if is_nested else "turn")
        self._link(found, facts.get(attributes.CONTINUES))
        if self._life is not None:
            self._life.count(names.SESSION_SUBAGENTS if is_nested else names.SESSION_TURNS)
        return found

    def _name(self, receipt: Receipt, agent: str) -> str:
        if self._adapter != FLOW_ADAPTER:
            return f"{names.INVOKE_AGENT} {agent}"
        step = attributes.word(receipt.telemetry_summary.get("step"))
        return f"{names.STEP} {step}" if step else names.STEP

    def _link(self, span: OpenSpan, continues: object) -> None:
        if self._last_life is not None:
            span.links.append(Link(self._last_life, "session"))
        if isinstance(continues, str) and continues in self._known:
            span.links.append(Link(self._known[continues], "continues"))

    def _note_moment(self, receipt: Receipt) -> None:
        """Have the span during which something happened tell of it."""
        found = moment_of(receipt)
        span = self._open_span_of(receipt.telemetry_summary.get(FRAME))
        if found is None or span is None:
            return
        span.add_event(found.name, happened_ms(receipt), found.attributes)
        if found.name == names.PRESSURE_EVENT:
            span.attributes |= found.attributes
        if found.name == names.COMPACTED_EVENT and self._life is not None:
            self._life.count(names.SESSION_COMPACTIONS)

    def _end_frame(self, receipt: Receipt, frame: str) -> TraceSpan:
        """End a frame; of one whose beginning is not known, nothing but the end is."""
        facts = receipt.telemetry_summary
        if frame not in self._frames:
            self._open_frame(receipt, frame)
        span = self._frames.pop(frame)
        span.set(names.FRAME_END, attributes.word(facts.get(FRAME_END)))
        error = _error_of(receipt, facts.get(FRAME_END), span.ending_error)
        span.set(names.ERROR, error)
        # An end that was announced is settled later: when the next turn begins, or after a while.
        return span.ended(happened_ms(receipt) if span.ending_ms is None else span.ending_ms, error)

    def _end_life(self, receipt: Receipt) -> list[TraceSpan]:
        """End a session, and before it the frames of which no end was reported."""
        at_ms, facts = happened_ms(receipt), receipt.telemetry_summary
        ended = [self._give_up(frame, receipt) for frame in list(self._frames)]
        life, self._life = self._life, None
        if life is None:
            return ended
        life.set(names.SESSION_END, attributes.word(facts.get(SESSION_END)))
        error = _error_of(receipt, facts.get(SESSION_END))
        life.set(names.ERROR, error)
        return [*ended, life.ended(at_ms, error)]

    def _give_up(self, frame: str, receipt: Receipt) -> TraceSpan:
        """End a frame of which nobody reports the end."""
        span = self._frames.pop(frame)
        span.set(names.FRAME_END, _UNKNOWN)
        return span.ended(happened_ms(receipt) if span.ending_ms is None else span.ending_ms, None)

    def _open_span_of(self, frame: object) -> OpenSpan | None:
        """Return the open span of a frame; without one that of the turn, or else that of the session."""
        if isinstance(frame, str) and frame in self._frames:
            return self._frames[frame]
        return next(iter(self._frames.values()), self._life)

    def _during(self, receipt: Receipt) -> SpanContext | None:
        """Return the span of the frame that a receipt names, or else of the turn or the session."""
        frame = receipt.telemetry_summary.get(FRAME)
        if isinstance(frame, str) and frame in self._known:
            return self._known[frame]
        span = self._open_span_of(frame)
        return self._last_life if span is None else span.context


def without_session(receipt: Receipt) -> TraceSpan | None:
    """Return the span of a dispatch that is about no session; None of other receipts."""
    return dispatch_of(receipt, None, None) if EMITTER in receipt.telemetry_summary else None


def dispatch_of(receipt: Receipt, during: SpanContext | None, life: SpanContext | None) -> TraceSpan:
    """Return the span of a client that was asked: its ids are those that the client was told."""
    context = dispatch_span(receipt, receipt.telemetry_summary, receipt.client_id)
    around = next((one for one in (during, life) if one is not None and one.trace_id == context.trace_id), None)
    # What names no frame, or one deeper than a sub-agent, is asked about in another trace than that of its turn.
    apart = during is not None and during != life and during.trace_id != context.trace_id
    links = (Link(during, "frame"),) if apart and during is not None else ()
    error = _error_of(receipt, None)
    return TraceSpan(
        context=context,
        parent=None if around is None else around.span_id,
        name=f"{names.DISPATCH} {receipt.client_id}",
        kind=SpanKind.CLIENT,
        start_ms=asked_ms(receipt),
        end_ms=recorded_ms(receipt),
        attributes=attributes.dispatch(receipt),
        links=links,
        error=error,
    )


def _error_of(receipt: Receipt, end: object, announced: str | None = None) -> str | None:
    """Return why something failed, in one word; None where it has not.  What was abandoned at work has failed, too."""
    if not tells_of_failure(receipt) and end != _ABANDONED:
        return None
    facts = receipt.telemetry_summary
    told = (receipt.failure_class, facts.get("error"), facts.get("failure_class"), announced)
    found = next((attributes.word(str(one)) for one in told if one is not None), None)
    return found or (_ABANDONED if end == _ABANDONED else _OTHER)
