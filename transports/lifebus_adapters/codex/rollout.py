"""The reader of a Codex rollout, as measured with 0.169.0: lines ``{timestamp, ordinal, type, payload}``.

- `token_count` repeats with equal values, which is harmless.  Its `total_token_usage` adds up all requests and says
  nothing of the context; `last_token_usage` does.  After a compaction its parts are 0 and the total is an estimate.
- The window is already the part of the model's that Codex uses.
- `compacted` is the proof of a compaction; `ordinal` counts from 0 without gaps, over resumes too.  The line has no
  token counts and no trigger.
- A compaction on request is a task of its own, without the `turn_attribution` that turns have: it is no turn, and what
  is done in it is no work of one.
- A prompt that a hook refused never gets into the file: its task is complete without it, without an answer and without
  an error.
- A sub-agent has a file of its own under its own thread id, and fills a context of its own: it has no facts for us.
  Its first line shows it: `source` is an object, `thread_source` is not the user, a parent thread is named, or
  `session_id` is not `id`.  A file whose first line is missing is taken for a session of its own, which no hook names:
  nothing is taken for the parent's in any case.
- The first line has the directory and the branch as they were when the session began; outside of a repository its
  `git` is empty.  No later line has them, and none has a title.
- A fork has its own session and goes on with its parent's ordinals.  Older versions repeated the parent's lines, that
  parent's first line too; so only the first of them counts.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, UnsetType, field

from lifebus_adapters.app_server.errors import ErrorInfo, error_facts
from lifebus_adapters.shared.lines import LineDecoder, named, plain_text
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
from lifebus_contract.fields import Count, FactValue

_NULL: Final = Raw(b"null")

_LAST: Final = "rollout:last_token_usage.total_tokens"
_ESTIMATE: Final = "rollout:last_token_usage.total_tokens:estimated"
_WINDOW: Final = "rollout:model_context_window"
_TASK_WINDOW: Final = "rollout:task_started.model_context_window"

_THREAD_OF_USER: Final = (None, "user")
_TYPED_BY_OTHERS: Final = frozenset({"user", "developer", "system"})
_HOOK_PROMPT: Final = "HookPrompt"
_USER_MESSAGE: Final = "UserMessage"
_ITEMS_OF_OTHERS: Final = frozenset({_USER_MESSAGE, _HOOK_PROMPT})
_CALLS: Final = frozenset({"function_call", "custom_tool_call", "local_shell_call"})
_RESULTS: Final = frozenset({"function_call_output", "custom_tool_call_output"})


class _Line(Struct):
    type: str
    payload: Raw = _NULL
    ordinal: Count | None = None
    timestamp: Any = None


class _Kind(Struct):
    type: str = ""
    role: str | None = None
    call_id: Any = None


class _Meta(Struct):
    id: str | None = None
    session_id: str | None = None
    parent_thread_id: str | None = None
    thread_source: str | None = None
    source: str | dict[str, Any] | None = None
    cwd: Any = None
    git: Any = None


class _TurnContext(Struct):
    model: str | None = None


class _Started(Struct):
    turn_id: str | None = None
    model_context_window: Count | None = None
    turn_attribution: Raw = _NULL


class _Ended(Struct):
    turn_id: str | None = None
    error: Raw = _NULL
    reason: str | None = None
    answer: str | UnsetType | None = field(default=UNSET, name="last_agent_message")


class _Item(Struct):
    item: _Kind
    turn_id: str | None = None


class _Tokens(Struct):
    total_tokens: Count
    input_tokens: Count | None = None
    output_tokens: Count | None = None


class _Info(Struct):
    last_token_usage: _Tokens | None = None
    model_context_window: Count | None = None


class _TokenCount(Struct):
    info: _Info | None = None


_LINE: Final = LineDecoder(_Line)
_KIND: Final = LineDecoder(_Kind)
_META: Final = LineDecoder(_Meta)
_TURN_CONTEXT: Final = LineDecoder(_TurnContext)
_STARTED: Final = LineDecoder(_Started)
_ENDED: Final = LineDecoder(_Ended)
_ITEM: Final = LineDecoder(_Item)
_TOKEN_COUNT: Final = LineDecoder(_TokenCount)


class RolloutReader:
    """Reads one rollout from its beginning.

    `session` is the id in the file's name, None where there is none: then it is the first line's id.
    `model` is the name to report instead of the file's own.
    """

    def __init__(self, session: str | None, model: str | None = None) -> None:
        self._session = session
        self._model_override = model
        self._model: str | None = None
        self._task_window: int | None = None
        self._has_meta = False
        self._is_subagent = False
        self._attributes_turns = False
        self._in_compaction = False
        # The turn that has begun, as long as nothing shows that its prompt was taken.
        self._untaken: str | None = None
        self._compactions = 0
        self._calls = OpenCalls()

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return the facts in a line (see `RecordReader`).

        Raises:
            InvalidRequest: the line is not what Codex writes.
        """
        line = _LINE.read(record)
        if line.payload == _NULL:
            return ()
        if line.type == "session_meta":
            return self._open(_META.read(line.payload))
        if self._session is None or self._is_subagent:
            return ()
        return self._of_session(self._session, line)

    def _open(self, meta: _Meta) -> Sequence[Fact]:
        # Older versions repeated the first line of a fork's parent: only the file's own one counts.
        if self._has_meta:
            return ()
        self._has_meta = True
        own = named(meta.id, "payload.id")
        # The id in the file's name counts more than that of its first line.
        self._session = self._session or own
        # An object other than `custom` says what Codex itself started the thread for.
        made_by_codex = isinstance(meta.source, dict) and "custom" not in meta.source
        elsewhere = meta.thread_source is None and (meta.session_id or own) != own
        self._is_subagent = bool(meta.parent_thread_id) or made_by_codex or elsewhere
        self._is_subagent |= meta.thread_source not in _THREAD_OF_USER
        if self._session is None or self._is_subagent:
            return ()
        said: object = meta.git
        git = cast("dict[str, Any]", said) if isinstance(said, dict) else {}
        cwd, branch = plain_text(meta.cwd), plain_text(git.get("branch"))
        began = Whereabouts(session=self._session, cwd=cwd, git_branch=branch, at_start=True)
        return (began,) if cwd or branch else ()

    def _of_session(self, session: str, line: _Line) -> Sequence[Fact]:
        match line.type:
            case "compacted":
                return self._compacted(session, line.ordinal)
            case "turn_context":
                self._model = named(_TURN_CONTEXT.read(line.payload).model, "payload.model") or self._model
                return ()
            case "event_msg":
                return self._event(session, line)
            case _:
                return self._activity(session, line)

    def _event(self, session: str, line: _Line) -> Sequence[Fact]:
        match _KIND.read(line.payload).type:
            case "token_count":
                return self._token_count(session, _TOKEN_COUNT.read(line.payload))
            case "task_started":
                return self._task_started(session, _STARTED.read(line.payload))
            case "task_complete":
                return self._task_complete(session, _ENDED.read(line.payload))
            case "turn_aborted":
                return self._turn_aborted(session, _ENDED.read(line.payload))
            case "item_completed":
                return self._item(session, line, _ITEM.read(line.payload))
            case _:
                return self._activity(session, line)

    def _item(self, session: str, line: _Line, completed: _Item) -> Sequence[Fact]:
        self._untaken = None
        # One item a stop, however many hooks refused it.
        if completed.item.type == _HOOK_PROMPT:
            return (TurnContinued(session=session, frame_id=named(completed.turn_id, "payload.turn_id")),)
        return self._activity(session, line)

    def _activity(self, session: str, line: _Line) -> Sequence[Fact]:
        if self._in_compaction or not _is_activity(line):
            return ()
        self._untaken = None
        return (Activity(session=session), *self._tools(session, line))

    def _tools(self, session: str, line: _Line) -> Sequence[Fact]:
        """Take a tool's call or its result; return that no call is without its result any more."""
        if line.type != "response_item":
            return ()
        item = _KIND.read(line.payload)
        if item.type in _CALLS:
            self._calls.call([item.call_id])
        return self._calls.finish(session, [item.call_id], line.timestamp) if item.type in _RESULTS else ()

    def _compacted(self, session: str, ordinal: int | None) -> Sequence[Fact]:
        self._compactions += 1
        # A file is read from its beginning, so that counting gives the same key again.
        key = f"count:{self._compactions}" if ordinal is None else f"ordinal:{ordinal}"
        return (Compacted(session=session, key=key),)

    def _task_started(self, session: str, started: _Started) -> Sequence[Fact]:
        self._calls.begin_turn()
        self._task_window = started.model_context_window or self._task_window
        turn = named(started.turn_id, "payload.turn_id")
        attributed = started.turn_attribution != _NULL
        # Before the first turn that is attributed, a missing attribution says nothing.
        self._attributes_turns |= attributed
        self._in_compaction = self._attributes_turns and not attributed
        # Versions that attribute no turns store prompts in another form.
        self._untaken = turn if attributed else None
        return () if self._in_compaction else (TurnStarted(session=session, frame_id=turn, reports_end=True),)

    def _task_complete(self, session: str, ended: _Ended) -> Sequence[Fact]:
        if ended.error == _NULL:
            if self._untaken is not None and self._untaken == ended.turn_id and ended.answer is None:
                return self._ended(session, ended, "blocked", "rollout:task_complete without the prompt")
            return self._ended(session, ended, "completed", "rollout:task_complete")
        facts = error_facts(ErrorInfo.of_file(ended.error), will_retry=False)
        return self._ended(session, ended, "failed", "rollout:task_complete.error", facts)

    def _turn_aborted(self, session: str, ended: _Ended) -> Sequence[Fact]:
        reason = named(ended.reason, "payload.reason") or "unknown"
        return self._ended(session, ended, "interrupted", f"rollout:turn_aborted.{reason}")

    def _ended(
        self, session: str, ended: _Ended, frame_end: str, evidence: str, details: Mapping[str, FactValue] | None = None
    ) -> Sequence[Fact]:
        turn = named(ended.turn_id, "payload.turn_id")
        # The end of a compaction on request is no end of a turn.
        if self._in_compaction:
            self._in_compaction = False
            return ()
        details = dict(details or {})
        return (TurnEnded(session=session, frame_id=turn, frame_end=frame_end, evidence=evidence, details=details),)

    def _token_count(self, session: str, count: _TokenCount) -> Sequence[Fact]:
        info = count.info
        if info is None or info.last_token_usage is None:
            return ()
        window_source = _WINDOW if info.model_context_window else _TASK_WINDOW
        window = info.model_context_window or self._task_window
        return (
            Usage(
                session=session,
                used_tokens=info.last_token_usage.total_tokens,
                used_source=_used_source(info.last_token_usage),
                window_tokens=window,
                window_source=window_source if window else None,
                model=self._model_override or self._model,
            ),
        )


def _is_activity(line: _Line) -> bool:
    """Whether a line shows that the model or a tool did something."""
    # Prompts are written by people and hooks: they are no sign that the model works.
    if line.type == "response_item":
        return _KIND.read(line.payload).role not in _TYPED_BY_OTHERS
    if line.type != "event_msg" or _KIND.read(line.payload).type != "item_completed":
        return False
    return _ITEM.read(line.payload).item.type not in _ITEMS_OF_OTHERS


def _used_source(tokens: _Tokens) -> str:
    # After a compaction Codex writes an estimate, which has a total and no parts.
    estimated = tokens.total_tokens > 0 and tokens.input_tokens == 0 and tokens.output_tokens == 0
    return _ESTIMATE if estimated else _LAST
