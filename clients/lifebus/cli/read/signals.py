"""`lifebus app-server signals`: what app-servers say, as it comes or as far as it is kept."""

import fnmatch
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Annotated, Any, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_moment
from lifebus.cli.choices import AdapterName, Words, parse_adapters, split_values
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.read.positions import parse_start
from lifebus.cli.selection import Moment
from lifebus.cli.terminal import clean, paint, put, put_bytes, say, size_text, terminal_columns
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

    adapter: AdapterName = "codex"
    "Whose app-servers; the default is codex. The events of jobs and transcripts are those of lifebus."
    thread: str | None = None
    'Only this thread; "" stands for the whole process.'
    event: Words = ()
    "Only these events: app_server.turn.completed, turn.*, request.*"
    since: Moment = None
    "Only since a time: 10m ago, yesterday, 12:00, 2026-11-21T20:00:00Z; or `start`."
    until: Moment = None
    "Only until a time."

    def patterns(self, adapter: str) -> list[str]:
        """Return the patterns of whole names: the part that all of an app-server share may be left out."""
        short = split_values(self.event)
        return [one if adapter == ADAPTER or one.startswith((_ROOT, "*")) else _ROOT + one for one in short]

    def predicate(self, adapter: str) -> "Callable[[SignalReceived], bool]":
        """Return whether a signal is meant, by its event and the time at which an observer got it.

        Raises:
            UsageError: it is about a time, and these signals have none.
        """
        given = {"--since": None if self.since == "start" else self.since, "--until": self.until}
        bounds = {flag: _second(parse_moment(text, flag=flag)) for flag, text in given.items() if text is not None}
        if bounds and adapter == ADAPTER:
            raise UsageError(f"{next(iter(bounds))}: the events of {ADAPTER} have no time; use --from or --last")
        earliest, latest = bounds.get("--since"), bounds.get("--until")
        events = [re.compile(fnmatch.translate(one)) for one in self.patterns(adapter)]
        return lambda signal: (
            (not events or any(one.match(signal.event_type) for one in events))
            and (earliest is None or str(signal.envelope.get("receivedAt")) >= earliest)
            and (latest is None or str(signal.envelope.get("receivedAt"))[: len(latest)] <= latest)
        )


ANY_SIGNAL: Final = SignalFilter()
"""Those of every thread."""


def signals(
    *,
    which: SignalFilter = ANY_SIGNAL,
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    last: Annotated[int | None, Parameter(name=("--last", "-n"))] = None,
    follow: Annotated[bool | None, Parameter(negative="--no-follow")] = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Follow the signals of app-servers; each is shown, or an explicit gap where it is no longer kept.

    A line shows the event, the thread, the turn or the request, and the size; `--json` the whole signal.

    Args:
        which: Which signals.
        from_: Begin after this place: `start`, or with --thread a SEQUENCE or an EPOCH:SEQUENCE as `--json` prints it.
        last: Begin with this many of the newest of each thread.
        follow: Go on with what comes; `--no-follow` ends at the newest signals, and so does --until.
        connection: Where the broker is, and the form of the answer.
    """
    if sum(one is not None for one in (from_, which.since, last)) > 1:
        raise UsageError("--from, --since and --last are ways to say where to begin; give one")
    if last is not None and last < 0:
        raise UsageError("--last: a number of signals, not below 0")
    follows = which.until is None if follow is None else follow
    start = parse_start(from_) if from_ is not None else "start" if which.since is not None or not follows else None
    # Each thread counts by itself: a number alone names no place in all of them.
    if which.thread is None and start not in {None, "start"}:
        raise UsageError("--from: a place in one thread needs --thread")
    (adapter,) = parse_adapters([which.adapter], connection)
    keep, patterns = which.predicate(adapter), which.patterns(adapter)

    async def show(bus: "Bus") -> None:
        following = bus.signals(
            adapter,
            which.thread,
            since=None if last is not None else start,
            last=last,
            # One pattern is looked at before anything is decoded.
            event=patterns[0] if len(patterns) == 1 else None,
            where=keep,
            until_head=not follows,
            gaps="yield",
        )
        await _print_all(following, follow=follows, json=connection.json)

    on_bus(connection, show, lasting=follows)
    return ExitCode.OK


def _second(moment: datetime) -> str:
    """Return a moment as observers write it: in UTC and in one form, so that comparing text compares times."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S")


async def _print_all(following: "Signals[SignalReceived | Gap]", *, follow: bool, json: bool) -> None:
    from lifebus.cli.printing import print_each  # noqa: PLC0415

    show = _show_json if json else _show_columns if sys.stdout.isatty() else _show_line
    if follow and sys.stderr.isatty():
        say("waiting for what comes; Ctrl-C ends", color="dim")
    is_empty = True

    def show_one(item: "SignalReceived | Gap") -> None:
        nonlocal is_empty
        is_empty = False
        show(item)

    await print_each(following, show_one)
    if is_empty and not json:
        say("no signals", color="dim")


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
    room = max(8, terminal_columns() - sum(widths[:3]) - 3)
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
