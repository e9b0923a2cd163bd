"""The reader of a Claude Code transcript, as measured with 2.1.330: one object a line, of a kind named by `type`.

- Used is what Claude Code itself counts: input, cache creation, cache read and output tokens of the newest answer;
  after a `compact_boundary` and before the next answer its `postTokens`.  The window is not in the file.
- Lines of sub-agents (`isSidechain`) are passed over: their tokens fill another context.
- Answers that Claude Code made up (model ``<synthetic>``) carry no usage; one that reports an API error ends the turn.
- `compact_boundary` is the proof of a compaction; its `uuid` is the key.
- A turn begins with a prompt, a finished background task's notice included.  Tool results, the summary of a compaction,
  what Claude Code adds (`isMeta`), and local commands such as /clear and /compact are no prompts.
- Esc leaves no hook, only a line with `interruptedMessageId` (or, before the first answer, only with its text).
- `turn_duration` ends the newest turn; in ``-p`` runs it is not written.
- `stop_hook_summary` comes once a stop, when all stop hooks have answered: the turn has ended if none of them refused
  the stop or gave context; else it goes on with the next request, up to nine times.
- A prompt that a hook refused leaves only a line with `promptSubmitEnding`, which names no prompt.
- After /clear the new file's lines still name the old session in `session_id`; `sessionId` is right.
- Every line of the conversation has `cwd` and `gitBranch`; the branch is empty outside of a repository.  What the user
  calls the session stands in lines `custom-title`, what Claude Code made up in `ai-title`; the user's word counts.
- Requests and attachments are most of the bytes: they are passed over by their first bytes, without parsing.
- A fork begins with its parent's lines, under its own session id and the id of its own first prompt.  They count for
  the context, not for ends and compactions: those were the other's.  Answers among them name the other in
  `requestSessionId`; in ``-p`` runs they all are older than the `queue-operation` before them; the next line that is no
  conversation ends them.
"""

from collections.abc import Sequence
from typing import Final

from lifebus_adapters.claude.records import (
    ASSISTANT_MESSAGE,
    LINE,
    USER_MESSAGE,
    AssistantMessage,
    CompactMetadata,
    Line,
    UserMessage,
)
from lifebus_adapters.claude.windows import window_of
from lifebus_adapters.shared.lines import named, plain_text, title_text
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    TurnContinued,
    TurnEnded,
    TurnStarted,
    Usage,
    Whereabouts,
)
from lifebus_adapters.shared.tool_calls import OpenCalls

_USED: Final = "transcript:usage.input+cache_creation+cache_read+output"
_AFTER_COMPACTION: Final = "transcript:compact_boundary.postTokens"

_SYNTHETIC: Final = "<synthetic>"
_BLOCKED: Final = "blocked_by_hook"
_INTERRUPTED: Final = "[Request interrupted by user"
_LOCAL: Final = ("<command-name>", "<command-message>", "<local-command-", "<bash-input>", "<bash-std")
_REQUESTS: Final = (b'{"type":"api-request', b'{"type": "api-request')
_ATTACHMENT: Final = b'"attachment":'
_BEGINNING: Final = 160
_MESSAGE_TYPES: Final = frozenset({"assistant", "user", "system"})
_QUEUED: Final = "queue-operation"
_SECONDS: Final = len("2026-11-21T20:59:16")


class TranscriptReader:
    """Reads one transcript from its beginning.

    `session` is the id in the file's name; a line's own session id goes before it.  `model` and `window` are what the
    user says instead of the file: the window with the name of the variable that says so.
    """

    def __init__(self, session: str | None, model: str | None = None, window: tuple[str, int] | None = None) -> None:
        self._session = session
        self._model_override = model
        self._window_override = window
        self._model: str | None = None
        self._turn: str | None = None
        self._last_prompt: str | None = None
        self._queued_at = ""
        self._is_copying = False
        self._is_copied = False
        self._refused = False
        self._compactions = 0
        self._calls = OpenCalls()
        self._place: Whereabouts | None = None
        self._title: str | None = None
        self._made_up_title: str | None = None

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return the facts in a line (see `RecordReader`).

        Raises:
            InvalidRequest: the line is not what Claude Code writes.
        """
        # Before any parsing: requests are most of the file's bytes.
        if record.startswith(_REQUESTS):
            self._is_copying = False
            return self._continued() if self._refused else ()
        if record.find(_ATTACHMENT, 0, _BEGINNING) >= 0:
            return ()
        line = LINE.read(record)
        self._note_copies(line)
        # After /clear `session_id` is still the old one; this is the camel-case `sessionId`.
        session = named(line.session_id, "sessionId") or self._session
        if session is None or line.is_sidechain or self._is_copied:
            return self._of_session(session, line)
        return (*self._of_session(session, line), *self._moved(session, line))

    def _of_session(self, session: str | None, line: Line) -> Sequence[Fact]:
        if session is None or line.is_sidechain or line.type not in _MESSAGE_TYPES:
            return ()
        if line.type == "assistant":
            return self._answer(session, line, ASSISTANT_MESSAGE.read(line.message))
        if line.type == "user":
            return self._prompt(session, line, USER_MESSAGE.read(line.message))
        return self._system(session, line)

    def _moved(self, session: str, line: Line) -> Sequence[Fact]:
        """Return where the session works and what it is called, where this line changes that."""
        known = self._place or Whereabouts(session=session)
        self._made_up_title = title_text(line.ai_title) or self._made_up_title
        self._title = title_text(line.custom_title) or self._title
        place = Whereabouts(
            session=session,
            # The first one: hooks say every other one at once.
            cwd=known.cwd or plain_text(line.cwd),
            git_branch=plain_text(line.git_branch) or known.git_branch,
            title=self._title or self._made_up_title,
        )
        if place == known:
            return ()
        self._place = place
        return (place,)

    def _note_copies(self, line: Line) -> None:
        """Note whether a fork copied this line, and perhaps those behind it, from another session's file."""
        at = (line.timestamp or "")[:_SECONDS]
        if line.type == _QUEUED:
            self._queued_at = max(self._queued_at, at)
        asked_by = line.request_session_id or line.session_id
        self._is_copying = line.type in _MESSAGE_TYPES and (self._is_copying or asked_by != line.session_id)
        # Compared as text, to the second: all times of a file have the same form.
        self._is_copied = self._is_copying or "" < at < self._queued_at

    def _answer(self, session: str, line: Line, answer: AssistantMessage) -> Sequence[Fact]:
        if line.is_api_error_message:
            return self._ended(session, self._turn, "failed", "transcript:isApiErrorMessage")
        model = named(answer.model, "message.model")
        # Claude Code writes such answers itself, for example after an interruption.
        if model == _SYNTHETIC:
            return ()
        self._model = model or self._model
        self._calls.call(answer.tool_calls)
        alive = () if self._is_copied else (Activity(session=session),)
        used = 0 if answer.usage is None else answer.usage.context_tokens
        return (*alive, self._usage(session, used, _USED)) if used else alive

    def _prompt(self, session: str, line: Line, prompt: UserMessage) -> Sequence[Fact]:
        turn = named(line.prompt_id, "promptId")
        if prompt.is_tool_result:
            done = self._calls.finish(session, prompt.tool_results, line.timestamp)
            return () if self._is_copied else (Activity(session=session), *done)
        if _is_interruption(line, prompt):
            return self._ended(session, turn or self._turn, "interrupted", "transcript:interruptedMessageId")
        # One prompt may be written in several lines with the same id.
        if turn is None or turn == self._last_prompt or not _opens_turn(line, prompt):
            return ()
        self._turn = self._last_prompt = turn
        self._calls.begin_turn()
        return (TurnStarted(session=session, frame_id=turn),)

    def _system(self, session: str, line: Line) -> Sequence[Fact]:
        if line.subtype == "turn_duration":
            return self._ended(session, self._turn, "completed", "transcript:turn_duration")
        if line.subtype == "stop_hook_summary":
            return self._stopped(session, line)
        if line.prompt_submit_ending is not None and line.prompt_submit_ending.ending.kind == _BLOCKED:
            blocked = f"transcript:promptSubmitEnding.{_BLOCKED}"
            return () if self._is_copied else (TurnEnded(session=session, frame_end="blocked", evidence=blocked),)
        if line.subtype == "compact_boundary":
            return self._compacted(session, line, line.compact_metadata or CompactMetadata())
        return ()

    def _stopped(self, session: str, line: Line) -> Sequence[Fact]:
        """Return the turn's end, unless a stop hook refused it."""
        if self._turn is None or self._is_copied:
            return ()
        refused = len(line.hook_errors or ()) > len(line.failed_hook_error_indexes or ())
        self._refused = refused or bool(line.hook_additional_context)
        if self._refused:  # the ninth time in a row no request follows
            return ()
        return self._ended(session, self._turn, "completed", "transcript:stop_hook_summary")

    def _continued(self) -> Sequence[Fact]:
        self._refused = False
        if self._session is None or self._turn is None:
            return ()
        return (TurnContinued(session=self._session, frame_id=self._turn),)

    def _compacted(self, session: str, line: Line, metadata: CompactMetadata) -> Sequence[Fact]:
        self._compactions += 1
        compacted = Compacted(
            session=session,
            key=named(line.uuid, "uuid") or f"count:{self._compactions}",
            trigger=named(metadata.trigger, "compactMetadata.trigger"),
            tokens_before=metadata.pre_tokens,
            tokens_after=metadata.post_tokens,
        )
        # The compaction of a copied line happened in the session that was forked.
        proof = () if self._is_copied else (compacted,)
        if metadata.post_tokens is None:
            return proof
        return (*proof, self._usage(session, metadata.post_tokens, _AFTER_COMPACTION))

    def _ended(self, session: str, turn: str | None, frame_end: str, evidence: str) -> Sequence[Fact]:
        """Return the end of a turn; a line that cannot be tied to one of this session ends none."""
        if turn is None or self._is_copied:
            return ()
        # One end a turn: what comes later cannot be tied to it.
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


def _is_interruption(line: Line, prompt: UserMessage) -> bool:
    """Whether Claude Code wrote the line because the user pressed Esc; somebody may also type such a text."""
    if line.interrupted_message_id:
        return True
    # A user may type the same words: then the line has a source, and is a prompt.
    typed = line.prompt_source or line.turn_origin
    return not typed and prompt.text.startswith(_INTERRUPTED)


def _opens_turn(line: Line, prompt: UserMessage) -> bool:
    if line.is_meta or line.is_compact_summary or line.repeats_compact_summary:
        return False
    return bool(line.prompt_source or line.turn_origin) or not prompt.text.startswith(_LOCAL)
