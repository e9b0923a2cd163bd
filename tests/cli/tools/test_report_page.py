"""The page of `lifebus report --html`: every number of the JSON, nothing from elsewhere, and no fault in a browser."""

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from lifebus.cli.tools.report_page import page_of
from lifebus.cli.tools.report_rules import ActivityReport, ReportRow, ReportStep, Span, Sums, total_of
from lifebus.cli.tools.svg_plots import ceiling
from support.command_line import Shell, broker_up
from support.histories import history
from support.running import short_directory
from support.transports.browser import BROWSER, open_page

AT_MS = 1_790_000_000_000
VOID = {"meta"}
REFERENCES = {"src", "href", "action", "srcset", "data", "poster", "xlink:href", "background", "cite", "formaction"}
HARMFUL = '<script>alert("&")</script>'


class ReadPage(HTMLParser):
    """What a page has: rows of numbers by table, titles of plots and of what is in them, and what is not closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[int | None]]] = {}
        self.names: dict[str, list[list[str]]] = {}
        self.plots = 0
        self.titles: list[str] = []
        self.references: list[str] = []
        self.tags: set[str] = set()
        self._open: list[str] = []
        self._table = ""
        self.feed(page)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.add(tag)
        self.references += [name for name in found if name in REFERENCES or name.startswith("on")]
        if tag not in VOID:
            self._open.append(tag)
        if tag == "table":
            self._table = str(found["id"])
            self.tables[self._table], self.names[self._table] = [], []
        elif tag == "tr":
            self.tables[self._table].append([])
            self.names[self._table].append([])
        elif tag == "td":
            self.tables[self._table][-1].append(None)
        elif tag == "data" and "td" in self._open:
            self.tables[self._table][-1][-1] = int(str(found["value"]))
        elif tag == "svg" and "role" in found:
            self.plots += 1

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] == "title":
            self.titles.append(data)
        elif self._open and self._open[-1] == "th":
            self.names[self._table][-1].append(data)


def numbers(report: dict[str, Any]) -> dict[str, list[list[int | None]]]:
    """Return the numbers of the tables, read from the JSON of the report."""
    fields = [name for name in ReportRow.__struct_fields__ if name not in {"adapter_id", "project"}]
    steps = ("turns", "compactions", "failures", "peak_used_pct")
    return {
        "rows": [[], *([row[name] for name in fields] for row in [*report["rows"], report["total"]])],
        "steps": [[], *([step[name] for name in steps] for step in report["steps"])],
    }


def plotted(titles: list[str]) -> int:
    """Return the sum of what the titles in the plots say, `when, who: value`."""
    return sum(int(title.rpartition(": ")[2]) for title in titles if ": " in title and not title.startswith("lifebus"))


def of_history(seed: int) -> ActivityReport:
    """Return the report of made-up receipts of all harnesses."""
    receipts = [entry.receipt for entry in history(seed, 400)]
    times = [one.at_epoch_s for one in receipts]
    span = Span(since_ms=min(times) * 1000, until_ms=max(times) * 1000)
    sums = Sums(span)
    for one in receipts:
        sums.add(one)
    rows = tuple(sums.rows({}))
    return ActivityReport(
        since_ms=span.since_ms,
        until_ms=span.until_ms,
        receipts=sums.receipts,
        missing=0,
        rows=rows,
        total=total_of(rows),
        step_ms=span.step_ms,
        steps=tuple(sums.steps({})),
    )


@pytest.mark.parametrize("seed", range(4))
def test_the_page_has_the_numbers_of_the_json_and_nothing_from_elsewhere(seed: int) -> None:
    report = of_history(seed)
    told = msgspec.json.decode(msgspec.json.encode(report))
    page = page_of(report)
    found = ReadPage(page)
    assert found.tables == numbers(told)
    assert found.plots == 5
    assert found.references == []
    assert "script" not in found.tags
    assert "url(" not in page
    assert "@import" not in page
    assert "http://" not in page
    assert "https://" not in page
    total = report.total
    peaks = [step.peak_used_pct for step in report.steps if step.peak_used_pct is not None]
    by_harness: dict[tuple[str, int], int] = {}
    for step in report.steps:
        if step.peak_used_pct is not None:
            key = (step.adapter_id, step.begins_ms)
            by_harness[key] = max(step.peak_used_pct, by_harness.get(key, 0))
    counted = total.turns + total.compactions + total.failures
    assert plotted(found.titles) == counted + sum(by_harness.values())
    assert max(peaks, default=None) == total.peak_used_pct


def test_what_others_wrote_stays_text() -> None:
    row = ReportRow(adapter_id="claude", project=HARMFUL, sessions=1, turns=2)
    step = ReportStep(adapter_id=HARMFUL, project=HARMFUL, begins_ms=AT_MS, turns=2)
    report = ActivityReport(
        since_ms=AT_MS,
        until_ms=AT_MS + 3_600_000,
        receipts=1,
        missing=7,
        rows=(row, msgspec.structs.replace(row, adapter_id=HARMFUL)),
        total=row,
        step_ms=150_001,
        steps=(step,),
    )
    found = ReadPage(page_of(report))
    assert "script" not in found.tags
    assert found.names["rows"][1] == ["claude", HARMFUL]
    assert found.names["rows"][2] == [HARMFUL, HARMFUL]


def test_an_axis_ends_at_a_round_number_on_which_the_value_has_room() -> None:
    assert [ceiling(value) for value in (0, 1, 2, 3, 6, 11, 20, 21, 501)] == [1, 1, 2, 5, 10, 20, 20, 50, 1000]


@pytest.fixture(scope="module")
def busy() -> Iterator[Shell]:
    """A shell beside a broker with a session in which a turn failed."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            of_frame = ("--adapter", "codex", "--session", "a", "--frame", "f1")
            assert shell.call("emit", "session.started", "--adapter", "codex", "--session", "a").code == 0
            assert shell.call("emit", "frame.opened", *of_frame).code == 0
            yield shell


def test_the_command_writes_the_page_of_its_json(busy: Shell) -> None:
    until = ("--until", "2040-01-01")
    told = busy.call("report", "--since", "1h", *until, "--json").json
    ran = busy.call("report", "--since", "1h", *until, "--html")
    assert ran.code == 0
    assert ReadPage(ran.out).tables == numbers(told)
    assert told["total"]["turns"] == sum(step["turns"] for step in told["steps"]) == 1
    both = busy.call("report", "--html", "--json")
    assert (both.code, "--html and --json" in both.err) == (2, True)
    nothing = busy.call("report", "--html", "--since", "2001-01-01", "--until", "2001-01-02")
    assert "Nothing happened." in nothing.out


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
async def test_a_browser_shows_it_in_light_and_dark_without_a_fault(tmp_path: Path) -> None:
    file = tmp_path / "report.html"
    file.write_text(page_of(of_history(1)))
    async with open_page(tmp_path / "browser") as page:
        backs = []
        for colors in ("light", "dark"):
            await page.size(380, 700, colors=colors)
            await page.open(file.as_uri())
            await page.shows("What happened")
            backs.append(await page.run("getComputedStyle(document.body).backgroundColor"))
            assert await page.run("document.documentElement.scrollWidth <= innerWidth")
            fills = (
                "new Set([...document.querySelectorAll('.plot rect')].map((one) => getComputedStyle(one).fill)).size"
            )
            assert await page.run(fills) > 1
        assert backs == ["rgb(255, 255, 255)", "rgb(13, 17, 23)"]
        assert page.faults == []


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize(("width", "media"), [(1200, ""), (698, "print")], ids=["a window", "A4"])
async def test_no_column_of_the_sums_is_out_of_sight(tmp_path: Path, width: int, media: str) -> None:
    row = ReportRow(adapter_id="opencode", project="a-project-with-a-long-name", sessions=1_000, turns=20_000)
    row = msgspec.structs.replace(row, waited_ms=90_000_000, idle_ms=900_000_000, peak_used_pct=100, last_used_pct=100)
    report = ActivityReport(
        since_ms=AT_MS,
        until_ms=AT_MS + 3_600_000,
        receipts=1,
        missing=0,
        rows=(row,),
        total=row,
        step_ms=150_001,
        steps=(),
    )
    file = tmp_path / "report.html"
    file.write_text(page_of(report))
    async with open_page(tmp_path / "browser") as page:
        await page.size(width, 900, media=media)
        await page.open(file.as_uri())
        await page.shows("What happened")
        right = "Math.max(...[...document.querySelectorAll('th')].map((one) => one.getBoundingClientRect().right))"
        seen = "document.querySelector('.wide').getBoundingClientRect().right"
        assert await page.run(right) <= await page.run(seen) + 1
