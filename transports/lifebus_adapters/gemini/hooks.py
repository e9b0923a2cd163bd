"""Gemini CLI's hooks, as measured with 0.61.0.

- There is no turn id.  BeforeAgent and AfterAgent carry the same prompt, so a frame is named by a digest of session
  and prompt: two turns of one session with the same words share a frame id, and a warning says so.
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

from lifebus_adapters.shared.rules import (
    FRAME_CLOSE,
    FRAME_OPEN,
    SESSION_CLOSE,
    SESSION_OPEN,
    FactField,
    HookRule,
    HookTable,
    IdentityPaths,
    hook_specific_output,
)
from lifebus_contract import ManifestPlacementClass

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    # No turn id: the prompt is the only thing that the opening and the closing hook have in common.
    identity=IdentityPaths(session=("session_id",), frame_seed=("prompt",)),
    rules={
        "SessionStart": HookRule(
            events=SESSION_OPEN, facts=(FactField("source"),), takes=ManifestPlacementClass.PRE_SESSION
        ),
        "BeforeAgent": HookRule(events=FRAME_OPEN, takes=ManifestPlacementClass.PRE_FRAME_TRAILING),
        "AfterAgent": HookRule(events=FRAME_CLOSE, facts=(FactField("stop_hook_active", bool),)),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(FactField("reason"),)),
    },
    silent=frozenset(
        {
            "AfterModel",
            "AfterTool",
            "BeforeModel",
            "BeforeTool",
            "BeforeToolSelection",
            "Notification",
            "PreCompress",
        }
    ),
    answer=hook_specific_output,
)
"""What each Gemini CLI hook means."""
