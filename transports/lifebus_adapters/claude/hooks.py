"""Claude Code's hooks, as measured with 2.1.330.

- SessionStart with source `compact` is no new session; it comes before PostCompact here, after it in Codex.
- PreCompact proves nothing: an automatic compaction may fail three times in a row.  PostCompact is proof.
- `/compact` is not a frame: no UserPromptSubmit, no Stop, but SubagentStop for inner helpers that never started;
  those have an empty `agent_type` and mean nothing.
- `/clear` ends the session and starts one with a new id in the same process.
- Esc, HTTP 400 and 401 fire no hook at all; HTTP 500 fires StopFailure.
- PermissionRequest comes when a dialog is about to ask, Notification six seconds later, and a minute after the end of a
  turn that nobody goes on from.  That a person has answered is told by no hook: the tool's result shows it, or the end.
- The status line command is called like a hook, without the hook's name in the payload; what it prints is shown.

How it takes context:

- `hookEventName` must be the hook that is answered, or the context is dropped.
- SessionStart and UserPromptSubmit context both arrive in a system message after the user's prompt; a
  SessionStart's is there before any frame opens, so it stands for `pre_session`.
- Context on Stop makes the model go on, up to nine times.  Pre/PostCompact take none: the error text would stay in
  the conversation.  SessionEnd is not read.
- Beyond 10,000 characters the model sees a preview of 2 KB.
"""

from typing import Final

from lifebus_adapters.claude.telemetry import STATUS_LINE, status_text
from lifebus_adapters.shared.fields import Payload, identifier, scalar
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

_TRIGGER: Final = FactField("trigger")
_AGENT_TYPE: Final = FactField("agent_type")
_STOP_HOOK_ACTIVE: Final = FactField("stop_hook_active", bool)

_TOOLS: Final = {
    "PreToolUse",
    "PostToolUse",
    "PostToolUseFailure",
    "PostToolBatch",
    "PermissionDenied",
}
_SURROUNDINGS: Final = {
    "Setup",
    "ConfigChange",
    "InstructionsLoaded",
    "CwdChanged",
    "FileChanged",
    "DirectoryAdded",
    "WorktreeCreate",
    "WorktreeRemove",
    "PreModelSwitch",
    "PostModelSwitch",
}
_DISPLAY: Final = {"MessageDisplay", "UserPromptExpansion", STATUS_LINE}
_NOTICES: Final = {
    "permission_prompt": "permission",
    "worker_permission_prompt": "permission",
    "idle_prompt": "idle",
    "elicitation_dialog": "input",
    "elicitation_url_dialog": "input",
}
"""What Claude Code waits for, by the type of its notification; the others are about something else."""

_ANSWERS: Final = {"elicitation_complete": "input", "elicitation_response": "input"}
"""What it does not wait for any more."""

_QUESTIONS: Final = {"AskUserQuestion"}
"""The tools whose dialog asks for more than a permission."""


def _type_of_notice(payload: Payload) -> str:
    return str(scalar(payload, "notification_type", str) or "")


def _begun_by_notice(payload: Payload) -> str | None:
    return _NOTICES.get(_type_of_notice(payload))


def _ended_by_notice(payload: Payload) -> str | None:
    return _ANSWERS.get(_type_of_notice(payload))


def _asked_for(payload: Payload) -> str:
    return "input" if identifier(payload, "tool_name") in _QUESTIONS else "permission"


def _kind_of_notice(payload: Payload) -> str | None:
    return "elicitation" if _type_of_notice(payload).startswith("elicitation_") else None


def _elicitation(payload: Payload) -> str:  # noqa: ARG001  one kind, whatever it asks
    return "elicitation"


_TEAM: Final = {"TeammateIdle", "TaskCreated", "TaskCompleted"}

HOOKS: Final = HookTable(
    name=("hook_event_name",),
    transcript=("transcript_path",),
    identity=IdentityPaths(session=("session_id",), task=("prompt_id",), agent=("agent_id",)),
    rules={
        "SessionStart": HookRule(
            events=SESSION_OPEN,
            facts=(FactField("source"), FactField("model"), FactField("context_tokens", int)),
            # After a compaction Claude Code starts its hooks again for the same session.
            unless=("source", "compact"),
            takes=ManifestPlacementClass.PRE_SESSION,
        ),
        "UserPromptSubmit": HookRule(events=FRAME_OPEN, once=True, takes=ManifestPlacementClass.PRE_FRAME_TRAILING),
        "SubagentStart": HookRule(
            events=FRAME_OPEN,
            facts=(_AGENT_TYPE,),
            subagent=True,
            takes=ManifestPlacementClass.PRE_FRAME_TRAILING,
        ),
        # Pressure and no compaction: Claude Code may try to compact, fail, and try again.
        "PreCompact": HookRule(events=(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,), facts=(_TRIGGER,)),
        "PostCompact": HookRule(events=(LifecycleEvent.CONTEXT_COMPACTED,), facts=(_TRIGGER,)),
        "Stop": HookRule(events=FRAME_CLOSE, facts=(_STOP_HOOK_ACTIVE,)),
        # Not FRAME_CLOSE: nothing said that the turn was about to end.
        "StopFailure": HookRule(events=(LifecycleEvent.FRAME_ENDED,), facts=(FactField("error"),), frame_end="failed"),
        "SubagentStop": HookRule(
            events=FRAME_CLOSE,
            facts=(_AGENT_TYPE, _STOP_HOOK_ACTIVE),
            # Inner helpers, such as the one that compacts, end without ever having started.
            unless=("agent_type", ""),
            subagent=True,
        ),
        "SessionEnd": HookRule(events=SESSION_CLOSE, facts=(FactField("reason"),)),
        "PermissionRequest": HookRule(events=WAIT, waits=WaitRule(begins=_asked_for, kind="tool_name")),
        # Six seconds after the request of a permission, so that it says nothing new; a minute after a turn's end.
        "Notification": HookRule(
            events=WAIT,
            waits=WaitRule(begins=_begun_by_notice, ends=_ended_by_notice, kind=_kind_of_notice, reminder=True),
        ),
        "Elicitation": HookRule(events=WAIT, waits=WaitRule(begins="input", kind=_elicitation)),
        "ElicitationResult": HookRule(events=WAIT, waits=WaitRule(ends="input", kind=_elicitation)),
    },
    silent=frozenset(_TOOLS | _SURROUNDINGS | _DISPLAY | _TEAM),
    answer=hook_specific_output,
    # This hook's output is shown as it is: an answer in JSON would stand in the user's status line.
    displays={STATUS_LINE: status_text},
)
"""What each Claude Code hook means."""
