"""What a run is on the bus: a record in, lifecycle events out (docs/flows.md, "On the bus").  Pure.

Ids and keys are derived from the run and the number of the record, so that emitting again after a crash changes
nothing.  The run is a session, a try is a frame.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from lifebus_broker.state.pressure import percent_of
from lifebus_broker.state.telemetry_keys import (
    FRAME,
    OPERATOR,
    OPERATOR_KIND,
    PERCENT,
    REQUEST,
    USED,
    WAITING,
    WAITING_ENDED_BY,
    WAITING_FOR,
    WAITING_ID,
    WAITING_KIND,
    WAITING_SINCE,
)
from lifebus_broker.state.waiting import BEGUN, ENDED, INPUT, PERMISSION
from lifebus_contract import (
    CONTRACT_VERSION,
    AcceptablePlacement,
    CallbackRequest,
    Emission,
    FailureClass,
    FrameClass,
    FrameContext,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    RequirementLevel,
    RetryClass,
)
from lifebus_contract.fields import FactValue
from lifebus_contract.flows import OutcomeKind, StepVerdict
from lifebus_contract.ids import EVENT, INVOCATION, PAYLOAD
from lifebus_contract.questions import QuestionKind
from lifebus_contract.runs import ContextSignals
from lifebus_contract.vocabulary import FLOW_ADAPTER
from lifebus_supervisor.runtime.bus.manifest import ADAPTER_VERSION, MODE
from lifebus_supervisor.runtime.limits.run_limits import fullest
from lifebus_supervisor.runtime.limits.signals import CONTEXT, signals_json
from lifebus_supervisor.runtime.run_names import frame_id
from lifebus_supervisor.runtime.run_records import (
    AbortRequested,
    Answered,
    Asked,
    ContextUse,
    PressureChanged,
    RetryRequested,
    RunAttached,
    RunDetached,
    RunEnded,
    RunRecord,
    TryEnded,
    TryStarted,
)
from lifebus_supervisor.runtime.run_state import RunState

CLIENT_ID: Final = "lifebus.flow"
"""The client under whose name runs are reported."""

SIGNALS: Final = "flow.signals"
"""The kind of the payload that says what is left for a try."""

QUESTION_KIND: Final = "flow."
"""What the kind of a run's question begins with on the bus; the kind of the inbox follows."""

_Facts = dict[str, FactValue]
_Failure = tuple[FailureClass, RetryClass]


class _Maker:
    """Makes the emissions of one record of a run."""

    def __init__(self, state: RunState) -> None:
        self._state = state
        self._made: list[Emission] = []

    def add(
        self,
        event: LifecycleEvent,
        facts: _Facts | None = None,
        *,
        step: str | None = None,
        frame: str | None = None,
        payloads: tuple[PayloadEnvelope, ...] = (),
    ) -> None:
        """Add an event; `frame` is the frame that it is about, `step` the step."""
        state = self._state
        place = f"{state.run_id}.{state.number}"
        telemetry: _Facts = {name: value for name, value in (facts or {}).items() if value is not None}
        if step is not None:
            telemetry["step"] = step
        if frame is not None:
            telemetry[FRAME] = frame
        request = CallbackRequest(
            schema_version=CONTRACT_VERSION,
            event=event,
            event_id=f"{EVENT}{place}.{len(self._made)}",
            adapter_id=FLOW_ADAPTER,
            adapter_version=ADAPTER_VERSION,
            invocation_id=f"{INVOCATION}{place}",
            integration_mode=MODE,
            harness_session_id=state.run_id,
            harness_task_id=step if frame is not None else None,
            frame_context=None if frame is None else FrameContext(frame_id=frame, frame_class=FrameClass.TOP_LEVEL),
            idempotency_key=f"flow:{place}.{len(self._made)}",
            metadata={"cwd": state.definition.root},
        )
        self._made.append(Emission(request=request, payloads=payloads, telemetry=telemetry))

    def signals(self, signals: ContextSignals) -> PayloadEnvelope:
        """Return the signals of a try as a payload that only a receipt takes."""
        body = signals_json(signals)
        return PayloadEnvelope(
            schema_version=CONTRACT_VERSION,
            payload_id=f"{PAYLOAD}{self._state.run_id}.{self._state.number}",
            client_id=CLIENT_ID,
            payload_kind=SIGNALS,
            format="json",
            content_encoding="utf8",
            byte_size=len(body.encode()),
            body=body,
            acceptable_placements=(
                AcceptablePlacement(placement=PlacementClass.RECEIPT_ONLY, requirement=RequirementLevel.REQUIRED),
            ),
        )

    @property
    def made(self) -> tuple[Emission, ...]:
        """What was added, in order."""
        return tuple(self._made)


def emissions_of(after: RunState, record: RunRecord) -> tuple[Emission, ...]:
    """Return what a record is on the bus; `after` is the state after it."""
    handler = _HANDLERS.get(type(record))
    if handler is None:
        return ()
    maker = _Maker(after)
    handler(maker, after, record)
    return maker.made


def _attached(maker: _Maker, after: RunState, record: RunAttached) -> None:
    facts: _Facts = {"flow": after.definition.name, "owner": record.owner, "interruptions": after.interruptions}
    maker.add(LifecycleEvent.SESSION_STARTING, facts)
    maker.add(LifecycleEvent.SESSION_STARTED, facts)


def _detached(maker: _Maker, after: RunState, _: RunDetached) -> None:
    maker.add(LifecycleEvent.SUPERVISOR_TICK, {"run": "interrupted", "interruptions": after.interruptions})


def _try_started(maker: _Maker, after: RunState, record: TryStarted) -> None:
    step = after.steps[record.step]
    frame = frame_id(record.step, record.number)
    facts: _Facts = {"try": record.number, "series": step.series, "retry": step.retry}
    payloads = () if record.signals is None else (maker.signals(record.signals),)
    maker.add(LifecycleEvent.FRAME_OPENING, facts, step=record.step, frame=frame, payloads=payloads)
    maker.add(LifecycleEvent.FRAME_OPENED, facts, step=record.step, frame=frame)


def _try_ended(maker: _Maker, _: RunState, record: TryEnded) -> None:
    frame = frame_id(record.step, record.number)
    outcome = record.outcome
    facts: _Facts = {
        "frame_end": _FRAME_ENDS.get(outcome.kind, "failed"),
        "outcome": outcome.kind.value,
        "exit_code": outcome.code,
        "signal_number": outcome.signal,
        "verdict": None if record.verdict is None else record.verdict.value,
        "code_name": record.label,
        "unknown_code": True if record.unknown_code else None,
        "duration_ms": record.duration_ms,
        "stdout_bytes": record.stdout_bytes,
        "stderr_bytes": record.stderr_bytes,
        "left_processes": record.left_processes or None,
        "output_fault": record.output_fault or None,
        "retries_left": record.retry_at_ms is not None,
    }
    if record.verdict is StepVerdict.PROCEED:
        facts["frame_end"] = "completed"
        del facts["retries_left"]
    maker.add(LifecycleEvent.FRAME_ENDING, {"frame_end": facts["frame_end"]}, step=record.step, frame=frame)
    maker.add(LifecycleEvent.FRAME_ENDED, facts, step=record.step, frame=frame)
    if record.retry_at_ms is not None:
        pause: _Facts = {"step_state": "backing_off", "retry_at_ms": record.retry_at_ms}
        maker.add(LifecycleEvent.SUPERVISOR_TICK, pause, step=record.step)


def _pressed(maker: _Maker, after: RunState, record: PressureChanged) -> None:
    """Report that a limit has come near; that it is left again is no event."""
    if not record.near:
        return
    facts: _Facts = {"near": ",".join(record.near), "near_limit_percent": after.definition.near_limit_percent}
    step = None if record.step is None else after.steps[record.step]
    frame = None if record.step is None or step is None else frame_id(record.step, step.number)
    if step is not None and CONTEXT in record.near:
        facts |= _context_facts(after, fullest(step.context))
    maker.add(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, facts, step=record.step, frame=frame)


def _context_facts(after: RunState, context: ContextUse) -> _Facts:
    window = context.window or after.definition.context_tokens
    if context.used is None or window is None:
        return {}
    return {USED: context.used, "context_window_tokens": window, PERCENT: percent_of(context.used, window)}


def _asked(maker: _Maker, _: RunState, record: Asked) -> None:
    facts: _Facts = {
        OPERATOR: "asked",
        OPERATOR_KIND: f"{QUESTION_KIND}{record.question_kind.value}",
        REQUEST: record.question_id,
        **_wait_facts(record),
        WAITING: BEGUN,
        WAITING_SINCE: record.at_ms,
    }
    maker.add(LifecycleEvent.SUPERVISOR_TICK, facts, step=record.step)


def _answered(maker: _Maker, _: RunState, record: Answered) -> None:
    facts: _Facts = {
        OPERATOR: "answered",
        OPERATOR_KIND: f"{QUESTION_KIND}{record.question_kind.value}",
        REQUEST: record.question_id,
        "action": record.action.value,
        "responder": record.responder,
        **_wait_facts(record),
        WAITING: ENDED,
        WAITING_ENDED_BY: "answered",
    }
    maker.add(LifecycleEvent.SUPERVISOR_TICK, facts, step=record.step)


def _wait_facts(record: Asked | Answered) -> _Facts:
    return {
        WAITING_FOR: PERMISSION if record.question_kind is QuestionKind.APPROVAL else INPUT,
        WAITING_KIND: f"{QUESTION_KIND}{record.question_kind.value}",
        WAITING_ID: record.question_id,
    }


def _retried(maker: _Maker, _: RunState, record: RetryRequested) -> None:
    maker.add(LifecycleEvent.SUPERVISOR_TICK, {"action": "retry", "responder": record.by}, step=record.step)


def _aborting(maker: _Maker, _: RunState, record: AbortRequested) -> None:
    maker.add(LifecycleEvent.SUPERVISOR_TICK, {"action": "abort", "responder": record.by})


def _ended(maker: _Maker, after: RunState, record: RunEnded) -> None:
    facts: _Facts = {"session_end": record.status.value, "reason": record.reason[:256] or None}
    if (total := after.limits.costs.total).calls:
        facts |= {"tokens": total.tokens, "cost_micros": total.cost_micros, "unpriced_calls": total.unpriced_calls}
    maker.add(LifecycleEvent.SESSION_ENDING, {"session_end": record.status.value})
    maker.add(LifecycleEvent.SESSION_ENDED, facts)


_HANDLERS: Final[Mapping[type, Callable[[_Maker, RunState, Any], None]]] = {
    RunAttached: _attached,
    RunDetached: _detached,
    TryStarted: _try_started,
    TryEnded: _try_ended,
    PressureChanged: _pressed,
    Asked: _asked,
    Answered: _answered,
    RetryRequested: _retried,
    AbortRequested: _aborting,
    RunEnded: _ended,
}

_FRAME_ENDS: Final = {
    OutcomeKind.INTERRUPTED: "interrupted",
    OutcomeKind.ABORTED: "interrupted",
}


def failure_of(event: LifecycleEvent, facts: Mapping[str, FactValue]) -> _Failure | None:
    """Return the failure and retry class of an event of a run, by its facts; None where nothing failed.

    That a person is needed stands with the question, and not with the end of the try: it is settled by the answer.
    """
    if event is LifecycleEvent.SUPERVISOR_TICK:
        is_asked = facts.get(OPERATOR) == "asked"
        return (FailureClass.OPERATOR_REQUIRED, RetryClass.RETRY_AFTER_OPERATOR) if is_asked else None
    if event is not LifecycleEvent.FRAME_ENDED or facts.get("frame_end") == "completed":
        return None
    outcome, verdict = facts.get("outcome"), facts.get("verdict")
    if outcome == OutcomeKind.ABORTED:
        return None
    if outcome == OutcomeKind.CANNOT_START or verdict == StepVerdict.ALERT:
        return FailureClass.ADAPTER_UNAVAILABLE, RetryClass.RETRY_AFTER_RECONFIGURE
    failure = FailureClass.TIMEOUT if outcome == OutcomeKind.TIMED_OUT else FailureClass.TRANSPORT_ERROR
    is_retried = facts.get("retries_left") is True or outcome == OutcomeKind.INTERRUPTED
    return failure, RetryClass.SAFE_RETRY if is_retried else RetryClass.DO_NOT_RETRY
