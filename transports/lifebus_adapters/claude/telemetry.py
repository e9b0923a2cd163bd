"""What Claude Code leaves behind: its transcripts, and the token counts in its hooks (measured with 2.1.330).

- The status line command gets window and tokens; the tokens are null after the start and after a compaction.
  Its own percentage leaves the output tokens out; ours does not, so that it agrees with the transcript and with what
  Claude Code itself calls `context_tokens`.
- `SessionStart` on a resume and the hooks around a change of model have `context_tokens`, without the window.
- Inside a sub-agent such a number is about the sub-agent.
"""

from collections.abc import Sequence
from typing import Final

from lifebus_adapters.shared.fields import Payload, count, find, identifier
from lifebus_adapters.shared.lines import (
    base_name,
    bounded_sum,
    is_uuid,
    named_override,
    only_session,
    positive_override,
)
from lifebus_adapters.shared.sources import session_logs
from lifebus_adapters.shared.telemetry import Fact, RecordReader, SourceSpec, Surroundings, Usage, WindowKnown

STATUS_LINE: Final = "statusLine"
"""The name under which our hook is Claude Code's status line command; its payload names no hook."""

_HOMES: Final = ("LIFEBUS_CLAUDE_HOME", "LIFELOOP_CLAUDE_HOME", "CLAUDE_CONFIG_DIR")
_SESSIONS: Final = ("LIFEBUS_CLAUDE_SESSION_ID", "LIFELOOP_CLAUDE_SESSION_ID")
_MODELS: Final = ("LIFEBUS_CLAUDE_MODEL", "LIFELOOP_CLAUDE_MODEL")
_WINDOWS: Final = ("LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS", "LIFELOOP_CLAUDE_CONTEXT_WINDOW_TOKENS")

OVERRIDES: Final = (_HOMES[0], _SESSIONS[0], _MODELS[0], _WINDOWS[0])
"""Our own variables: where Claude Code lives, the one session to follow, its model and its window."""

_MODEL_OF: Final = {"SessionStart": "model", "PreModelSwitch": "from_model", "PostModelSwitch": "to_model"}
_PARTS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens", "output_tokens")


def _roots(surroundings: Surroundings) -> Sequence[str]:
    home = surroundings.first(*_HOMES)
    return (f"{home[1] if home else surroundings.home + '/.claude'}/projects",)


def _session_of(path: str) -> str | None:
    """Return the id in ``<project>/<id>.jsonl``; a sub-agent's file has another name and another folder."""
    name = base_name(path, ".jsonl")
    return name if name is not None and is_uuid(name) and not path.rpartition("/")[0].endswith("/subagents") else None


def _make_reader(path: str, surroundings: Surroundings) -> RecordReader:
    from lifebus_adapters.claude.transcript import TranscriptReader  # noqa: PLC0415  many users have no such file

    model = named_override(surroundings, *_MODELS)
    window = positive_override(surroundings, *_WINDOWS)
    reader = TranscriptReader(_session_of(path), model[1] if model else None, window)
    return only_session(reader, named_override(surroundings, *_SESSIONS))


SOURCES: Final[tuple[SourceSpec, ...]] = (
    session_logs("transcript", roots=_roots, pattern="*/*.jsonl", session_of=_session_of, make_reader=_make_reader),
)
"""The transcripts: one file a session, by project; a file appears only after the first prompt."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a hook: how full the context is, and how large.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    # The numbers of a sub-agent are about a context that is not the session's.
    if identifier(payload, "agent_id") is not None:
        return ()
    if hook == STATUS_LINE:
        return _status_facts(payload, session)
    if hook not in _MODEL_OF:
        return ()
    used = count(payload, "context_tokens")
    if used is None:
        return ()
    model = identifier(payload, _MODEL_OF[hook])
    return (Usage(session=session, used_tokens=used, used_source=f"hook:{hook}.context_tokens", model=model),)


def _status_facts(payload: Payload, session: str) -> tuple[Fact, ...]:
    used, window = _status_counts(payload)
    model = identifier(payload, "model.id")
    source = "hook:statusLine.context_window_size" if window else None
    if used is not None:
        usage = Usage(
            session=session,
            used_tokens=used,
            used_source="hook:statusLine.current_usage",
            window_tokens=window,
            window_source=source,
            model=model,
        )
        return (usage,)
    if window is None or source is None:
        return ()
    return (WindowKnown(session=session, window_tokens=window, window_source=source),)


def _status_counts(payload: Payload) -> tuple[int | None, int | None]:
    """Return used tokens and window from the status line; None for what is not in it."""
    window = count(payload, "context_window.context_window_size") or None
    if find(payload, "context_window.current_usage") is None:
        return None, window
    used = bounded_sum(*(count(payload, f"context_window.current_usage.{part}") for part in _PARTS))
    # Zero comes before the first answer and means that nothing is known yet.
    return used or None, window


def status_text(payload: Payload) -> str:
    """Return the line to show as Claude Code's status line: how full the context is.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    used, window = _status_counts(payload)
    if used is None or window is None:
        return "context ?"
    return f"context {min(100, used * 100 // window)} %"
