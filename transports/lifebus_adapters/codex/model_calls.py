"""The calls in Codex's rollouts, as measured with 0.169.0.  Pure.

A `token_count` may be repeated, and comes once more after a compaction with an estimate in place of counts.  It has no
id of the response; the sum of all requests so far, which only a new call raises, tells calls apart.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct

from lifebus_adapters.shared.lines import LineDecoder, named
from lifebus_adapters.shared.model_calls import CallFiles, ModelCall
from lifebus_adapters.shared.telemetry import SourceSpec
from lifebus_contract.fields import Count

_NULL: Final = Raw(b"null")


class _RolloutLine(Struct):
    type: str
    payload: Raw = _NULL
    timestamp: str | None = None


class _Payload(Struct):
    type: str = ""
    id: str | None = None
    model: str | None = None


class _CallTokens(Struct):
    total_tokens: Count
    input_tokens: Count = 0
    cached_input_tokens: Count = 0
    cache_write_input_tokens: Count = 0
    output_tokens: Count = 0


class _CallInfo(Struct):
    last_token_usage: _CallTokens | None = None
    total_token_usage: _CallTokens | None = None


class _CallCount(Struct):
    info: _CallInfo | None = None


_LINE: Final = LineDecoder(_RolloutLine)
_PAYLOAD: Final = LineDecoder(_Payload)
_COUNT: Final = LineDecoder(_CallCount)


class RolloutCalls:
    """Reads the calls in a rollout; the key is the thread's id and the sum of tokens after the call."""

    def __init__(self) -> None:
        self._thread: str | None = None
        self._model: str | None = None

    def read(self, record: bytes) -> Sequence[ModelCall]:
        """Return the call in a line (see `ModelCallReader`).

        Raises:
            InvalidRequest: the line is not what Codex writes.
        """
        line = _LINE.read(record)
        if line.type == "session_meta":
            # Older versions repeated the parent's lines in a fork: only the first one counts.
            self._thread = self._thread or named(_PAYLOAD.read(line.payload).id, "id")
        elif line.type == "turn_context":
            self._model = named(_PAYLOAD.read(line.payload).model, "model") or self._model
        elif line.type == "event_msg" and _PAYLOAD.read(line.payload).type == "token_count":
            return self._call(_COUNT.read(line.payload).info, line.timestamp)
        return ()

    def _call(self, info: _CallInfo | None, at: str | None) -> Sequence[ModelCall]:
        last, total = (None, None) if info is None else (info.last_token_usage, info.total_token_usage)
        if last is None or total is None or not last.input_tokens + last.output_tokens:
            return ()
        # A cache that counts for more than was sent is no count that anybody could price.
        cached = min(last.cached_input_tokens, last.input_tokens)
        return (
            ModelCall(
                key=f"{self._thread or ''}:{total.total_tokens}",
                model=self._model,
                input_tokens=last.input_tokens,
                output_tokens=last.output_tokens,
                cache_read_tokens=cached,
                cache_write_tokens=min(last.cache_write_input_tokens, last.input_tokens - cached),
                at=at,
            ),
        )


def call_files(source: SourceSpec) -> CallFiles:
    """Return where the calls of a session are, by the source of its rollouts; those of sub-agents name no parent."""
    return CallFiles(
        roots=source.roots,
        patterns=lambda session: (f"*/*/*/rollout-*{session}.jsonl",),
        make_reader=RolloutCalls,
    )
