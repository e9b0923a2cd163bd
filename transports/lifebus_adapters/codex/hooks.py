"""Codex CLI's hooks, as measured with 0.169.0.

- SessionStart with source `compact` is the next model request after a compaction, not a session.
- PreCompact says that the window is full, PostCompact that it was rewritten; only the second is proof.
- A turn may stop twice: a sub-agent that ends late starts another pass with the same turn id.
- Inside a sub-agent the session id stays the parent's and `agent_id` appears: a nested frame.
- Pre/PostModelRequest carry token counts without a window: samples for pressure levels, not events.

How it takes context:

- One unknown key in the JSON and the whole answer is dropped; `hookEventName` is required.
- SessionStart context lands before the prompt, UserPromptSubmit context after it, both as an item of role
  `developer`; a sub-agent's start takes context too.
- Pre/PostCompact and Stop take none; on Stop it would fail the hook.
- Beyond 10,000 bytes the text is cut in the middle.
"""

from typing import Final

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
from lifebus_contract import LifecycleEvent, ManifestPlacementClass

_MODEL: Final = FactField("model")
_TRIGGER: Final = FactField("trigger")
_AGENT_TYPE: Final = FactField("agent_type")
_STOP_HOOK_ACTIVE: Final = FactField("stop_hook_active", bool)

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    identity=IdentityPaths(session=("session_id",), task=("turn_id",), agent=("agent_id",)),
    rules={
        "SessionStart": HookRule(
            events=SESSION_OPEN,
            facts=(FactField("source"), _MODEL),
            # After a compaction the hook runs with the next model request, in the same session.
            unless=("source", "compact"),
            takes=ManifestPlacementClass.PRE_SESSION,
        ),
        "UserPromptSubmit": HookRule(
            events=FRAME_OPEN, facts=(_MODEL,), once=True, takes=ManifestPlacementClass.PRE_FRAME_TRAILING
        ),
        "SubagentStart": HookRule(
            events=FRAME_OPEN,
            facts=(_AGENT_TYPE,),
            subagent=True,
            once=True,
            takes=ManifestPlacementClass.PRE_FRAME_TRAILING,
        ),
        "PreCompact": HookRule(events=(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,), facts=(_TRIGGER,)),
        "PostCompact": HookRule(events=(LifecycleEvent.CONTEXT_COMPACTED,), facts=(_TRIGGER,)),
        "Stop": HookRule(events=FRAME_CLOSE, facts=(_STOP_HOOK_ACTIVE,)),
        "SubagentStop": HookRule(events=FRAME_CLOSE, facts=(_AGENT_TYPE, _STOP_HOOK_ACTIVE), subagent=True),
        # No FRAME_CLOSE: nothing announced that the turn was about to end.
        "Interrupt": HookRule(events=(LifecycleEvent.FRAME_ENDED,), frame_end="interrupted"),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(FactField("reason"),)),
        "PermissionRequest": HookRule(events=WAIT, waits=WaitRule(begins="permission", kind="tool_name")),
    },
    silent=frozenset({"PreModelRequest", "PostModelRequest", "PreToolUse", "PostToolUse"}),
    answer=hook_specific_output,
)
"""What each Codex hook means."""
