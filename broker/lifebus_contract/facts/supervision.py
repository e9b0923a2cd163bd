"""Facts of `supervisor.tick`, `capability.degraded` and `receipt.gap_detected`.  Pure."""

from typing import Final

from lifebus_contract.facts.fact import ANY_EVENT, Fact, FactType, flag, number, text
from lifebus_contract.vocabulary import LifecycleEvent

TICK: Final = (LifecycleEvent.SUPERVISOR_TICK,)
DEGRADED: Final = (LifecycleEvent.CAPABILITY_DEGRADED,)
GAP: Final = (LifecycleEvent.RECEIPT_GAP_DETECTED,)

_SERVER: Final = "codex app-server"
_FLOWS: Final = "flows"
_FLOW_TEST: Final = "tests/supervisor/runtime/test_flow_facts.py"
_STEERING: Final = "tests/integration/steering/test_steering.py"
_INTAKE: Final = "tests/supervisor/app_server/test_intake.py"
_FAILED_CALLS: Final = "tests/supervisor/hook_intake/test_failed_calls.py"
_CHECKPOINTS: Final = "tests/integration/checkpoints/test_receipts.py"

_HOOKS: Final = "hooks of codex, gemini and opencode"
_WAIT_HOOKS: Final = f"{_HOOKS}; flows"
_WAIT_TEST: Final = "tests/supervisor/supervision/test_waiting.py"

_WAITS: Final = (
    text(
        "waiting",
        "the session begins to wait for a person, or does not any more ([waiting.md](../waiting.md))",
        TICK,
        "begun ended",
        reporter=_WAIT_HOOKS,
        shown_by=_WAIT_TEST,
    ),
    text("waiting_for", "for what", TICK, "permission input idle", reporter=_WAIT_HOOKS, shown_by=_WAIT_TEST),
    text(
        "waiting_kind",
        "for what kind of thing: a tool's name, the kind of a question; never its text",
        TICK,
        reporter=_WAIT_HOOKS,
        shown_by=_WAIT_TEST,
    ),
    number("waiting_since_ms", "since when", TICK, "ms since 1970", reporter=_WAIT_HOOKS, shown_by=_WAIT_TEST),
    text(
        "waiting_id",
        "the harness's own id of the request",
        TICK,
        reporter="hooks of opencode; flows",
        shown_by=_WAIT_TEST,
    ),
    number("waited_ms", "how long a person took", TICK, "ms", reporter=_HOOKS, shown_by=_WAIT_TEST),
    text(
        "waiting_ended_by",
        "what shows that it does not wait any more",
        TICK,
        "answered resolved unanswered tool_result turn_ended prompt next_request session_ended session_started",
        reporter=_WAIT_HOOKS,
        shown_by=_WAIT_TEST,
    ),
    text("frame_id", "the turn or sub-agent that waits, or that a question is asked in", TICK),
    text(
        "parent_frame_id",
        "the frame in which that one stands",
        TICK,
        reporter="claude, codex",
        shown_by=_WAIT_TEST,
    ),
)

_QUESTIONS: Final = (
    text(
        "operator", "what became of a question of the harness to a person", TICK, "asked answered resolved unanswered"
    ),
    text("operator_kind", "what kind of question it is: `command_approval`, `elicitation`, `flow.approval`", TICK),
    Fact(
        key="request_id",
        kind=FactType.TEXT_OR_INTEGER,
        meaning="the id of the question; app-servers count them",
        events=TICK,
    ),
    text("method", "the app-server's method that asked it", TICK),
    text("item_id", "what it is about: the app-server's id of the command or the change", TICK),
    text("decision", "the answer, in the harness's own word", TICK),
    text("answered_by", "the client that answered it over lifebus", TICK, reporter=_SERVER, shown_by=_STEERING),
    text("source", "where it was seen", TICK),
    text(
        "steered",
        "the request that lifebus sent to the app-server",
        TICK,
        reporter=_SERVER,
        shown_by=_STEERING,
    ),
    text("steered_by", "the client for which it did", TICK, reporter=_SERVER, shown_by=_STEERING),
)

_ERRORS: Final = (
    text(
        "error",
        "an error that does not end the turn, in the harness's own word",
        TICK,
        reporter=_SERVER,
        shown_by=_INTAKE,
    ),
    flag("will_retry", "whether the harness tries again by itself", TICK, reporter=_SERVER, shown_by=_INTAKE),
    text("failure_class", "what the error is in lifecycle terms", TICK, reporter=_SERVER, shown_by=_INTAKE),
    text("retry_class", "what may be done next", TICK, reporter=_SERVER, shown_by=_INTAKE),
    number(
        "http_status",
        "the status with which the model's server refused",
        TICK,
        reporter=_SERVER,
        shown_by="tests/adapters/app_server/test_facts.py",
    ),
)

_OWN: Final = (
    number("observed", "how many facts this tick recorded", TICK),
    text("harness_process", "the harness's process, `<pid>@<start>`, where it changed", TICK),
    number(
        "compactions_before",
        "compactions that the session's file proves from before it was supervised",
        TICK,
        reporter="the supervisor",
        shown_by="tests/supervisor/supervision/test_pressure_readings.py",
    ),
    text(
        "canary",
        "the id of a canary of `lifebus hooks test`",
        TICK,
        reporter="the hook `lifebus.canary`",
        shown_by="tests/cli/test_hooks_canary.py",
    ),
    text(
        "reason",
        "why a hook call could not be read: an [error code](../wire-protocol.md#error-codes)",
        TICK,
        reporter="the hook server",
        shown_by=_FAILED_CALLS,
    ),
    number("size", "how large its payload was", TICK, "bytes", reporter="the hook server", shown_by=_FAILED_CALLS),
    text("field", "where in the payload it is wrong", TICK, reporter="the hook server", shown_by=_FAILED_CALLS),
    flag(
        "forgotten",
        "an operator had the session forgotten ([sessions.md](../sessions.md#closing-and-forgetting))",
        TICK,
        reporter="the supervisor",
        shown_by="tests/integration/test_closing_sessions.py",
    ),
    text(
        "forgotten_by",
        "the client by which that was done",
        TICK,
        reporter="the supervisor",
        shown_by="tests/integration/test_closing_sessions.py",
    ),
    text("checkpoint_name", "the name of a checkpoint", TICK, reporter="clients", shown_by=_CHECKPOINTS),
    text("checkpoint_run", "the run whose checkpoint it is", TICK, reporter="clients", shown_by=_CHECKPOINTS),
)

_RUNS: Final = (
    text("run", "what happened to the run", TICK, "interrupted", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("interruptions", "how often the run was interrupted", TICK, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("step", "the phase that it is about", TICK, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("step_state", "what the phase does now", TICK, "backing_off", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("retry_at_ms", "when it is tried again", TICK, "ms since 1970", reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("action", "what a person had done: an answer, `retry`, `abort`", TICK, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("responder", "who that was", TICK, reporter=_FLOWS, shown_by=_FLOW_TEST),
)

_LOSSES: Final = (
    text(
        "cause",
        "why capabilities are weaker, or of which loss they recovered ([supervision.md](../supervision.md))",
        DEGRADED,
        reporter="the supervisor",
        shown_by="tests/supervisor/supervision/test_silence.py",
    ),
    text(
        "evidence",
        "what shows it, in words",
        DEGRADED,
        reporter="the supervisor",
        shown_by="tests/supervisor/supervision/test_silence.py",
    ),
    text(
        "cause",
        "in a correction: why a delivery turned out false",
        tuple(event for event in ANY_EVENT if event not in DEGRADED),
        reporter="the broker, in a correction",
        shown_by="tests/supervisor/corrections/test_deliveries.py",
    ),
)

_GAPS: Final = (
    number(
        "missing_first",
        "the first number of the harness's own that is missing",
        GAP,
        reporter="the broker",
        shown_by="tests/integration/test_idempotency.py",
    ),
    number(
        "missing_last",
        "the last one",
        GAP,
        reporter="the broker",
        shown_by="tests/integration/test_idempotency.py",
    ),
    number(
        "missed_messages",
        "messages of an app-server, or calls of hooks, that nobody could take; null where nobody counted them",
        GAP,
        nullable=True,
        reporter="the observer of an app-server; hooks",
        shown_by=_INTAKE,
    ),
    number(
        "missed_bytes",
        "how large they were",
        GAP,
        "bytes",
        reporter="the observer of an app-server",
        shown_by=_INTAKE,
    ),
    number(
        "exit_code",
        "the exit code of the app-server, where it had ended by then",
        GAP,
        reporter="the observer of an app-server",
        shown_by="tests/adapters/hooks/test_own_hooks.py",
    ),
    text(
        "source",
        "where it was seen",
        GAP,
        reporter="the observer of an app-server",
        shown_by=_INTAKE,
    ),
)

FACTS: Final = (*_WAITS, *_QUESTIONS, *_ERRORS, *_OWN, *_RUNS, *_LOSSES, *_GAPS)
"""Facts of what the supervisor finds."""
