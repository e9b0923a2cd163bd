"""Sessions as users name them: a short name, ADAPTER/SESSION, the harness's own id, or the beginning or end of one."""

import difflib
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lifebus.cli.arguments import ConnectionOptions, parse_session
from lifebus.cli.choices import parse_adapters
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import UsageError
from lifebus.cli.terminal import clean
from lifebus.cli.wording.receipt_line import name_of
from lifebus_contract import InvalidRequest, LifebusError, Receipt

if TYPE_CHECKING:
    from lifebus._internal.view import Gap
    from lifebus.client import Bus
    from lifebus_contract.views import SessionHead

_SHORTEST_PART: Final = 4
"""Fewest letters of an id that may stand for the whole of it."""

_SHOWN: Final = 8
"""Most sessions that a refusal lists."""


class SessionNames:
    """The short names of sessions, as far as they were asked for; a session keeps its name for ever."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, str], str] = {}

    def get(self, key: tuple[str, str]) -> str | None:
        """Return the name of a session, None where it has none or was not asked for."""
        return self._names.get(key) or None

    async def learn(self, bus: "Bus", session: tuple[str, str] | None = None) -> None:
        """Ask for the names of all sessions, or of one; what cannot be had just now stays unknown."""
        with suppress(LifebusError):
            self.note(await bus.sessions(session))

    def note(self, heads: "Iterable[SessionHead]") -> None:
        """Keep the names of sessions that were asked for."""
        for head in heads:
            self._names[head.adapter_id, head.harness_session_id] = head.name or ""

    async def known(self, bus: "Bus", items: "AsyncIterator[Receipt | Gap]") -> "AsyncIterator[Receipt | Gap]":
        """Yield receipts and gaps, each receipt once the name of its session is known."""
        async for item in items:
            if isinstance(item, Receipt) and item.harness_session_id is not None:
                key = (item.adapter_id, item.harness_session_id)
                if key not in self._names:
                    await self.learn(bus, key)
            yield item


def resolve_session(text: str, connection: ConnectionOptions) -> tuple[str, str]:
    """Return adapter id and session id of what a user typed; only a whole name needs no broker.

    Raises:
        UsageError: no session is called so, or several are, or there is no such adapter.
        LifebusError: no broker answers.
    """
    if "/" in text:
        return _named_in_full(text, connection)
    return choose_session(text, on_bus(connection, lambda bus: bus.sessions()))


def resolve_sessions(texts: Sequence[str], connection: ConnectionOptions) -> list[tuple[str, str]]:
    """Return the sessions that a flag names: one after another, or short names with commas between them.

    Raises:
        UsageError, LifebusError: as `resolve_session`.
    """
    found = [_named_in_full(text, connection) for text in texts if "/" in text]
    short = [text for text in texts if "/" not in text]
    if short:
        heads = on_bus(connection, lambda bus: bus.sessions())
        found += [session for text in short for session in _choose_several(text, heads)]
    return found


def _choose_several(text: str, heads: "Sequence[SessionHead]") -> list[tuple[str, str]]:
    # An id or a folder may have a comma in it: what is called so goes before a list.
    if "," not in text or any(text in {head.name, head.harness_session_id} for head in heads):
        return [choose_session(text, heads)]
    return [choose_session(part, heads) for part in text.split(",") if part]


def _named_in_full(text: str, connection: ConnectionOptions) -> tuple[str, str]:
    adapter, session = parse_session(text)
    parse_adapters([adapter], connection, flag="adapter of the session")
    return adapter, session


def choose_session(text: str, heads: "Sequence[SessionHead]") -> tuple[str, str]:
    """Return the session that is meant; whoever has exactly this name goes before all others.

    Raises:
        InvalidRequest: there is none (`no_session`); it says which may be meant.
        UsageError: there are several; it lists them.
    """
    for is_meant in _ways(text):
        found = [head for head in heads if is_meant(head)]
        if len(found) == 1:
            return found[0].adapter_id, found[0].harness_session_id
        if found:
            raise UsageError(f"`{clean(text)[:64]}` is not one session but {len(found)}: {_listed(found)}; name one")
    names = [name for head in heads for name in (head.name, head.harness_session_id) if name]
    near = difflib.get_close_matches(text, names, n=3)
    hint = f"did you mean {' or '.join(map(clean, near))}?" if near else "`lifebus sessions` lists them"
    raise InvalidRequest(f"there is no session `{clean(text)[:64]}`; {hint}", code="no_session")


def _ways(text: str) -> "tuple[Callable[[SessionHead], bool], ...]":
    """Return the ways in which a text may stand for a session, the surest first."""
    is_part = len(text) >= _SHORTEST_PART
    return (
        lambda head: text in {head.name, head.harness_session_id},
        lambda head: head.name is not None and head.name.rpartition("#")[0] == text,
        lambda head: is_part and (head.harness_session_id.startswith(text) or head.harness_session_id.endswith(text)),
    )


def _listed(heads: "Sequence[SessionHead]") -> str:
    """Return the newest of some sessions, with what tells them apart."""
    shown = [f"{clean(name_of(head))} ({clean(head.adapter_id)})" for head in heads[-_SHOWN:]]
    rest = len(heads) - len(shown)
    return ", ".join(shown) + (f" and {rest} older ones" if rest else "")
