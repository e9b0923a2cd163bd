"""Gemini CLI's hooks, as measured with 0.61.0.

- There is no turn id: lifebus numbers the frames of a session, and a warning says so.
- A refused AfterAgent comes back as a BeforeAgent with the refusal's reason as its prompt; the AfterAgent after it has
  the first prompt again, and `stop_hook_active`.  It is one turn.
- PreCompress fires before every model request, compressing or not: it means nothing.
- A model error fires neither AfterAgent nor SessionEnd; a signal fires SessionEnd alone.
- BeforeModel, BeforeToolSelection and AfterModel carry the whole conversation: better not registered.

How it takes context:

- stdout must be JSON and nothing else: other text is shown to the user.
- SessionStart context is put in front of the prompt, BeforeAgent context behind it, both as user-role text: no
  `developer_equivalent_frame`.  Context on AfterAgent is ignored.
- 44 KB went through whole; the manifest claims no more than 32.
"""

from typing import Final

from lifebus_adapters.shared.fields import Payload, scalar
from lifebus_adapters.shared.rules import (
    FRAME_CLOSE,
    FRAME_OPEN,
    SESSION_CLOSE,
    SESSION_OPEN,
    WAIT,
    FactField,
    HookRule,
    HookTable,
    IdentityPaths,
    WaitRule,
    hook_specific_output,
)
from lifebus_contract import ManifestPlacementClass


def _begun_by_notice(payload: Payload) -> str | None:
    return "permission" if scalar(payload, "notification_type", str) == "ToolPermission" else None


HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    identity=IdentityPaths(session=("session_id",)),
    rules={
        "SessionStart": HookRule(
            events=SESSION_OPEN, facts=(FactField("source"),), takes=ManifestPlacementClass.PRE_SESSION
        ),
        "BeforeAgent": HookRule(events=FRAME_OPEN, may_continue=True, takes=ManifestPlacementClass.PRE_FRAME_TRAILING),
        "AfterAgent": HookRule(events=FRAME_CLOSE, facts=(FactField("stop_hook_active", bool),)),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(FactField("reason"),)),
        "Notification": HookRule(events=WAIT, waits=WaitRule(begins=_begun_by_notice, kind="details.type")),
    },
    silent=frozenset(
        {
            "AfterModel",
            "AfterTool",
            "BeforeModel",
            "BeforeTool",
            "BeforeToolSelection",
            "PreCompress",
        }
    ),
    answer=hook_specific_output,
)
"""What each Gemini CLI hook means."""
