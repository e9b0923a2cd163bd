"""Hermes' hooks, as measured with 0.19.0.

- on_session_end fires at the end of every turn, on_session_finalize at the end of the session (and not with -z).
- on_session_start fires for new sessions only, not when one is resumed.
- After on_session_finalize a background pass may open and close another frame of the same session.
- A failed model request fires api_request_error, once for each attempt, and no on_session_end after the last one.
- pre/post_api_request carry token counts: samples for pressure levels, not events.

It takes context as ``{"context": …}`` on pre_llm_call, and nothing elsewhere.  The text is appended to the user's
message: user-role text, so no `developer_equivalent_frame`.  The limit was not measured; the manifest claims no more
than the other harnesses take.
"""

from typing import Any, Final

from lifebus_adapters.shared.fields import Payload, count, scalar
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


def _turn_end(payload: Payload) -> str:
    """Return how the turn ended."""
    if scalar(payload, "extra.interrupted", bool):
        return "interrupted"
    return "failed" if scalar(payload, "extra.completed", bool) is False else "completed"


def _is_asked_again(payload: Payload) -> bool:
    """Whether Hermes makes a failed request again; `retry_count` counts the attempts before this one."""
    before, most = count(payload, "extra.retry_count"), count(payload, "extra.max_retries")
    if before is None or most is None:
        return False
    return scalar(payload, "extra.retryable", bool) is True and before + 1 < most


def _answer(hook: str, context: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    return {"context": context}


_MODEL: Final = FactField("extra.model")

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    identity=IdentityPaths(session=("session_id",), task=("extra.turn_id",)),
    rules={
        "on_session_start": HookRule(events=SESSION_OPEN, facts=(_MODEL, FactField("extra.platform"))),
        "pre_llm_call": HookRule(
            events=FRAME_OPEN,
            facts=(_MODEL, FactField("extra.is_first_turn", bool)),
            once=True,
            takes=ManifestPlacementClass.PRE_FRAME_TRAILING,
        ),
        # Only about to end: on_session_end follows, and says how the turn ended.
        "post_llm_call": HookRule(events=(LifecycleEvent.FRAME_ENDING,)),
        "on_session_end": HookRule(events=(LifecycleEvent.FRAME_ENDED,), frame_end=_turn_end),
        # No on_session_end follows a failed request, so that the frame would stay open.
        "api_request_error": HookRule(events=(LifecycleEvent.FRAME_ENDED,), unless=_is_asked_again, frame_end="failed"),
        "on_session_finalize": HookRule(events=SESSION_CLOSE, facts=(FactField("extra.reason"),)),
    },
    silent=frozenset({"pre_api_request", "post_api_request", "pre_tool_call", "post_tool_call"}),
    answer=_answer,
)
"""What each Hermes hook means."""
