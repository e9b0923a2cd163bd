"""Gemini CLI's hooks, as measured with 0.61.0.

- There is no turn id.  BeforeAgent and AfterAgent carry the same prompt, so a frame is named by a digest of session
  and prompt: two turns of one session with the same words share a frame id, and a warning says so.
- PreCompress fires before every model request, compressing or not: it means nothing.
- A model error fires neither AfterAgent nor SessionEnd; a signal fires SessionEnd alone.
- BeforeModel, BeforeToolSelection and AfterModel carry the whole conversation: better not registered.
"""

from typing import Final

from lifebus_adapters.shared.rules import (
    FRAME_CLOSE,
    FRAME_OPEN,
    SESSION_CLOSE,
    SESSION_OPEN,
    Fact,
    HookRule,
    HookTable,
    IdentityPaths,
)

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    identity=IdentityPaths(session=("session_id",), frame_seed=("prompt",)),
    rules={
        "SessionStart": HookRule(events=SESSION_OPEN, facts=(Fact("source"),)),
        "BeforeAgent": HookRule(events=FRAME_OPEN),
        "AfterAgent": HookRule(events=FRAME_CLOSE, facts=(Fact("stop_hook_active", bool),)),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(Fact("reason"),)),
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
)
"""What each Gemini CLI hook means."""
