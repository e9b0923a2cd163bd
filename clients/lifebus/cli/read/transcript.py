"""`lifebus transcript`: what was said in sessions."""

import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Final, Literal

from cyclopts import App, Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions
from lifebus.cli.choices import SessionName, known_adapters
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.session_names import choose_session
from lifebus.cli.terminal import clean, paint, put, put_json, put_table, say, size_text, time_text

if TYPE_CHECKING:
    from lifebus.client import Bus
    from lifebus_contract.transcripts import TranscriptEntry, TranscriptInfo
    from lifebus_contract.views import SessionHead

app = App(name="transcript")

Format = Literal["text", "json", "markdown"]

_COLORS: Final = {"user": "cyan", "assistant": "green", "system": "yellow"}


@app.command(name="list")
def list_transcripts(
    *,
    all: bool = False,  # noqa: A002  the flag's name
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """List the transcripts that are kept.

    Args:
        all: List deleted sessions and those of the broker's own workers as well.
        connection: Where the broker is, and the form of the answer.
    """
    found = on_bus(connection, lambda bus: bus.transcripts.list(deleted=all, system_owned=all))
    if connection.json:
        put_json(found)
    elif found:
        put_table(("session", "entries", "size", "dropped", "changed", ""), [_row(info) for info in found])
    else:
        say("no transcript is kept")
    return ExitCode.OK


@app.command
def show(
    session_id: SessionName,
    /,
    *,
    last: Annotated[int | None, Parameter(name=("--last", "-n"))] = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Show the transcript of a session.

    Args:
        session_id: The session: its short name, e.g. api#3, its id or ADAPTER/SESSION.
        last: Show this many entries only, the newest ones.
        connection: Where the broker is, and the form of the answer.
    """
    session_id = _resolved(session_id, connection)
    entries = on_bus(connection, lambda bus: bus.transcripts.entries(session_id))
    shown = entries if last is None else entries[max(0, len(entries) - last) :]
    if connection.json:
        put_json(shown)
        return ExitCode.OK
    if not shown:
        say("nothing is kept of what was said in it")
    for entry in shown:
        put(paint(_head(entry), _COLORS[entry.role.value]))
        for line in entry.content.splitlines():
            put("  " + clean(line))
        if entry.content_bytes is not None:
            put(f"  … {size_text(entry.content_bytes)} in all")
    return ExitCode.OK


@app.command
def export(
    session_id: SessionName,
    /,
    *,
    format: Format = "markdown",  # noqa: A002  the flag's name
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Write the whole transcript of a session to stdout, unchanged: nothing is shortened or escaped.

    Args:
        session_id: The session: its short name, e.g. api#3, its id or ADAPTER/SESSION.
        format: `markdown`, `text`, or `json` (its state and its entries, as one document).
        connection: Where the broker is; `--json` is the same as `--format json`.
    """
    session_id = _resolved(session_id, connection)

    async def read(bus: "Bus") -> "tuple[TranscriptInfo, list[TranscriptEntry]]":
        # The entries last: what they are at the end is what is written.
        info = await bus.transcripts.info(session_id)
        return info, await bus.transcripts.entries(session_id)

    info, entries = on_bus(connection, read)
    if connection.json or format == "json":
        put_json({"transcript": info, "entries": entries})
        return ExitCode.OK
    lines = _markdown(info, entries) if format == "markdown" else _text(entries)
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return ExitCode.OK


def _resolved(text: str, connection: ConnectionOptions) -> str:
    """Return the id of a session: of one whose transcript is kept the id itself, else whose session is called so.

    Raises:
        UsageError: none is called so, or several are.
        LifebusError: no broker answers.
    """

    async def both(bus: "Bus") -> "tuple[list[TranscriptInfo], list[SessionHead]]":
        return await bus.transcripts.list(deleted=True, system_owned=True), await bus.sessions()

    kept, heads = on_bus(connection, both)
    if any(one.session_id == text for one in kept):
        return text
    return next(
        (one.harness_session_id for one in heads if text == f"{one.adapter_id}/{one.harness_session_id}"), None
    ) or _called(text, heads)


def _called(text: str, heads: "Sequence[SessionHead]") -> str:
    # A transcript may be of a session that no event tells of: then the id alone is known.
    adapter, _, session = text.partition("/")
    if session and adapter in known_adapters():
        return session
    return choose_session(text, heads)[1]


def _row(info: "TranscriptInfo") -> tuple[str, ...]:
    changed = "" if info.updated_at is None else time_text(info.updated_at)
    marks = ("deleted " + time_text(info.deleted_at) if info.deleted_at else "", "system" if info.system_owned else "")
    return (
        clean(info.session_id),
        str(info.entries),
        size_text(info.size),
        str(info.dropped),
        changed,
        " ".join(mark for mark in marks if mark),
    )


def _head(entry: "TranscriptEntry") -> str:
    state = "" if entry.status.value == "complete" else f" ({entry.status.value})"
    at = "" if entry.started_at is None else f"  {time_text(entry.started_at)}"
    return clean(f"{entry.role.value} [{entry.type}]{state}{at}")


def _text(entries: "Sequence[TranscriptEntry]") -> "Iterator[str]":
    for entry in entries:
        yield f"{entry.role.value.upper()} [{entry.type}]: {entry.content}"


def _markdown(info: "TranscriptInfo", entries: "Sequence[TranscriptEntry]") -> "Iterator[str]":
    yield f"# Session {info.session_id}"
    if info.dropped:
        yield ""
        yield f"{info.dropped} older entries are not kept any more."
    for entry in entries:
        yield ""
        yield f"## {_head(entry)}"
        yield ""
        if entry.role.value != "system" and entry.type in ("userMessage", "agentMessage", "plan", "reasoning"):
            yield entry.content
            continue
        # What is no prose stands in a fence that its own text cannot end.
        fence = _fence(entry.content)
        yield from (fence, entry.content.removesuffix("\n"), fence)


def _fence(content: str) -> str:
    """Return a fence of more backticks than any run of them in a text."""
    longest = run = 0
    for character in content:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    return "`" * max(3, longest + 1)
