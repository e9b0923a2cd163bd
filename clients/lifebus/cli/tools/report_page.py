"""The page of `lifebus report --html`: one file with plots, tables and style, and nothing from elsewhere.  Pure."""

import base64
import hashlib
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import Final

from lifebus.cli.tools.report_rules import ActivityReport, ReportRow, ReportStep
from lifebus.cli.tools.report_words import span_text
from lifebus.cli.tools.svg_plots import Axis, Series, bars, columns, legend, lines

_PERCENT: Final = 100
_STYLE: Final = """
:root{color-scheme:light dark;--back:#fff;--text:#1b1f24;--soft:#59636e;--line:#d1d9e0;
--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#b35a93;--c4:#a87b00;--c5:#3b8fc4}
@media (prefers-color-scheme:dark){:root{--back:#0d1117;--text:#e6edf3;--soft:#9da7b1;--line:#30363d;
--c0:#56b4e9;--c1:#ff9e57;--c2:#3ddbab;--c3:#e7a4cb;--c4:#e6c229;--c5:#8fd0f5}}
body{background:var(--back);color:var(--text);font:16px/1.5 system-ui,sans-serif;max-width:70rem;margin:2rem auto;
padding:0 1rem}
h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2rem 0 .3rem}p{color:var(--soft);margin:.3rem 0}
.plot{display:block;width:100%;height:auto;font:12px system-ui,sans-serif}
.plot text{fill:var(--soft)}.plot .name,.plot .end{text-anchor:end}.plot .middle{text-anchor:middle}
.grid{stroke:var(--line)}.line{fill:none!important;stroke-width:2}
.c0{fill:var(--c0);stroke:var(--c0)}.c1{fill:var(--c1);stroke:var(--c1)}.c2{fill:var(--c2);stroke:var(--c2)}
.c3{fill:var(--c3);stroke:var(--c3)}.c4{fill:var(--c4);stroke:var(--c4)}.c5{fill:var(--c5);stroke:var(--c5)}
.legend{list-style:none;display:flex;flex-wrap:wrap;gap:.2rem 1rem;padding:0;margin:1rem 0 0}
.key{width:.8rem;height:.8rem;margin-right:.4rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;margin:.5rem 0;font-size:.9rem}
caption{text-align:left;color:var(--soft)}
th,td{text-align:right;padding:.2rem .5rem;border-bottom:1px solid var(--line)}
th[scope=row],th:first-child,th.text{text-align:left}tfoot{font-weight:bold}summary{cursor:pointer;color:var(--soft)}
@media print{body{font-size:12px;max-width:none;margin:0;padding:0}section,tr{break-inside:avoid}
.wide{overflow:visible;break-inside:auto}table{font-size:9px}th,td{padding:.1rem .2rem;overflow-wrap:break-word}}
"""

_COLUMNS: Final[tuple[tuple[str, str, Callable[[int], str]], ...]] = (
    ("sessions", "Sessions", str),
    ("turns", "Turns", str),
    ("subagents", "Sub-agents", str),
    ("waited_ms", "Waited for people", span_text),
    ("idle_ms", "Waited for a prompt", span_text),
    ("compactions", "Compactions", str),
    ("failures", "Failures", str),
    ("peak_used_pct", "Highest use of a context", lambda value: f"{value}%"),
    ("last_used_pct", "Newest use", lambda value: f"{value}%"),
    ("injected", "Injected", str),
    ("taken_back", "Taken back", str),
)
_STEP_COLUMNS: Final = tuple(one for one in _COLUMNS if one[0] in ReportStep.__struct_fields__)


def page_of(report: ActivityReport) -> str:
    """Return the page of a report: plots by harness, and beneath them every number in tables."""
    allowed = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
    policy = f"default-src 'none'; style-src 'sha256-{allowed}'"
    title = f"lifebus: {_moment(report.since_ms)} to {_moment(report.until_ms)}"
    return "\n".join(
        (
            '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width">',
            f"<title>{escape(title)}</title><style>{_STYLE}</style></head><body><main>",
            f"<header><h1>What happened</h1><p>{_time(report.since_ms)} to {_time(report.until_ms)}, times in UTC.</p>",
            *_remarks(report),
            "</header>",
            *_plots(report),
            *_tables(report),
            "</main></body></html>",
        )
    )


def _remarks(report: ActivityReport) -> Iterable[str]:
    if report.missing:
        yield f"<p>{_number(report.missing)} receipts of that time are not kept any more; the sums lack them.</p>"
    if not report.rows:
        yield "<p>Nothing happened.</p>"


def _plots(report: ActivityReport) -> Iterable[str]:
    if not report.rows:
        return
    harnesses = sorted({row.adapter_id for row in report.rows})
    axis = Axis([_moment(begin) for begin in range(report.since_ms, report.until_ms + 1, report.step_ms)])
    yield legend(harnesses)
    for field, title in (("turns", "Turns"), ("compactions", "Compactions"), ("failures", "Failures")):
        series = [_series(report, name, field, sum) for name in harnesses]
        yield f"<section><h2>{title}</h2>{columns(title, series, axis)}</section>"
    title = "Highest use of a context, in percent"
    series = [_series(report, name, "peak_used_pct", max) for name in harnesses]
    yield f"<section><h2>{title}</h2>{lines(title, series, axis, _PERCENT)}</section>"
    title = "Time waited for people"
    waits = [(name, sum(row.waited_ms for row in report.rows if row.adapter_id == name)) for name in harnesses]
    shown = bars(title, [(name, waited, span_text(waited)) for name, waited in waits])
    yield f"<section><h2>{title}</h2>{shown}</section>"


def _series(report: ActivityReport, harness: str, field: str, join: Callable[[Iterable[int]], int]) -> Series:
    """Return a count of a harness step by step, over all projects."""
    found: dict[int, list[int]] = {}
    for step in report.steps:
        value = getattr(step, field)
        if step.adapter_id == harness and value is not None:
            found.setdefault((step.begins_ms - report.since_ms) // report.step_ms, []).append(value)
    return Series(harness, {number: join(values) for number, values in found.items()})


def _tables(report: ActivityReport) -> Iterable[str]:
    if not report.rows:
        return
    head = _head(("Harness", "Project"), [title for _, title, _ in _COLUMNS])
    rows = [_row((row.adapter_id, row.project), row, _COLUMNS) for row in report.rows]
    total = _row(("all", ""), report.total, _COLUMNS)
    yield '<section><h2>By harness and project</h2><div class="wide"><table id="rows"><caption>All sums</caption>'
    yield f"{head}<tbody>{''.join(rows)}</tbody><tfoot>{total}</tfoot></table></div></section>"
    head = _head(("From", "Harness", "Project"), [title for _, title, _ in _STEP_COLUMNS])
    steps = [
        _row((_moment(step.begins_ms), step.adapter_id, step.project), step, _STEP_COLUMNS) for step in report.steps
    ]
    caption = f"Steps of {span_text(report.step_ms)}; those without anything are left out"
    yield f'<details><summary>Step by step</summary><div class="wide"><table id="steps"><caption>{caption}</caption>'
    yield f"{head}<tbody>{''.join(steps)}</tbody></table></div></details>"


def _head(names: Sequence[str], titles: Sequence[str]) -> str:
    cells = [f'<th scope="col" class="text">{name}</th>' for name in names]
    cells += [f'<th scope="col">{title}</th>' for title in titles]
    return f"<thead><tr>{''.join(cells)}</tr></thead>"


def _row(
    names: Sequence[str], values: ReportRow | ReportStep, shown: Sequence[tuple[str, str, Callable[[int], str]]]
) -> str:
    cells = [f'<th scope="row">{escape(name)}</th>' for name in names]
    cells += [_cell(getattr(values, field), words) for field, _, words in shown]
    return f"<tr>{''.join(cells)}</tr>"


def _cell(value: int | None, words: Callable[[int], str]) -> str:
    return "<td>–</td>" if value is None else f"<td>{_number(value, words)}</td>"


def _number(value: int, words: Callable[[int], str] = str) -> str:
    return f'<data value="{value}">{words(value)}</data>'


def _time(at_ms: int) -> str:
    return f'<time datetime="{datetime.fromtimestamp(at_ms / 1000, UTC).isoformat()}">{_moment(at_ms)}</time>'


def _moment(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
