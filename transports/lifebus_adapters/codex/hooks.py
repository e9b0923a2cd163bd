"""Codex CLI's hooks, as measured with 0.169.0.

- SessionStart with source `compact` is the next model request after a compaction, not a session.
- PreCompact says that the window is full, PostCompact that it was rewritten; only the second is proof.
- A turn may stop twice: a sub-agent that ends late starts another pass with the same turn id.
- Inside a sub-agent the session id stays the parent's and `agent_id` appears: a nested frame.
- Pre/PostModelRequest carry token counts without a window: samples for pressure levels, not events.
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
from lifebus_contract import LifecycleEvent

_MODEL: Final = Fact("model")
_TRIGGER: Final = Fact("trigger")
_AGENT_TYPE: Final = Fact("agent_type")
_STOP_HOOK_ACTIVE: Final = Fact("stop_hook_active", bool)

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    identity=IdentityPaths(session=("session_id",), task=("turn_id",), agent=("agent_id",)),
    rules={
        "SessionStart": HookRule(events=SESSION_OPEN, facts=(Fact("source"), _MODEL), unless=("source", "compact")),
        "UserPromptSubmit": HookRule(events=FRAME_OPEN, facts=(_MODEL,), once=True),
        "SubagentStart": HookRule(events=FRAME_OPEN, facts=(_AGENT_TYPE,), subagent=True, once=True),
        "PreCompact": HookRule(events=(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,), facts=(_TRIGGER,)),
        "PostCompact": HookRule(events=(LifecycleEvent.CONTEXT_COMPACTED,), facts=(_TRIGGER,)),
        "Stop": HookRule(events=FRAME_CLOSE, facts=(_STOP_HOOK_ACTIVE,)),
        "SubagentStop": HookRule(events=FRAME_CLOSE, facts=(_AGENT_TYPE, _STOP_HOOK_ACTIVE), subagent=True),
        "Interrupt": HookRule(events=(LifecycleEvent.FRAME_ENDED,), frame_end="interrupted"),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(Fact("reason"),)),
    },
    silent=frozenset({"PreModelRequest", "PostModelRequest", "PreToolUse", "PostToolUse", "PermissionRequest"}),
)
"""What each Codex hook means."""
