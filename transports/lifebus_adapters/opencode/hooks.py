"""OpenCode's plugin hooks and events, as captured from 1.18.33.

A plugin inside OpenCode passes on ``{"hook": …, "input": …, "output": …}``; hook `event` is named by its event's type.

- session.created comes for new sessions only, not when one is continued.
- A frame has the id of the user's message; session.idle and session.error do not name it, and end the open frame.
- A model's error is session.error, and then session.idle, perhaps twice.
- After session.compacted OpenCode runs another model step without chat.message.
- OpenCode's `dispose` names no session: the plugin names each one that it has seen open.
- permission.asked and question.asked come when a person is asked, permission.replied, question.replied and
  question.rejected when that is over, each with the request's id.
- message.updated carries token counts: samples for pressure levels, not events.

The plugin gets back text parts, which it pushes behind those of the user's message in `chat.message`.  That is
user-role text after the prompt: `pre_frame_trailing`, and no `developer_equivalent_frame`.
"""

from typing import Any, Final

from lifebus_adapters.shared.fields import Payload
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
)
from lifebus_contract import LifecycleEvent, ManifestPlacementClass

_EVENT: Final = "input.event.properties"
_SESSION: Final = ("input.sessionID", "input.event.properties.sessionID")

_HOOKS: Final = {
    "init",
    "config",
    "event",
    "chat.params",
    "chat.headers",
    "tool.definition",
    "tool.execute.before",
    "tool.execute.after",
    "shell.env",
    "experimental.chat.messages.transform",
    "experimental.chat.system.transform",
    "experimental.compaction.autocontinue",
    "experimental.text.complete",
}
_EVENTS: Final = {
    "catalog.updated",
    "integration.updated",
    "message.part.delta",
    "message.part.updated",
    "message.updated",
    "reference.updated",
    "session.diff",
    "session.status",
    "session.updated",
}


def _answer(hook: str, context: str) -> dict[str, Any]:  # noqa: ARG001  one hook takes context
    return {"parts": [{"type": "text", "text": context}]}


def _question(payload: Payload) -> str:  # noqa: ARG001  one kind, whatever it asks
    return "question"


HOOKS: Final = HookTable(
    # The event's own type first: all events come through the one hook `event`.
    name=("input.event.type", "hook"),
    identity=IdentityPaths(
        session=_SESSION,
        event=("input.event.id", "output.message.id"),
        frame=("output.message.id",),
    ),
    rules={
        "session.created": HookRule(
            events=SESSION_OPEN, facts=(FactField("input.event.properties.info.version", name="harness_version"),)
        ),
        "chat.message": HookRule(
            events=FRAME_OPEN,
            facts=(FactField("output.message.model.modelID", name="model"),),
            takes=ManifestPlacementClass.PRE_FRAME_TRAILING,
        ),
        "experimental.session.compacting": HookRule(events=(LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,)),
        "session.compacted": HookRule(events=(LifecycleEvent.CONTEXT_COMPACTED,)),
        "session.idle": HookRule(events=FRAME_CLOSE),
        "session.error": HookRule(
            events=FRAME_CLOSE,
            facts=(FactField("input.event.properties.error.name", name="error"),),
            frame_end="failed",
        ),
        "session.deleted": HookRule(events=SESSION_CLOSE),
        "permission.asked": HookRule(
            events=WAIT,
            waits=WaitRule(begins="permission", kind=f"{_EVENT}.permission", request=f"{_EVENT}.id"),
        ),
        "permission.replied": HookRule(
            events=WAIT,
            facts=(FactField("input.event.properties.reply", name="decision"),),
            waits=WaitRule(ends="permission", request=f"{_EVENT}.requestID"),
        ),
        "question.asked": HookRule(events=WAIT, waits=WaitRule(begins="input", kind=_question, request=f"{_EVENT}.id")),
        "question.replied": HookRule(events=WAIT, waits=WaitRule(ends="input", request=f"{_EVENT}.requestID")),
        "question.rejected": HookRule(events=WAIT, waits=WaitRule(ends="input", request=f"{_EVENT}.requestID")),
        # Before any session the plugin names none: its receipt says that the identity is not available.
        "dispose": HookRule(events=SESSION_CLOSE),
    },
    silent=frozenset(_HOOKS | _EVENTS),
    sessionless=frozenset({"dispose"}),
    answer=_answer,
    in_process=True,
)
"""What each OpenCode hook and event means."""
