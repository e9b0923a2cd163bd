"""`lifebus app-server signals`: what app-servers say, as it comes or as far as it is kept."""

import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_adapter, parse_moment
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.receipts import parse_start
from lifebus.cli.terminal import clean, paint, put, put_bytes, say, size_text
from lifebus.signals import SignalReceived
from lifebus_contract.jobs import ADAPTER

if TYPE_CHECKING:
    from lifebus._internal.view import Gap
    from lifebus.client import Bus
    from lifebus.signals import SignalReceived, Signals

_ROOT: Final = "app_server."
_NO_TIME: Final = "-"
"""Stands for the time of an event of the broker's own, of jobs and transcripts: those have none."""


@Parameter(name="*")
@dataclass(frozen=True, kw_only=True)
class SignalFilter:
    """Which signals."""

    adapter: str = "codex"
    "Whose app-servers; the default is codex. The events of jobs and transcripts are those of lifebus."
    thread: str | None = None
    'Only this thread; "" is what concerns the whole process.'
    event: str | None = None
    "Only these events: app_server.turn.completed, turn.*, request.*"


ANY_SIGNAL: Final = SignalFilter()
"""Those of every thread."""


def signals(
    *,
    which: SignalFilter = ANY_SIGNAL,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    since: str | None = None,
    last: Annotated[int | None, Parameter(name=("--last", "-n"))] = None,
    follow: Annotated[bool, Parameter(negative="--no-follow")] = True,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Follow the signals of app-servers; each is shown, or an explicit gap where it is no longer kept.

    A line shows the event, the thread, the turn or the request, and the size; `--json` the whole signal.

    Args:
        which: Which signals.
        from_: Begin after this place: `start`, or with --thread a SEQUENCE or an EPOCH:SEQUENCE as `--json` prints it.
        since: Begin at a time: 10m ago, or 2026-11-21T20:00:00Z; or `start`.
        last: Begin with the last so many of each thread.
        follow: Go on with what comes; `--no-follow` ends at the newest signals.
        connection: Where the broker is, and the form of the answer.
    """
    if sum(one is not None for one in (from_, since, last)) > 1:
        raise UsageError("--from, --since and --last are ways to say where to begin; give one")
    if last is not None and last < 0:
        raise UsageError("--last: a number of signals, not below 0")
    start = parse_start(from_) if from_ is not None else "start" if since is not None or not follow else None
    # Each thread counts by itself: a number alone names no place in all of them.
    if which.thread is None and start not in {None, "start"}:
        raise UsageError("--from: a place in one thread needs --thread")
    adapter = parse_adapter(which.adapter)
    keep = None if since is None or since == "start" else _later_than(parse_moment(since))
    if keep is not None and adapter == ADAPTER:
        raise UsageError(f"--since: the events of {ADAPTER} have no time; use --from or --last")

    async def show(bus: "Bus") -> None:
        following = bus.signals(
            adapter,
            which.thread,
            since=None if last is not None else start,
            last=last,
            event=_pattern(adapter, which.event),
            where=keep,
            until_head=not follow,
            gaps="yield",
        )
        await _print_all(following, follow=follow, json=connection.json)

    on_bus(connection, show, lasting=follow)
    return ExitCode.OK


def _pattern(adapter: str, event: str | None) -> str | None:
    """Return the pattern of whole names: the part that all of an app-server share may be left out."""
    return event if event is None or adapter == ADAPTER or event.startswith((_ROOT, "*")) else _ROOT + event


def _later_than(moment: datetime) -> "Callable[[SignalReceived], bool]":
    """Return what keeps the signals that an observer got at a moment or later; times of one form order as text."""
    # Observers write UTC in one form, so comparing text compares times, without parsing each.
    earliest = moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return lambda signal: str(signal.envelope.get("receivedAt")) >= earliest


async def _print_all(following: "Signals[SignalReceived | Gap]", *, follow: bool, json: bool) -> None:
    from lifebus.cli.printing import print_each  # noqa: PLC0415

    show = _show_json if json else _show_columns if sys.stdout.isatty() else _show_line
    if follow and show is _show_columns:
        say("following; Ctrl-C ends", color="dim")
    await print_each(following, show)


def _show_json(item: "SignalReceived | Gap") -> None:
    """Print the place and the envelope as it was sent, on one line: what breaks a line there is blank space."""
    import msgspec  # noqa: PLC0415

    from lifebus._internal.view import Gap  # noqa: PLC0415

    if isinstance(item, Gap):
        put_bytes(b'{"gap":%s}' % msgspec.json.encode(item))
    else:
        place = {"adapter": item.adapter_id, "thread": item.thread, "cursor": str(item.cursor)}
        # Line breaks in JSON are blank space only: the document stays the same.
        raw = item.raw.replace(b"\n", b" ").replace(b"\r", b" ")
        put_bytes(msgspec.json.encode(place)[:-1] + b',"signal":%s}' % raw)
    sys.stdout.flush()


def _show_line(item: "SignalReceived | Gap") -> None:
    from lifebus._internal.view import Gap  # noqa: PLC0415
    from lifebus.cli.printing import gap_text  # noqa: PLC0415

    put(clean(gap_text(item) if isinstance(item, Gap) else whole_line(item)))


def _show_columns(item: "SignalReceived | Gap") -> None:
    from lifebus._internal.view import Gap  # noqa: PLC0415
    from lifebus.cli.printing import gap_text  # noqa: PLC0415

    if isinstance(item, Gap):
        put(paint(clean(gap_text(item)), "yellow"))
        return
    thread, sequence, event, note = (clean(cell) for cell in short_line(item))
    widths = [width for _, width in COLUMNS]
    # Asked each time: a terminal may be resized while signals come.
    room = max(8, shutil.get_terminal_size().columns - sum(widths[:3]) - 3)
    color = "cyan" if item.event_type.startswith(f"{_ROOT}request.") else ""
    cells = [
        thread.ljust(widths[0]),
        sequence.rjust(widths[1]),
        paint(event.ljust(widths[2]), color),
        paint(note[:room], "dim"),
    ]
    put(" ".join(cells).rstrip())


COLUMNS: Final = (("thread", 13), ("seq", 5), ("event", 42), ("note", 17))
"""The columns of a short line with their widths: 80 with one space between."""

_PREFIX: Final = "app_server."
_TAIL: Final = 6


def thread_label(signal: SignalReceived) -> str:
    """Return adapter and the end of the thread's id, which differs where their beginnings do not."""
    tail = signal.thread if len(signal.thread) <= _TAIL else "…" + signal.thread[-_TAIL:]
    return f"{signal.adapter_id[: 12 - len(tail)]} {tail}".rstrip()


def short_line(signal: SignalReceived) -> tuple[str, ...]:
    """Return the cells of `COLUMNS`; of an event that is too long, the end is kept, which says more."""
    event, width = signal.event_type.removeprefix(_PREFIX), COLUMNS[2][1]
    if len(event) > width:
        event = "…" + event[1 - width :]
    envelope = signal.envelope
    turn, asked = _turn_of(envelope), envelope.get("requestId")
    about = f"request {asked}" if asked is not None else f"turn …{turn[-_TAIL:]}" if turn else ""
    return thread_label(signal), str(signal.sequence), event, f"{about} {_size_of(signal, envelope)}".strip()


def whole_line(signal: SignalReceived) -> str:
    """Return a line that a pipe can cut: time, thread, sequence, event, then named extras."""
    envelope = signal.envelope
    extras = {"turn": _turn_of(envelope), "request": envelope.get("requestId"), "bytes": len(signal.raw)}
    if "paramsBytes" in envelope:
        extras["params_left_out"] = envelope["paramsBytes"]
    head = (
        str(envelope.get("receivedAt", _NO_TIME)),
        f"{signal.adapter_id}/{signal.thread or '-'}",
        str(signal.sequence),
        signal.event_type,
    )
    return " ".join([*head, *(f"{name}={value}" for name, value in extras.items() if value is not None)])


def _turn_of(envelope: dict[str, Any]) -> str | None:
    turn = envelope.get("context", {}).get("turnId")
    return turn if isinstance(turn, str) else None


def _size_of(signal: SignalReceived, envelope: dict[str, Any]) -> str:
    left_out = envelope.get("paramsBytes")
    return size_text(len(signal.raw)) if left_out is None else f"({size_text(left_out)})"
