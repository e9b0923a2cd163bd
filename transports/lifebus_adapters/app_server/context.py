"""Which thread and turn a message is about, from wherever the app-server puts that.  Pure."""

from typing import Any, Final, TypeVar

import msgspec
from msgspec import Raw, Struct

from lifebus_adapters.app_server.messages import MAX_NAME

T = TypeVar("T")

_NOTHING: Final = Raw(b"")


class Context(Struct, frozen=True):
    """The thread and the turn that a message names, None where it names none."""

    thread: str | None = None
    turn: str | None = None


# Any is the type of every field: one strange value must not hide the others.
class _Named(
    Struct, rename={"turn_id": "turnId", "snake": "turn_id", "parent": "parentTurnId", "snakes": "parent_turn_id"}
):
    """A turn, an item, or the params: whatever may name a turn."""

    id: Any = None
    turn_id: Any = None
    snake: Any = None
    parent: Any = None
    snakes: Any = None
    turn: Raw = _NOTHING


class _Params(_Named, rename={"thread_id": "threadId", "conversation_id": "conversationId"}):
    thread_id: Any = None
    conversation_id: Any = None
    thread: Raw = _NOTHING
    item: Raw = _NOTHING


_EMPTY: Final = _Named()


def context_of(params: bytes) -> Context:
    """Return what the params say, in the order of precedence that the app-server's own clients keep to."""
    parsed = decoded(params, _Params)
    if parsed is None:
        return Context()
    # Old methods call a thread a conversation.
    thread = identifier(parsed.thread_id) or _first(parsed.conversation_id, _inside(parsed.thread).id)
    return Context(thread, identifier(parsed.turn_id) or _turn_inside(parsed))


def _turn_inside(parsed: _Params) -> str | None:
    """Return the turn that stands deeper in the params."""
    turn, item = _inside(parsed.turn), _inside(parsed.item)
    around = _inside(item.turn)
    return _first(
        parsed.snake,
        *(turn.id, turn.turn_id, turn.snake),
        *(item.turn_id, item.snake, item.parent, item.snakes),
        *(around.id, around.turn_id, around.snake),
    )


def identifier(value: object) -> str | None:
    """Return a value if it is a printable name of up to 256 characters, else None."""
    return value if isinstance(value, str) and 0 < len(value) <= MAX_NAME and value.isprintable() else None


def decoded(data: bytes, kind: type[T]) -> T | None:
    """Return JSON as a type, None where it is of another form."""
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _inside(raw: Raw) -> _Named:
    found = decoded(raw, _Named) if raw != _NOTHING else None
    return _EMPTY if found is None else found


def _first(*values: object) -> str | None:
    return next((name for value in values if (name := identifier(value)) is not None), None)
