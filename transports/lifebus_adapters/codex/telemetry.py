"""What Codex leaves behind: its rollouts, and the token counts in its hooks (measured with 0.169.0).

`PostModelRequest` says how full the context is, without the window; inside a sub-agent it is about the sub-agent.
"""

from collections.abc import Sequence
from typing import Final

from lifebus_adapters.shared.fields import Payload, count, identifier
from lifebus_adapters.shared.lines import base_name, is_uuid, named_override, only_session
from lifebus_adapters.shared.sources import session_logs
from lifebus_adapters.shared.telemetry import Fact, RecordReader, SourceSpec, Surroundings, Usage

_HOMES: Final = ("LIFEBUS_CODEX_HOME", "LIFELOOP_CODEX_HOME", "CODEX_HOME")
_THREADS: Final = ("LIFEBUS_CODEX_THREAD_ID", "LIFELOOP_CODEX_THREAD_ID")
_MODELS: Final = ("LIFEBUS_CODEX_MODEL", "LIFELOOP_CODEX_MODEL")

OVERRIDES: Final = (_HOMES[0], _THREADS[0], _MODELS[0])
"""Our own variables: where Codex lives, the one session to follow, the model's name to report."""

_ID_CHARACTERS: Final = 36


def _roots(surroundings: Surroundings) -> Sequence[str]:
    home = surroundings.first(*_HOMES)
    return (f"{home[1] if home else surroundings.home + '/.codex'}/sessions",)


def _session_of(path: str) -> str | None:
    """Return the id at the end of ``rollout-<time>-<id>.jsonl``; for a sub-agent it is the sub-agent's own."""
    name = base_name(path, ".jsonl")
    if name is None or not name.startswith("rollout-"):
        return None
    found = name[-_ID_CHARACTERS:]
    # The time in the name has dashes as well, so the id cannot be split off by them.
    return found if is_uuid(found) else None


def _make_reader(path: str, surroundings: Surroundings) -> RecordReader:
    from lifebus_adapters.codex.rollout import RolloutReader  # noqa: PLC0415  many users have no such file

    model = named_override(surroundings, *_MODELS)
    reader = RolloutReader(_session_of(path), model[1] if model else None)
    return only_session(reader, named_override(surroundings, *_THREADS))


SOURCES: Final[tuple[SourceSpec, ...]] = (
    session_logs(
        "rollout", roots=_roots, pattern="*/*/*/rollout-*.jsonl", session_of=_session_of, make_reader=_make_reader
    ),
)
"""The rollouts: one file a session, by day; resuming a session appends to its file."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a hook: the tokens of the request that is just over.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    # Inside a sub-agent the count is about the sub-agent's context.
    if hook != "PostModelRequest" or identifier(payload, "agent_id") is not None:
        return ()
    used = count(payload, "token_usage.total_tokens")
    if used is None:
        return ()
    model = identifier(payload, "model")
    return (Usage(session=session, used_tokens=used, used_source=_USED, model=model),)


_USED: Final = "hook:PostModelRequest.token_usage.total_tokens"
