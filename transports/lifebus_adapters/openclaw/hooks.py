"""OpenClaw's plugin hooks, as captured from 2026.9.6.

A plugin inside OpenClaw passes on ``{"hook": …, "event": …, "ctx": …}``.  A run is a frame.  session_start,
session_end and the compaction hooks are documented, but were not seen in a local run: those are the Gateway's.
after_compaction also comes when nothing was compacted; its `compactedCount` is 0 then.

before_prompt_build and agent_end come for each attempt of a run: again after a failed request, and where a plugin has
refused before_agent_finalize.  `success` of agent_end may be true after a model's error: the database knows better.

`before_prompt_build` may return ``{"prependContext": …}``.  The text lands in front of the prompt, inside the user's
message: `pre_frame_leading`, and no `developer_equivalent_frame`.
"""

from typing import Any, Final

from lifebus_adapters.shared.fields import Payload, scalar
from lifebus_adapters.shared.rules import (
    FRAME_OPEN,
    SESSION_CLOSE,
    SESSION_OPEN,
    FactField,
    HookRule,
    HookTable,
    IdentityPaths,
)
from lifebus_contract import LifecycleEvent, ManifestPlacementClass


def _run_end(payload: Payload) -> str:
    """Return how the run ended."""
    return "failed" if scalar(payload, "event.success", bool) is False else "completed"


def _answer(hook: str, context: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    return {"prependContext": context}


_MODEL: Final = FactField("ctx.modelId", name="model")
_TRIGGER: Final = FactField("ctx.trigger")

HOOKS: Final = HookTable(
    name=("hook",),
    identity=IdentityPaths(
        session=("ctx.sessionId", "event.sessionId"),
        run=("ctx.runId", "event.runId"),
    ),
    rules={
        "session_start": HookRule(events=SESSION_OPEN),
        "before_prompt_build": HookRule(
            events=FRAME_OPEN,
            facts=(_MODEL, _TRIGGER),
            may_continue=True,
            takes=ManifestPlacementClass.PRE_FRAME_LEADING,
        ),
        "before_compaction": HookRule(events=(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,)),
        # A count of 0 means that nothing was compacted, although the hook came.
        "after_compaction": HookRule(events=(LifecycleEvent.CONTEXT_COMPACTED,), unless=("event.compactedCount", 0)),
        "before_agent_finalize": HookRule(
            events=(LifecycleEvent.FRAME_ENDING,),
            facts=(FactField("event.stopHookActive", bool, "stop_hook_active"),),
            announces=True,
        ),
        "agent_end": HookRule(
            events=(LifecycleEvent.FRAME_ENDED,),
            facts=(FactField("event.durationMs", int, "duration_ms"),),
            frame_end=_run_end,
            announces=True,
        ),
        "session_end": HookRule(events=SESSION_CLOSE, facts=(FactField("event.reason"),)),
    },
    silent=frozenset(
        {
            "after_tool_call",
            "agent_turn_prepare",
            "before_agent_reply",
            "before_agent_run",
            "before_message_write",
            "before_model_resolve",
            "before_tool_call",
            "gateway_start",
            "gateway_stop",
            "llm_input",
            "llm_output",
            "model_call_ended",
            "model_call_started",
            "register",
        }
    ),
    answer=_answer,
    in_process=True,
)
"""What each OpenClaw hook means."""
