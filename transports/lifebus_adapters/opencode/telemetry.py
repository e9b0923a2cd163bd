"""What OpenCode leaves behind: its database, and the token counts and window in its plugin's calls (1.18.33).

`chat.params` comes before each request and names the model's window; the title and the summary are written by agents
of their own, perhaps with other models.  `message.updated` has the token counts once the message is finished; our
plugin puts the limits of its model beside them.
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from lifebus_adapters.opencode.database import EventReader, Tokens, used_of
from lifebus_adapters.shared.fields import Payload, count, find, identifier, scalar
from lifebus_adapters.shared.sources import database
from lifebus_adapters.shared.telemetry import Fact, SourceSpec, Surroundings, Usage, WindowKnown
from lifebus_contract import InvalidRequest

_PATHS: Final = ("LIFEBUS_OPENCODE_DB_PATH", "LIFELOOP_OPENCODE_DB_PATH")
_FOLDERS: Final = ("LIFEBUS_OPENCODE_DATA_DIR", "LIFELOOP_OPENCODE_DATA_DIR")
_DATABASE: Final = "opencode.db"

OVERRIDES: Final = (_PATHS[0], _FOLDERS[0])
"""Our own variables: where the database is, or the folder that it is in."""

_HELPERS: Final = frozenset({"title", "summary", "compaction"})
_INFO: Final = "input.event.properties.info"
_LIMIT: Final = "hook:model.limit.context"


def _roots(surroundings: Surroundings) -> Sequence[str]:
    path, folder = surroundings.first(*_PATHS), surroundings.first(*_FOLDERS)
    if path:
        return (path[1],)
    if folder:
        return (f"{folder[1]}/{_DATABASE}",)
    data = surroundings.first("XDG_DATA_HOME")
    return (f"{data[1] if data else surroundings.home + '/.local/share'}/opencode/{_DATABASE}",)


def _is_ours(path: str) -> bool:
    return path.endswith(f"/{_DATABASE}")


SOURCES: Final[tuple[SourceSpec, ...]] = (database(roots=_roots, is_ours=_is_ours, make_reader=EventReader),)
"""The database: one for all sessions of a user."""


def hook_facts(hook: str, payload: Payload, session: str) -> tuple[Fact, ...]:
    """Return the facts in the payload of a call: how full the context is, how large its window.

    Raises:
        InvalidRequest: a count is no number of tokens.
    """
    if hook == "chat.params":
        return _window(payload, session)
    return _usage(payload, session) if hook == "message.updated" else ()


def _window(payload: Payload, session: str) -> tuple[Fact, ...]:
    window = count(payload, "input.model.limit.context")
    # Helpers may use another model, with another window.
    if not window or scalar(payload, "input.agent", str) in _HELPERS:
        return ()
    return (WindowKnown(session=session, window_tokens=window, window_source=_LIMIT),)


def _usage(payload: Payload, session: str) -> tuple[Fact, ...]:
    role, finish = find(payload, f"{_INFO}.role"), find(payload, f"{_INFO}.finish")
    tokens = find(payload, f"{_INFO}.tokens")
    # A message without a finish reason still grows, and its counts with it.
    if role != "assistant" or not finish or tokens is None or find(payload, f"{_INFO}.summary") is True:
        return ()
    try:
        used, source = used_of(msgspec.convert(tokens, Tokens), "hook:message.updated.tokens")
    except msgspec.ValidationError:
        raise InvalidRequest("no token counts", code="wrong_type", field=f"$.{_INFO}.tokens") from None
    window = count(payload, f"{_INFO}.limit.context") or None
    return (
        Usage(
            session=session,
            used_tokens=used,
            used_source=source,
            window_tokens=window,
            window_source=_LIMIT if window else None,
            model=identifier(payload, f"{_INFO}.modelID"),
        ),
    )
