"""The reader of a Gemini CLI chat file, as measured with 0.61.0: a header, messages, patches.

- A message whose id is known replaces the earlier one: tool calls are added so, and tokens that came late.
- ``{"$set": {"messages": […]}}`` replaces all messages, ``{"$rewindTo": id}`` takes that one and all later ones away.
- A resumed session begins with its header again, in the same file or, a minute later, in a second one.
- Tokens that fall prove nothing: resuming, rewinding and another model do that too.
- After a model's error the message that was sent is taken back: a ``$set`` has all messages but that one.
- Another end of a turn does not show: a message that will call tools looks like the last one until it is replaced.
- The text of a prompt stands here with what hooks added to it, so the frame's id cannot be made from it.
- The message that called tools is written again with each call's `status` and time once they are over: that is all
  there is of calls that the user refused, after which nothing is sent to the model.
- A sub-agent's file says so in its header; it has no facts about the session.
"""

from collections.abc import Sequence
from typing import Any, Final, cast

from msgspec import UNSET, Raw, Struct, UnsetType, field

from lifebus_adapters.gemini.windows import window_of
from lifebus_adapters.shared.lines import LineDecoder, named
from lifebus_adapters.shared.telemetry import Activity, Fact, Surroundings, ToolsDone, TurnEnded, TurnStarted, Usage
from lifebus_adapters.shared.tool_calls import epoch_ms
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

MAX_MESSAGES: Final = 4_096
"""Most messages whose tokens are remembered; the oldest is forgotten first."""

_OVER: Final = ("success", "error", "cancelled")
_INPUT: Final = "chats:tokens.input"


class _Tokens(Struct):
    input: Count


class _Part(Struct):
    function_response: Raw | UnsetType = field(default=UNSET, name="functionResponse")


class _Message(Struct):
    id: str
    tokens: _Tokens | None = None
    model: str | None = None


class _Patch(Struct):
    messages: tuple[_Message, ...] | UnsetType = UNSET


class _Line(Struct):
    session: str | None = field(default=None, name="sessionId")
    kind: str | None = None
    id: str | None = None
    type: str | None = None
    content: str | _Part | tuple[str | _Part, ...] | None = None
    tokens: _Tokens | None = None
    model: str | None = None
    timestamp: Any = None
    tool_calls: Any = field(default=None, name="toolCalls")
    patch: _Patch | None = field(default=None, name="$set")
    rewind_to: str | None = field(default=None, name="$rewindTo")


_LINE: Final = LineDecoder(_Line)


class ChatReader:
    """Reads one chat file; `model` is the name to report instead of the file's own."""

    def __init__(self, surroundings: Surroundings, model: str | None = None) -> None:
        self._surroundings = surroundings
        self._model = model
        self._session: str | None = None
        self._usages: dict[str, Usage | None] = {}
        # The message that was sent to the model last: a prompt, or a tool's result.
        self._sent: str | None = None

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return the facts in a line (see `RecordReader`).

        Raises:
            InvalidRequest: the line is not what Gemini CLI writes.
        """
        line = _LINE.read(record)
        if line.session is not None:
            # Without a session every later line of the file is passed over.
            self._session = None if line.kind == "subagent" else named(line.session, "sessionId")
            # A resumed session lists its messages anew: nothing is taken back by that.
            self._sent = None
            return ()
        if self._session is None:
            return ()
        if line.patch is not None:
            return self._set(self._session, line.patch)
        if line.rewind_to is not None:
            return self._rewind(line.rewind_to)
        return self._message(self._session, line)

    def _message(self, session: str, line: _Line) -> Sequence[Fact]:
        known_id = named(line.id, "id")
        if known_id is None:
            raise InvalidRequest("neither a message nor a patch", code="missing", field="$.id")
        # A message is written again as it grows: only its first line begins a turn.
        is_new = known_id not in self._usages
        if line.type != "gemini":
            self._remember(known_id, None)
            self._sent = known_id if line.type == "user" else None
            return _from_others(session, line) if is_new else ()
        usage = self._usage(session, line)
        self._remember(known_id, usage)
        # An older message that is patched says nothing about how full the context is now.
        is_newest = next(reversed(self._usages)) == known_id
        facts: Sequence[Fact] = (usage,) if usage and is_newest else (Activity(session=session),)
        return (*facts, *_tools_over(session, line.tool_calls))

    def _usage(self, session: str, line: _Line) -> Usage | None:
        if line.tokens is None:
            return None
        model = self._model or named(line.model, "model")
        window, source = window_of(model, self._surroundings)
        return Usage(
            session=session,
            used_tokens=line.tokens.input,
            used_source=_INPUT,
            window_tokens=window,
            window_source=source,
            model=model,
        )

    def _remember(self, known_id: str, usage: Usage | None) -> None:
        self._usages[known_id] = usage
        if len(self._usages) > MAX_MESSAGES:
            del self._usages[next(iter(self._usages))]

    def _set(self, session: str, patch: _Patch) -> Sequence[Fact]:
        """Take over the list of messages; its entries have lost their tokens, so known ones keep theirs."""
        if patch.messages is UNSET:
            return ()
        before = list(self._usages)
        kept = [message.id for message in patch.messages[-MAX_MESSAGES:]]
        self._usages = {known_id: self._usages.get(known_id) for known_id in kept}
        # A compaction, which makes such a list too, gives the messages new ids.
        if before and before[-1] == self._sent and kept == before[:-1]:
            return (TurnEnded(session=session, frame_end="failed", evidence="chats:message taken back"),)
        return ()

    def _rewind(self, known_id: str) -> Sequence[Fact]:
        """Forget a message and all after it; the newest that is left says how full the context is again."""
        ids = list(self._usages)
        if known_id not in ids:
            return ()
        for gone in ids[ids.index(known_id) :]:
            del self._usages[gone]
        # The rewound messages are out of the context, so that the one before them counts again.
        left = next((usage for usage in reversed(self._usages.values()) if usage), None)
        return (left,) if left else ()


def _tools_over(session: str, calls: object) -> Sequence[Fact]:
    """Return that all calls of a message are over, whether they were made or refused."""
    its = cast("Sequence[Any]", calls) if isinstance(calls, list) else ()
    known = [cast("dict[str, Any]", one) for one in its if isinstance(one, dict)]
    if not known or any(one.get("status") not in _OVER for one in known):
        return ()
    times = [epoch_ms(one.get("timestamp")) for one in known]
    newest = max((at_ms for at_ms in times if at_ms is not None), default=None)
    return () if newest is None else (ToolsDone(session=session, at_ms=newest),)


def _from_others(session: str, line: _Line) -> Sequence[Fact]:
    """Return the facts in a message that is not the model's: a prompt begins a turn, a tool's result is work."""
    if line.type != "user":
        return ()
    parts = line.content if isinstance(line.content, tuple) else (line.content,)
    if any(isinstance(part, _Part) and part.function_response is not UNSET for part in parts):
        # The results of all tools that were called together are sent together.
        at_ms = epoch_ms(line.timestamp)
        done = () if at_ms is None else (ToolsDone(session=session, at_ms=at_ms),)
        return (Activity(session=session), *done)
    return (TurnStarted(session=session),)
