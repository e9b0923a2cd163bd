"""What the app-server says, as far as it is about lines and threads of ours.  Pure."""

from typing import Any

import msgspec


class ServerError(msgspec.Struct):
    """Why a request was refused."""

    message: str = ""


class ServerMessage(msgspec.Struct):
    """A message of the server."""

    id: Any = None
    method: str | None = None
    params: dict[str, Any] | None = None
    result: Any = None
    error: ServerError | None = None


class _Named(msgspec.Struct):
    id: str


class _TurnIn(msgspec.Struct):
    turn: _Named


class _ThreadIn(msgspec.Struct):
    thread: _Named


def turn_in(holder: object) -> str | None:
    """Return the turn in whatever holds one: the answer to a request for it, or the params of its end."""
    try:
        return msgspec.convert(holder, _TurnIn).turn.id
    except msgspec.ValidationError:
        return None


def thread_in(holder: object) -> str | None:
    """Return the thread in whatever holds one."""
    try:
        return msgspec.convert(holder, _ThreadIn).thread.id
    except msgspec.ValidationError:
        return None
