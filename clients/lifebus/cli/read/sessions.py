"""`lifebus sessions`: which sessions there are, which project they are in, and what happened in them."""

import sys
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_moment
from lifebus.cli.choices import Adapters, OneSession, SessionName, Words, parse_adapters, split_values
from lifebus.cli.confirm import Yes, confirm
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, NotThere
from lifebus.cli.selection import Moment
from lifebus.cli.session_names import choose_session, resolve_session
from lifebus.cli.terminal import clean, paint, put_fact, put_json, put_table, say, terminal_columns, time_text
from lifebus.cli.wording.receipt_line import name_of
from lifebus.cli.wording.waiting import since_text, waiting_text

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract import Receipt
    from lifebus_contract.views import SessionHead

_NARROW: Final = 100
"""Columns of a terminal from which on a table has room for whole ids."""

_LISTED: Final = "`lifebus sessions` lists the sessions"

_COLORS: Final = {"ended": "dim", "forgotten": "dim"}


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SessionFilter:
    """Which sessions."""

    adapter: Adapters = ()
    "Only those of these adapters, e.g. claude."
    project: Words = ()
    "Only those in these folders, e.g. api; * stands for any letters."
    open_only: bool = False
    "Only those that have not ended."
    waiting: Annotated[bool, Parameter(negative="")] = False
    "Only those that wait for a person."
    failed: Annotated[bool, Parameter(negative="")] = False
    "Only those in which something failed: a turn, a sub-agent, the session itself, or a receipt."
    forgotten: Annotated[bool, Parameter(negative="")] = False
    "Also those that were forgotten."
    since: Moment = None
    "Only those with a receipt since a time: 10m ago, yesterday, 12:00, 2026-11-21T20:00:00Z."
    until: Moment = None
    "Only those that began before a time."

    def predicate(self, connection: ConnectionOptions) -> "Callable[[SessionHead], bool]":
        """Return whether a session is asked for."""
        from lifebus.cli.tools.session_choice import SessionChoice  # noqa: PLC0415  with what it needs of the library

        adapters = tuple(parse_adapters(self.adapter, connection))
        wanted = SessionChoice(adapters=adapters, projects=tuple(split_values(self.project)))
        earliest = int(parse_moment(self.since).timestamp()) if self.since is not None else None
        latest = int(parse_moment(self.until, flag="--until").timestamp()) if self.until is not None else None
        return lambda head: (
            wanted.matches(head.adapter_id, head.harness_session_id, head.cwd, head.name)
            and not (self.open_only and head.ended)
            and (not self.waiting or bool(head.waiting))
            and (not self.failed or bool(head.failures))
            and (earliest is None or head.last_at_epoch_s >= earliest)
            and (latest is None or head.started_at_epoch_s <= latest)
        )


_ANY_SESSION: Final = SessionFilter()

app = App(name="sessions")


@app.default
@app.command(name="list")
def sessions(
    session: OneSession = None,
    /,
    *,
    filters: SessionFilter = _ANY_SESSION,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """List the sessions in the ledger, the newest last; show one of them.

    Args:
        session: Only this one: its short name, e.g. api#3, or ADAPTER/SESSION; exit code 1 when there is none.
        filters: Which sessions.
        connection: Where the broker is, and the form of the answer.
    """
    pair = resolve_session(session, connection) if session is not None and "/" in session else None
    is_wanted = filters.predicate(connection)
    heads = on_bus(connection, lambda bus: bus.sessions(pair, forgotten=filters.forgotten))
    if session is not None and pair is None:
        pair = choose_session(session, heads)
    found = [
        one for one in heads if (pair is None or (one.adapter_id, one.harness_session_id) == pair) and is_wanted(one)
    ]
    if connection.json:
        put_json([_document(one) for one in found])
    elif pair is not None and found:
        _put_session(found[0])
    elif found:
        _show_table(found)
    elif pair is not None:
        raise NotThere(_why_none(pair, is_known=bool(heads)), _LISTED)
    else:
        say("no sessions")
    return ExitCode.OK if found or pair is None else ExitCode.NEGATIVE


def _why_none(pair: tuple[str, str], *, is_known: bool) -> str:
    whole = clean("/".join(pair))
    return f"the flags leave out the session `{whole}`" if is_known else f"there is no session `{whole}`"


@app.command
def show(session: SessionName, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """Show one session: where it works, how it stands, and what happened in it.

    Args:
        session: Its short name, e.g. api#3, or ADAPTER/SESSION; exit code 1 when there is none.
        connection: Where the broker is, and the form of the answer.
    """
    pair = resolve_session(session, connection)
    found = on_bus(connection, lambda bus: bus.sessions(pair, forgotten=True))
    if not found:
        raise NotThere(f"there is no session `{clean('/'.join(pair))}`", _LISTED)
    if connection.json:
        put_json(_document(found[0]))
        return ExitCode.OK
    _put_session(found[0])
    return ExitCode.OK


@app.command
def close(session: SessionName, /, *, connection: ConnectionOptions = DEFAULT_CONNECTION) -> ExitCode:
    """End a session that is open: a receipt says that an operator closed it; its open frames end before it.

    If somebody still works in it, the next hook opens it again.

    Args:
        session: Its short name, e.g. api#3, or ADAPTER/SESSION.
        connection: Where the broker is, and the form of the answer.
    """
    pair = resolve_session(session, connection)
    return _act(connection, lambda bus: bus.close_session(pair))


@app.command
def forget(
    session: SessionName,
    /,
    *,
    yes: Yes = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Drop what was said in an ended session and its signals, for good, and leave it out of lists.

    Its receipts stay in the ledger until retention drops them; they contain nothing of what was said.

    Args:
        session: Its short name, e.g. api#3, or ADAPTER/SESSION.
        yes: Do not ask.
        connection: Where the broker is, and the form of the answer.
    """
    pair = resolve_session(session, connection)
    whole = "/".join(pair)
    if not yes and not confirm(f"Drop transcript and signals of {whole} for good?", json=connection.json):
        say("nothing was done")
        return ExitCode.NEGATIVE
    return _act(connection, lambda bus: bus.forget_session(pair))


def _act(connection: ConnectionOptions, work: "Callable[[Bus], Awaitable[Sequence[Receipt]]]") -> ExitCode:
    """Do something with a session and show the receipts that say so."""
    from lifebus.cli.printing import ReceiptPrinter  # noqa: PLC0415

    receipts = on_bus(connection, work)
    printer = ReceiptPrinter(json=connection.json)
    for one in receipts:
        printer.show(one)
    if not receipts:
        say("it was forgotten before")
    return ExitCode.OK


def pressure_text(head: "SessionHead") -> str:
    """Return how full the context was when it was measured last; empty where nobody measured it."""
    share = f"{head.used_pct} %" if head.used_pct is not None else ""
    if not share and head.used_tokens is not None:
        share = f"{head.used_tokens} tokens"
    return " ".join(part for part in (share, head.pressure.value if head.pressure else "") if part)


def state_text(head: "SessionHead") -> str:
    """Return whether a session is over, what is open in it, and for what it waits."""
    if head.ended:
        return "forgotten" if head.forgotten else "ended"
    count = len(head.open_frames)
    frames = f"open, {count} frame{'s' if count > 1 else ''}" if count else "open"
    return f"{frames}, waits for {waiting_text(_plain_waits(head))}" if head.waiting else frames


def _plain_waits(head: "SessionHead") -> list[dict[str, Any]]:
    """Return for what a session waits as plain values."""
    import msgspec  # noqa: PLC0415

    waits: list[dict[str, Any]] = msgspec.to_builtins(head.waiting or ())
    return waits


def _document(head: "SessionHead") -> dict[str, Any]:
    """Return a head as `--json` shows it: as it is, with its times in milliseconds as well."""
    import msgspec  # noqa: PLC0415

    times = {"started_at_ms": head.started_at_epoch_s * 1_000, "last_at_ms": head.last_at_epoch_s * 1_000}
    return {**msgspec.to_builtins(head), **times}


def _show_table(heads: "Sequence[SessionHead]") -> None:
    titles = ["session", "harness", "turns", "agents", "compacted", "failed", "pressure", "last at", "state"]
    rows = [_row(one) for one in heads]
    folders = [_folder(one) for one in heads]
    # The name says the folder; only where a session works somewhere else now, that stands beside it.
    if any(folders):
        titles.insert(1, "now in")
        rows = [(row[0], folder, *row[1:]) for row, folder in zip(rows, folders, strict=True)]
    # A terminal that is not wide has the names, which all commands take; a program gets the whole ids.
    if not sys.stdout.isatty() or terminal_columns() >= _NARROW:
        titles.append("id")
        rows = [(*row, f"{one.adapter_id}/{one.harness_session_id}") for row, one in zip(rows, heads, strict=True)]
    put_table(titles, rows, color_of=_COLORS)


def _row(head: "SessionHead") -> tuple[str, ...]:
    counts = (head.turns, head.subagents, head.compactions, head.failures)
    return (
        name_of(head),
        head.adapter_id,
        *("-" if count is None else str(count) for count in counts),
        pressure_text(head) or "-",
        time_text(head.last_at_epoch_s * 1_000),
        state_text(head),
    )


def _folder(head: "SessionHead") -> str:
    """Return the folder in which a session works now, where its name does not say so."""
    folder = (head.cwd or "").rstrip("/").rpartition("/")[2]
    return "" if head.name is not None and head.name.rpartition("#")[0] == folder else folder


def _put_session(head: "SessionHead") -> None:
    """Write what is known of one session, a fact a line."""
    facts = {
        "session": name_of(head),
        "id": f"{head.adapter_id}/{head.harness_session_id}",
        "directory": head.cwd,
        "branch": head.git_branch,
        "title": head.title,
        "state": state_text(head),
        "waiting": f"since {since_text(_plain_waits(head)[0])}" if head.waiting else None,
        "began": time_text(head.started_at_epoch_s * 1_000),
        "last": f"{time_text(head.last_at_epoch_s * 1_000)}, {head.last_event.value}, {head.last_status.value}",
        "turns": head.turns,
        "agents": head.subagents,
        "compacted": head.compactions,
        "failed": head.failures,
        "pressure": pressure_text(head) or None,
        "receipts": head.receipts,
    }
    for name, fact in facts.items():
        if fact is not None:
            put_fact(paint(name.ljust(9), "dim"), clean(fact), 9)
