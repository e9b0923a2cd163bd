"""Facts of `frame.opening`, `frame.opened`, `frame.ending` and `frame.ended`.  Pure."""

from typing import Final

from lifebus_contract.facts.fact import flag, number, text
from lifebus_contract.failure import FailureClass, RetryClass
from lifebus_contract.vocabulary import LifecycleEvent

OPENED: Final = (LifecycleEvent.FRAME_OPENED,)
OPENS: Final = (LifecycleEvent.FRAME_OPENING, *OPENED)
ENDING: Final = (LifecycleEvent.FRAME_ENDING,)
ENDED: Final = (LifecycleEvent.FRAME_ENDED,)
ALL: Final = (*OPENS, *ENDING, *ENDED)

_FLOWS: Final = "flows"
_FLOW_TEST: Final = "tests/supervisor/runtime/test_flow_facts.py"
_CONTINUED_TEST: Final = "tests/supervisor/supervision/test_announced_ends.py"

_TURNS: Final = (
    text(
        "frame_id",
        "the frame: the harness's own id of the turn, the prompt or the sub-agent, or `turn-1`, `turn-2` … where it "
        "has none",
        ALL,
    ),
    text("parent_frame_id", "the frame in which this one stands: that of a sub-agent's caller", ALL),
    text("agent_type", "the kind of sub-agent, in the harness's own word", (*OPENS, *ENDING)),
    text("model", "the model of the turn", OPENS),
    text("trigger", "what began the turn, in the harness's own word: `user`", OPENS),
    flag("is_first_turn", "whether it is the session's first turn", OPENS),
    flag("continues", "the frame was open already, and goes on after a refused stop", OPENS),
    flag("compacting", "a turn of the app-server that only rewrites the context", OPENED),
    text("source", "what showed that the turn began, where no hook did", OPENED),
    text(
        "continues_frame_id",
        "the frame whose recorded end came too early: this one goes on where it stopped",
        OPENED,
        reporter="the supervisor",
        shown_by=_CONTINUED_TEST,
    ),
    flag(
        "synthesized",
        "no hook reported it: lifebus concluded it",
        OPENED,
        reporter="the supervisor",
        shown_by=_CONTINUED_TEST,
    ),
    text(
        "evidence",
        "what it was concluded from, in words",
        OPENED,
        reporter="the supervisor",
        shown_by=_CONTINUED_TEST,
    ),
    text(
        "announced_end",
        "how the turn is to end, as the stop hook announces it; `frame.ended` follows and says how it did",
        ENDING,
        "completed failed interrupted",
    ),
    number(
        "announced_ends",
        "how often this end was announced, this time included: a refused stop makes the turn go on",
        ENDING,
    ),
    flag("stop_hook_active", "whether the turn goes on already because a stop was refused", ENDING),
    text(
        "frame_end",
        "how the frame ended. `blocked`: a hook refused the prompt; `abandoned`: its session or process "
        "is gone, and it was at work; `unknown`: nothing shows whether its prompt was taken",
        ENDED,
        "completed failed interrupted blocked abandoned unknown",
    ),
    text("evidence", "what shows the end, in words", ENDED),
    text("source", "where that was seen: `rollout`, `transcript`, `app_server`, `supervisor`", ENDED),
    text(
        "error",
        "why the turn is about to fail, in the harness's own word",
        ENDING,
        reporter="opencode",
        shown_by="tests/adapters/hooks/test_other.py",
    ),
    text("error", "why it failed, in the harness's own word: `server_error`, `contextWindowExceeded`", ENDED),
    text(
        "failure_class",
        "what that is in lifecycle terms ([contract.md](../contract.md#71-failure-classes))",
        ENDED,
        " ".join(FailureClass),
    ),
    text("retry_class", "what may be done next", ENDED, " ".join(RetryClass)),
    flag("will_retry", "whether the harness tries again by itself", ENDED),
    number("http_status", "the status with which the model's server refused", ENDED),
    number(
        "duration_ms",
        "how long the turn took",
        ENDED,
        "ms",
        reporter="openclaw, flows",
        shown_by=_FLOW_TEST,
    ),
)

_STEPS: Final = (
    text("step", "the phase of the flow", ALL, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("try", "the number of the try", OPENS, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number(
        "series", "how often the phase was begun anew by hand or by a jump", OPENS, reporter=_FLOWS, shown_by=_FLOW_TEST
    ),
    number("retry", "how many tries of this series came before", OPENS, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text(
        "frame_end",
        "how the try is about to end",
        ENDING,
        "completed failed interrupted",
        reporter=_FLOWS,
        shown_by=_FLOW_TEST,
    ),
    text(
        "outcome", "what became of the program ([flows.md](../flows.md))", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST
    ),
    text("verdict", "what the flow makes of it", ENDED, nullable=True, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("exit_code", "the exit code of the phase's program", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("signal_number", "the signal that ended the program", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("code_name", "what the flow calls that exit code", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    flag("unknown_code", "the flow does not know that exit code", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("stdout_bytes", "how much it wrote to stdout", ENDED, "bytes", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("stderr_bytes", "how much it wrote to stderr", ENDED, "bytes", reporter=_FLOWS, shown_by=_FLOW_TEST),
    number("left_processes", "processes that it left behind", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    text("output_fault", "why its output could not be kept", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
    flag("retries_left", "whether it is tried again", ENDED, reporter=_FLOWS, shown_by=_FLOW_TEST),
)

FACTS: Final = (*_TURNS, *_STEPS)
"""Facts of turns, sub-agents, and phases of flows."""
