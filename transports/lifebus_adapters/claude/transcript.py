"""The reader of a Claude Code transcript, as measured with 2.1.330: one object a line, told apart by `type`.

- Used is what Claude Code itself counts: input, cache creation, cache read and output tokens of the newest answer;
  after a `compact_boundary` and before the next answer its `postTokens`.  The window is not in the file.
- Lines of sub-agents (`isSidechain`) tell nothing: their tokens fill another context.
- Answers that Claude Code made up (model ``<synthetic>``) carry no usage; one that reports an API error ends the turn.
- `compact_boundary` is the proof of a compaction; its `uuid` is the key.
- A turn begins with a prompt, a finished background task's notice included.  Tool results, the summary of a compaction,
  what Claude Code adds (`isMeta`), and local commands such as /clear and /compact are no prompts.
- Esc leaves no hook, only a line with `interruptedMessageId` (or, before the first answer, only with its text).
- `turn_duration` ends the newest turn; in ``-p`` runs it is not written.
- After /clear the new file's lines still name the old session in `session_id`; `sessionId` is right.
- Requests and attachments are most of the bytes: they are passed over by their first bytes, without parsing.
- Lines that a fork copied (`forkedFrom`) tell of the context, not of turns and compactions: those were the other's.

Above: telemetry in this folder.  Below: windows, lines, telemetry, the contract.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw, Struct

from lifebus_adapters.claude.windows import window_of
from lifebus_adapters.lines import LineDecoder, bounded_sum, named
from lifebus_adapters.telemetry import Activity, Compacted, Fact, TurnEnded, TurnStarted, Usage
from lifebus_contract.fields import Count

__all__ = ["TokenUsage", "TranscriptReader"]

_NULL: Final = Raw(b"null")

_USED: Final = "transcript:usage.input+cache_creation+cache_read+output"
_AFTER_COMPACTION: Final = "transcript:compact_boundary.postTokens"

_SYNTHETIC: Final = "<synthetic>"
_INTERRUPTED: Final = "[Request interrupted by user"
_LOCAL: Final = ("<command-name>", "<command-message>", "<local-command-", "<bash-input>", "<bash-std")
_REQUESTS: Final = (b'{"type":"api-request', b'{"type": "api-request')
_ATTACHMENT: Final = b'"attachment":'
_BEGINNING: Final = 160
_TOLD: Final = frozenset({"assistant", "user", "system"})


class TokenUsage(Struct):
    """The tokens of one answer, under the names of the API."""

    input_tokens: Count | None = None
    cache_creation_input_tokens: Count | None = None
    cache_read_input_tokens: Count | None = None
    output_tokens: Count | None = None

    @property
    def context_tokens(self) -> int:
        """What the context held after the answer, as Claude Code counts it.

        Raises:
            InvalidRequest: the sum is beyond what JSON readers agree on.
        """
        cached = (self.cache_creation_input_tokens, self.cache_read_input_tokens)
        return bounded_sum(self.input_tokens, *cached, self.output_tokens)


class _Answer(Struct):
    model: str | None = None
    usage: TokenUsage | None = None


class _Part(Struct):
    type: str = ""
    text: str | None = None


class _Prompt(Struct):
    content: str | list[_Part] | None = None

    @property
    def text(self) -> str:
        """The first text of the prompt."""
        if isinstance(self.content, str):
            return self.content
        return next((part.text for part in self.content or () if part.text), "")

    @property
    def is_tool_result(self) -> bool:
        """Whether a tool wrote it, not a user."""
        return isinstance(self.content, list) and any(part.type == "tool_result" for part in self.content)


class _Compaction(Struct, rename="camel"):
    trigger: str | None = None
    pre_tokens: Count | None = None
    post_tokens: Count | None = None


class _Line(Struct, rename="camel"):
    type: str
    subtype: str | None = None
    uuid: str | None = None
    session_id: str | None = None
    prompt_id: str | None = None
    prompt_source: str | None = None
    turn_origin: str | None = None
    interrupted_message_id: str | None = None
    is_sidechain: bool | None = None
    is_meta: bool | None = None
    is_compact_summary: bool | None = None
    repeats_compact_summary: bool | None = None
    is_api_error_message: bool | None = None
    forked_from: Raw = _NULL
    compact_metadata: _Compaction | None = None
    message: Raw = _NULL


_LINE: Final = LineDecoder(_Line)
_ANSWER: Final = LineDecoder(_Answer)
_PROMPT: Final = LineDecoder(_Prompt)


class TranscriptReader:
    """Reads one transcript from its beginning.

    `session` is what the file's name tells; a line's own session id goes before it.  `model` and `window` are what the
    user says instead of the file: the window with the name of the variable that says so.
    """

    def __init__(self, session: str | None, model: str | None = None, window: tuple[str, int] | None = None) -> None:
        self._session = session
        self._model_override = model
        self._window_override = window
        self._model: str | None = None
        self._turn: str | None = None
        self._last_prompt: str | None = None
        self._compactions = 0

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return what a line tells (see `RecordReader`).

        Raises:
            InvalidRequest: the line is not what Claude Code writes.
        """
        if record.startswith(_REQUESTS) or record.find(_ATTACHMENT, 0, _BEGINNING) >= 0:
            return ()
        line = _LINE.read(record)
        session = named(line.session_id, "sessionId") or self._session
        if session is None or line.is_sidechain or line.type not in _TOLD:
            return ()
        if line.type == "assistant":
            facts = self._answer(session, line, _ANSWER.read(line.message))
        elif line.type == "user":
            facts = self._prompt(session, line, _PROMPT.read(line.message))
        else:
            facts = self._system(session, line)
        return facts if line.forked_from == _NULL else [fact for fact in facts if isinstance(fact, Usage)]

    def _answer(self, session: str, line: _Line, answer: _Answer) -> Sequence[Fact]:
        if line.is_api_error_message:
            return self._ended(session, self._turn, "failed", "transcript:isApiErrorMessage")
        model = named(answer.model, "message.model")
        if model == _SYNTHETIC:
            return ()
        self._model = model or self._model
        alive = Activity(session=session)
        used = 0 if answer.usage is None else answer.usage.context_tokens
        return (alive, self._usage(session, used, _USED)) if used else (alive,)

    def _prompt(self, session: str, line: _Line, prompt: _Prompt) -> Sequence[Fact]:
        turn = named(line.prompt_id, "promptId")
        if prompt.is_tool_result:
            return (Activity(session=session),)
        if _is_interruption(line, prompt):
            return self._ended(session, turn or self._turn, "interrupted", "transcript:interruptedMessageId")
        if turn is None or turn == self._last_prompt or not _opens_turn(line, prompt):
            return ()
        self._turn = self._last_prompt = turn
        return (TurnStarted(session=session, frame_id=turn),)

    def _system(self, session: str, line: _Line) -> Sequence[Fact]:
        if line.subtype == "turn_duration":
            return self._ended(session, self._turn, "completed", "transcript:turn_duration")
        if line.subtype == "compact_boundary":
            return self._compacted(session, line, line.compact_metadata or _Compaction())
        return ()

    def _compacted(self, session: str, line: _Line, told: _Compaction) -> Sequence[Fact]:
        self._compactions += 1
        compacted = Compacted(
            session=session,
            key=named(line.uuid, "uuid") or f"count:{self._compactions}",
            trigger=named(told.trigger, "compactMetadata.trigger"),
            tokens_before=told.pre_tokens,
            tokens_after=told.post_tokens,
        )
        if told.post_tokens is None:
            return (compacted,)
        return (compacted, self._usage(session, told.post_tokens, _AFTER_COMPACTION))

    def _ended(self, session: str, turn: str | None, frame_end: str, evidence: str) -> Sequence[Fact]:
        """Return the end of a turn; a line that cannot be tied to one ends none."""
        if turn is None:
            return ()
        self._turn = None
        return (TurnEnded(session=session, frame_id=turn, frame_end=frame_end, evidence=evidence),)

    def _usage(self, session: str, used: int, source: str) -> Usage:
        model = self._model_override or self._model
        window, window_source = self._window(model)
        return Usage(
            session=session,
            used_tokens=used,
            used_source=source,
            window_tokens=window,
            window_source=window_source,
            model=model,
        )

    def _window(self, model: str | None) -> tuple[int | None, str | None]:
        if self._window_override is not None:
            name, tokens = self._window_override
            return tokens, f"override:{name}"
        tokens_of_model = window_of(model) if model else None
        return tokens_of_model, None if tokens_of_model is None else f"model:{model}"


def _is_interruption(line: _Line, prompt: _Prompt) -> bool:
    """Whether Claude Code wrote the line because the user pressed Esc; somebody may also type such a text."""
    if line.interrupted_message_id:
        return True
    typed = line.prompt_source or line.turn_origin
    return not typed and prompt.text.startswith(_INTERRUPTED)


def _opens_turn(line: _Line, prompt: _Prompt) -> bool:
    if line.is_meta or line.is_compact_summary or line.repeats_compact_summary:
        return False
    return bool(line.prompt_source or line.turn_origin) or not prompt.text.startswith(_LOCAL)
