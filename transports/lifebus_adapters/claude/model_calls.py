"""The calls in Claude Code's transcripts, as measured with 2.1.330.  Pure.

Each block of an answer's content is a line of its own with the usage so far; the last one has all output tokens.
A fork begins with its parent's lines.  Sub-agents have files of their own beside the session's.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from lifebus_adapters.claude.records import TokenUsage
from lifebus_adapters.shared.lines import LineDecoder, bounded_sum, named
from lifebus_adapters.shared.model_calls import CallFiles, ModelCall
from lifebus_adapters.shared.telemetry import SourceSpec

_SYNTHETIC: Final = "<synthetic>"
_ASSISTANT: Final = b'"assistant"'


class _Answer(Struct):
    id: str | None = None
    model: str | None = None
    usage: TokenUsage | None = None


class _AnswerLine(Struct, rename="camel"):
    type: str
    request_id: str | None = None
    timestamp: str | None = None
    message: _Answer | None = None


class _LineKind(Struct):
    type: str = ""


_KIND: Final = LineDecoder(_LineKind)
_LINE: Final = LineDecoder(_AnswerLine)


class TranscriptCalls:
    """Reads the calls in a transcript; the key is the id of the response and that of its request."""

    def read(self, record: bytes) -> Sequence[ModelCall]:
        """Return the call in a line (see `ModelCallReader`).

        Raises:
            InvalidRequest: the line is not what Claude Code writes.
        """
        # Prompts and attachments are most of the bytes: they are not parsed.
        if _ASSISTANT not in record or _KIND.read(record).type != "assistant":
            return ()
        line = _LINE.read(record)
        answer = line.message
        if answer is None or answer.usage is None or answer.model == _SYNTHETIC:
            return ()
        message = named(answer.id, "message.id")
        if message is None:
            return ()
        usage = answer.usage
        read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        request = named(line.request_id, "requestId")
        return (
            ModelCall(
                key=message if request is None else f"{message}:{request}"[:256],
                model=named(answer.model, "message.model"),
                input_tokens=bounded_sum(usage.input_tokens, read, written),
                output_tokens=usage.output_tokens or 0,
                cache_read_tokens=read,
                cache_write_tokens=written,
                at=line.timestamp,
            ),
        )


def call_files(source: SourceSpec) -> CallFiles:
    """Return where the calls of a session are, by the source of its transcripts."""
    return CallFiles(
        roots=source.roots,
        patterns=lambda session: (f"*/{session}/subagents/*.jsonl", f"*/{session}.jsonl"),
        make_reader=TranscriptCalls,
    )
