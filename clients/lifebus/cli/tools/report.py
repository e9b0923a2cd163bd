"""`lifebus report`: what happened in a span of time, by harness and project."""

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Final

from cyclopts import Parameter

from lifebus.cli.arguments import DEFAULT_CONNECTION, ConnectionOptions, parse_moment
from lifebus.cli.choices import OneAdapter, parse_adapters
from lifebus.cli.connection import on_bus
from lifebus.cli.exit_codes import ExitCode, UsageError
from lifebus.cli.selection import Moment
from lifebus.cli.terminal import put, put_json, put_table, say, time_text
from lifebus.cli.tools.receipt_facts import Key, folder_of
from lifebus.cli.tools.report_rules import ActivityReport, ReportRow, Span, Sums, total_of
from lifebus.cli.tools.report_words import count_text, span_text

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


def report(
    *,
    since: Annotated[str, Parameter(metavar="TIME")] = "24h",
    until: Moment = None,
    adapter: OneAdapter = None,
    project: str | None = None,
    html: Annotated[bool, Parameter(negative="")] = False,
    connection: ConnectionOptions = DEFAULT_CONNECTION,
) -> ExitCode:
    """Sum up what happened, by harness and project: sessions, turns, waits for people, failures, pressure, payloads.

    Columns: sessions, turns, sub-agents, time waited for people, compactions, failures, highest and last use of the
    context, payloads that were injected.

    Args:
        since: The beginning; default: 24h, a day ago.
        until: The end; default: now.
        adapter: Only this harness.
        project: Only this project, the folder's name; * stands for any letters.
        html: Write it to stdout as a page with plots, for a browser; the page needs nothing else.
        connection: Where the broker is, and the form of the answer.
    """
    begin = parse_moment(since)
    end_ms = int(parse_moment(until, flag="--until").timestamp() * 1000) if until is not None else _now_ms()
    span = Span(since_ms=int(begin.timestamp() * 1000), until_ms=end_ms)
    if html and connection.json:
        raise UsageError("--html and --json are two forms of one answer; give one of them")
    if span.until_ms < span.since_ms:
        raise UsageError("--until: that is before --since")
    wanted = None if adapter is None else next(iter(parse_adapters([adapter], connection)))
    found = on_bus(connection, lambda bus: summed(bus, span, wanted))
    if project is not None:
        found = found.of_project(project)
    if connection.json:
        put_json(found)
    elif html:
        from lifebus.cli.tools.report_page import page_of  # noqa: PLC0415  rare

        put(page_of(found))
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
        step_ms=span.step_ms,
        steps=tuple(sums.steps(projects)),
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


def _percent(value: int | None) -> str:
    return "-" if value is None else f"{value}%"


def _now_ms() -> int:
    return int(time.time() * 1000)
