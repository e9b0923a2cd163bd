"""The reader of Gemini CLI's opt-in telemetry file: JSON objects one after the other (measured with 0.61.0).

- Only requests of the role `main` are the conversation's; the compressor and its like send other contexts.
- `api_response` names the model as the service calls it; the request before it names the one that was asked for.
- `chat_compression` is written for attempts that failed too: proof is that the context became smaller.
- The file holds prompts, answers and whole hook inputs; none of that is decoded.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Raw, Struct, UnsetType, field

from lifebus_adapters.gemini.windows import window_of
from lifebus_adapters.shared.lines import LineDecoder, named
from lifebus_adapters.shared.telemetry import Activity, Compacted, Fact, Surroundings, Usage
from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Count

MAX_SESSIONS: Final = 64
"""Most sessions whose model is remembered; the oldest is forgotten first."""

_INPUT: Final = "telemetry:api_response.input_token_count"
_SIGNS: Final = frozenset({"gemini_cli.user_prompt", "gemini_cli.tool_call", "gemini_cli.api_error"})
_EVENTS: Final = _SIGNS | {"gemini_cli.api_request", "gemini_cli.api_response", "gemini_cli.chat_compression"}


class _Object(Struct):
    attributes: Raw | UnsetType = UNSET


class _Named(Struct):
    name: str | None = field(default=None, name="event.name")


class _Event(Struct):
    name: str = field(name="event.name")
    session: str | None = field(default=None, name="session.id")
    timestamp: str | None = field(default=None, name="event.timestamp")
    role: str | None = None
    model: str | None = None
    input_token_count: Count | None = None
    tokens_before: Count | None = None
    tokens_after: Count | None = None


_OBJECT: Final = LineDecoder(_Object)
_NAMED: Final = LineDecoder(_Named)
_EVENT: Final = LineDecoder(_Event)


class TelemetryLogReader:
    """Reads one telemetry file, which may hold many sessions; `model` is the name to report instead of the file's."""

    def __init__(self, surroundings: Surroundings, model: str | None = None) -> None:
        self._surroundings = surroundings
        self._model = model
        self._models: dict[str, str | None] = {}

    def read(self, record: bytes) -> Sequence[Fact]:
        """Return the facts in an object (see `RecordReader`); spans, metrics and most events have none.

        Raises:
            InvalidRequest: it is not what Gemini CLI writes.
        """
        attributes = _OBJECT.read(record).attributes
        # By name first: most objects are spans and metrics, some of them with whole prompts.
        if attributes is UNSET or _NAMED.read(attributes).name not in _EVENTS:
            return ()
        event = _EVENT.read(attributes)
        session = named(event.session, "attributes.session.id")
        if session is None:
            raise InvalidRequest("an event without its session", code="missing", field="$.attributes")
        return self._event(session, event)

    def _event(self, session: str, event: _Event) -> Sequence[Fact]:
        if event.name == "gemini_cli.chat_compression":
            return _compacted(session, event)
        # The compressor and its like fill contexts of their own.
        if event.role not in {None, "main"} or event.name in _SIGNS:
            return (Activity(session=session),)
        if event.name == "gemini_cli.api_request":
            self._remember(session, named(event.model, "attributes.model"))
            return (Activity(session=session),)
        return self._usage(session, event)

    def _remember(self, session: str, model: str | None) -> None:
        self._models[session] = model
        if len(self._models) > MAX_SESSIONS:
            del self._models[next(iter(self._models))]

    def _usage(self, session: str, event: _Event) -> Sequence[Fact]:
        if event.input_token_count is None:
            return (Activity(session=session),)
        model = self._model or self._models.get(session) or named(event.model, "attributes.model")
        window, source = window_of(model, self._surroundings)
        usage = Usage(
            session=session,
            used_tokens=event.input_token_count,
            used_source=_INPUT,
            window_tokens=window,
            window_source=source,
            model=model,
        )
        return (usage,)


def _compacted(session: str, event: _Event) -> Sequence[Fact]:
    """Return the proof, if the context did become smaller; its time is its key."""
    at, before, after = named(event.timestamp, "attributes.event.timestamp"), event.tokens_before, event.tokens_after
    if at is None or before is None or after is None:
        raise InvalidRequest("a compression without its time or tokens", code="missing", field="$.attributes")
    # Gemini CLI logs attempts that failed, too.
    if after >= before:
        return (Activity(session=session),)
    return (Compacted(session=session, key=f"compression:{at}", tokens_before=before, tokens_after=after),)
