"""`lifebus report`: what happened in a span of time, by harness and project."""

import time
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_adapter, parse_moment
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.terminal import put_json, put_table, say, time_text
from lifebus.cli.tools.receipt_facts import Key, folder_of
from lifebus.cli.tools.report_rules import ReportRow, Span, Sums, total_of

if TYPE_CHECKING:
    from lifebus import Bus

_WIDEST_PROJECT: Final = 12
_TITLES: Final = (
    "harness",
    "project",
    "sess",
    "turns",
    "sub",
    "waited",
    "comp",
    "fail",
    "peak",
    "last",
    "inj",
)


class ActivityReport(Struct, frozen=True, kw_only=True):
    """What `lifebus report --json` prints (docs/json/report.json).

    `missing` counts receipts that are older than what the ledger keeps, or lost: the sums are too small by them.
    """

    since_ms: int
    until_ms: int
    receipts: int
    missing: int
    rows: tuple[ReportRow, ...]
    total: ReportRow


def report(
    *,
    since: str = "24h",
    until: str | None = None,
    adapter: str | None = None,
    project: str | None = None,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Sum up what happened, by harness and project: sessions, turns, waits for people, failures, pressure, payloads.

    Columns: sessions, turns, sub-agents, time waited for people, compactions, failures, highest and last use of the
    context, payloads that were injected.

    Args:
        since: From when on; default: 24h, a day ago.
        until: Until when; default: now.
        adapter: Only this harness.
        project: Only this project, the folder's name; * stands for any letters.
        connection: Where the broker is, and the form of the answer.
    """
    begin = parse_moment(since)
    end_ms = int(parse_moment(until, flag="--until").timestamp() * 1000) if until is not None else _now_ms()
    span = Span(since_ms=int(begin.timestamp() * 1000), until_ms=end_ms)
    if span.until_ms < span.since_ms:
        raise UsageError("--until: that is before --since")
    wanted = parse_adapter(adapter) if adapter is not None else None
    found = on_bus(connection, lambda bus: summed(bus, span, wanted))
    rows = tuple(row for row in found.rows if project is None or fnmatchcase(row.project, project))
    found = ActivityReport(
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        receipts=found.receipts,
        missing=found.missing,
        rows=rows,
        total=total_of(rows),
    )
    if connection.json:
        put_json(found)
    else:
        _show(found)
    return ExitCode.OK


async def summed(bus: "Bus", span: Span, adapter: str | None = None) -> ActivityReport:
    """Return the report of a span, of one harness or of all: one pass over its receipts."""
    from datetime import UTC, datetime  # noqa: PLC0415

    from lifebus import Gap  # noqa: PLC0415

    heads = [head for head in await bus.sessions() if adapter in (None, head.adapter_id)]
    sums, missing = Sums(span), 0
    for head in heads:
        for wait in head.waiting or ():
            if wait.since_ms < span.since_ms:
                sums.note_wait((head.adapter_id, head.harness_session_id), wait.waiting_for, wait.since_ms)
    begin = datetime.fromtimestamp(span.since_ms / 1000, UTC)
    async for item in bus.receipts(since=begin, until_head=True, gaps="yield"):
        if isinstance(item, Gap):
            missing += 0 if item.until is None else item.until - item.after
        elif adapter in (None, item.adapter_id):
            sums.add(item)
    projects: dict[Key, str] = {(head.adapter_id, head.harness_session_id): folder_of(head.cwd) for head in heads}
    rows = tuple(sums.rows(projects))
    return ActivityReport(
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        receipts=sums.receipts,
        missing=missing,
        rows=rows,
        total=total_of(rows),
    )


def _show(found: ActivityReport) -> None:
    say(f"{time_text(found.since_ms)} to {time_text(found.until_ms)}", color="dim")
    if found.missing:
        say(f"{found.missing} receipts of that time are not kept any more; the sums lack them", color="yellow")
    if not found.rows:
        say("nothing happened")
        return
    rows = [_cells(row) for row in found.rows]
    if len(rows) > 1:
        rows.append(("all", "", *_cells(found.total)[2:]))
    put_table(_TITLES, rows)


def _cells(row: ReportRow) -> Sequence[str]:
    project = row.project if len(row.project) <= _WIDEST_PROJECT else row.project[: _WIDEST_PROJECT - 1] + "…"
    return (
        row.adapter_id,
        project,
        count_text(row.sessions),
        count_text(row.turns),
        count_text(row.subagents),
        span_text(row.waited_ms),
        count_text(row.compactions),
        count_text(row.failures),
        _percent(row.peak_used_pct),
        _percent(row.last_used_pct),
        count_text(row.injected - row.taken_back),
    )


def count_text(count: int) -> str:
    """Return a number in at most five characters."""
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (10_000, "k")):
        if count >= size:
            return f"{count // (1_000 if unit == 'k' else size)}{unit}"
    return str(count)


def span_text(ms: int) -> str:
    """Return a span of time in at most six characters: 48s, 3m, 2h05m, 12d."""
    seconds = ms // 1000
    if seconds < 60:  # noqa: PLR2004  a minute
        return f"{seconds}s"
    if seconds < 3_600:  # noqa: PLR2004  an hour
        return f"{seconds // 60}m"
    if seconds < 360_000:  # noqa: PLR2004  a hundred hours
        return f"{seconds // 3_600}h{seconds % 3_600 // 60:02}m"
    return f"{seconds // 86_400}d"


def _percent(value: int | None) -> str:
    return "-" if value is None else f"{value}%"


def _now_ms() -> int:
    return int(time.time() * 1000)
