"""What each harness says at the steps of a life: its hooks, and what its file shows."""

from collections.abc import Callable
from typing import Any

from msgspec import Struct

Payload = dict[str, Any]

SESSION = "s1"


class Words(Struct, frozen=True, kw_only=True):
    """The vocabulary of one harness.

    `prompt` and `stop` take the turn's id; `ends` is how a session ends, None where no hook says so.  `names` says that
    hooks name the turn, `file_names` that the file does.  `goes_on` is the call that makes a refused turn go on, None
    where only the file shows that.  `resumes` says that a hook reports a resumed session.  `child` and `child_stop`
    take the turn's id and the sub-agent's, None where the harness has none.
    """

    adapter_id: str
    start: Callable[[str], Payload]
    prompt: Callable[[str], Payload]
    stop: Callable[[str, bool], list[Payload]]
    ends: Payload | None
    source: str
    names: bool = True
    file_names: bool = True
    announces: bool = True
    goes_on: Callable[[str], Payload] | None = None
    file_goes_on: bool = False
    resumes: bool = True
    child: Callable[[str, str], Payload] | None = None
    child_stop: Callable[[str, str], Payload] | None = None


def _native(adapter_id: str, source: str) -> Words:
    """Codex and Claude Code: turn ids everywhere, sub-agents, and a file that shows when a refused turn goes on."""

    def call(hook: str, turn: str = "", **fields: Any) -> Payload:
        return {"hook_event_name": hook, "session_id": SESSION, "turn_id": turn, "prompt_id": turn, **fields}

    return Words(
        adapter_id=adapter_id,
        source=source,
        start=lambda why: call("SessionStart", source=why),
        prompt=lambda turn: call("UserPromptSubmit", turn),
        stop=lambda turn, again: [call("Stop", turn, stop_hook_active=again)],
        ends=call("SessionEnd", reason="other"),
        file_goes_on=True,
        child=lambda turn, agent: call("SubagentStart", turn, agent_id=agent, agent_type="x"),
        child_stop=lambda turn, agent: call("SubagentStop", turn, agent_id=agent, agent_type="x"),
    )


def _gemini() -> Words:
    """No ids at all: frames are numbered, and a refused AfterAgent comes back as a BeforeAgent."""

    def call(hook: str, **fields: Any) -> Payload:
        return {"hook_event_name": hook, "session_id": SESSION, "prompt": "p", **fields}

    return Words(
        adapter_id="gemini",
        source="chats",
        start=lambda why: call("SessionStart", source=why),
        prompt=lambda _: call("BeforeAgent"),
        stop=lambda _, again: [call("AfterAgent", stop_hook_active=again)],
        ends=call("SessionEnd", reason="exit"),
        names=False,
        file_names=False,
        goes_on=lambda _: call("BeforeAgent"),
    )


def _opencode() -> Words:
    """A frame is named where it opens, and not where it ends; nothing reports a resumed session."""

    def event(kind: str) -> Payload:
        return {"hook": "event", "input": {"event": {"type": kind, "properties": {"sessionID": SESSION}}}}

    chat = {"hook": "chat.message", "input": {"sessionID": SESSION}}
    return Words(
        adapter_id="opencode",
        source="database",
        start=lambda _: event("session.created"),
        prompt=lambda turn: {**chat, "output": {"message": {"id": turn}}},
        stop=lambda _, __: [event("session.idle")],
        ends={"hook": "dispose", "input": {"sessionID": SESSION}},
        resumes=False,
    )


def _openclaw() -> Words:
    """A run is a frame, which is opened again for each attempt; two hooks announce its end."""

    def call(hook: str, turn: str = "", **event: Any) -> Payload:
        return {"hook": hook, "event": event, "ctx": {"sessionId": SESSION, "runId": turn}}

    return Words(
        adapter_id="openclaw",
        source="database",
        start=lambda _: call("session_start"),
        prompt=lambda turn: call("before_prompt_build", turn),
        stop=lambda turn, _: [call("before_agent_finalize", turn), call("agent_end", turn, success=True)],
        ends=call("session_end", reason="exit"),
        goes_on=lambda turn: call("before_prompt_build", turn),
    )


def _hermes() -> Words:
    """A turn's end is no announcement: it is reported once, when it is over."""

    def call(hook: str, turn: str = "", **extra: Any) -> Payload:
        return {"hook_event_name": hook, "session_id": SESSION, "extra": {"turn_id": turn, **extra}}

    return Words(
        adapter_id="hermes",
        source="database",
        start=lambda _: call("on_session_start"),
        prompt=lambda turn: call("pre_llm_call", turn),
        stop=lambda turn, _: [call("post_llm_call", turn), call("on_session_end", turn, completed=True)],
        ends=call("on_session_finalize", reason="exit"),
        announces=False,
        resumes=False,
    )


WORDS = {
    one.adapter_id: one
    for one in (
        _native("codex", "rollout"),
        _native("claude", "transcript"),
        _gemini(),
        _opencode(),
        _openclaw(),
        _hermes(),
    )
}
"""The vocabularies, by adapter."""
