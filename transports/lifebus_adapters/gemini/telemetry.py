"""What Gemini CLI leaves behind: chat files, an opt-in telemetry file, and the token counts in its hooks.

`PreCompress` proves nothing: it fires before every model request.  `AfterModel` fires for every chunk of an answer; the
last chunk, which has a finish reason, carries the counts.
"""

import re
from collections.abc import Sequence
from typing import Final, cast

from lifebus_adapters.gemini.windows import WINDOW_OVERRIDES, window_of
from lifebus_adapters.shared.fields import Payload, count, find, identifier
from lifebus_adapters.shared.lines import named_override
from lifebus_adapters.shared.sources import no_session
from lifebus_adapters.shared.telemetry import Fact, RecordReader, SourceSpec, Surroundings, Usage

_OUTFILES: Final = (
    "LIFEBUS_GEMINI_TELEMETRY_PATH",
    "LIFELOOP_GEMINI_TELEMETRY_PATH",
    "LIFEBUS_GEMINI_TELEMETRY_OUTFILE",
    "LIFELOOP_GEMINI_TELEMETRY_OUTFILE",
    "GEMINI_TELEMETRY_OUTFILE",
)
_MODELS: Final = ("LIFEBUS_GEMINI_MODEL", "LIFELOOP_GEMINI_MODEL")
_CHATS: Final = "tmp/*/chats/session-*.jsonl"
_CHAT_PATH: Final = re.compile(r"/tmp/[^/]+/chats/session-[^/]+\.jsonl\Z")  # noqa: S108  Gemini CLI's own folder
_PROMPT_TOKENS: Final = "hook:AfterModel.usageMetadata.promptTokenCount"

OVERRIDES: Final = (_OUTFILES[0], _OUTFILES[2], _MODELS[0], WINDOW_OVERRIDES[0])
"""Our own variables: where the telemetry file is (two names), the model's name to report, how large its window is."""


def _chat_roots(surroundings: Surroundings) -> Sequence[str]:
    home = surroundings.first("GEMINI_CLI_HOME")
    return (f"{home[1] if home else surroundings.home}/.gemini",)


def _log_roots(surroundings: Surroundings) -> Sequence[str]:
    outfile = surroundings.first(*_OUTFILES)
    # A relative path is relative to Gemini CLI's working directory, which nobody knows here.
    return (outfile[1],) if outfile and outfile[1].startswith("/") else ()


def _model(surroundings: Surroundings) -> str | None:
    override = named_override(surroundings, *_MODELS)
    return override[1] if override else None


def _chat_reader(_: str, surroundings: Surroundings) -> RecordReader:
    from lifebus_adapters.gemini.chats import ChatReader  # noqa: PLC0415  many users have no such file

    return ChatReader(surroundings, _model(surroundings))


def _log_reader(_: str, surroundings: Surroundings) -> RecordReader:
    from lifebus_adapters.gemini.telemetry_log import TelemetryLogReader  # noqa: PLC0415  many users have no such file

    return TelemetryLogReader(surroundings, _model(surroundings))


def _is_chat(path: str) -> bool:
    return _CHAT_PATH.search(path) is not None


def _never(_: str) -> bool:
    return False


SOURCES: Final[tuple[SourceSpec, ...]] = (
    SourceSpec(
        source_id="chats",
        form="lines",
        roots=_chat_roots,
        pattern=_CHATS,
        session_of=no_session,
        make_reader=_chat_reader,
        is_ours=_is_chat,
    ),
    SourceSpec(
        source_id="telemetry",
        form="objects",
        roots=_log_roots,
        pattern="",
        session_of=no_session,
        make_reader=_log_reader,
        # No hook names this file: only the user's variable does.
        is_ours=_never,
    ),
)
"""The chat files, always written; and the telemetry file, if the user asked for it and a variable says where."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a hook: how full the context was for an answer that is complete.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    used = count(payload, "llm_response.usageMetadata.promptTokenCount") if hook == "AfterModel" else None
    if used is None or not _is_last_chunk(payload):
        return ()
    model = identifier(payload, "llm_request.model")
    window, source = window_of(model)
    return (
        Usage(
            session=session,
            used_tokens=used,
            used_source=_PROMPT_TOKENS,
            window_tokens=window,
            window_source=source,
            model=model,
        ),
    )


def _is_last_chunk(payload: Payload) -> bool:
    candidates = find(payload, "llm_response.candidates")
    if not isinstance(candidates, list):
        return False
    return any(
        # Every chunk has a candidate; only the last one has a reason to finish.
        isinstance(one, dict) and find(one, "finishReason") is not None
        for one in cast("list[Payload]", candidates)
    )
