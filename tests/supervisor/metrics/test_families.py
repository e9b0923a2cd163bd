"""The names of metrics: those of docs/metrics.md, of the counters of `status`, and of the dashboard."""

import json
import re
from collections.abc import Iterator
from typing import Any

from lifebus_supervisor.metrics.families import FAMILIES, Kind
from support.paths import DOCS

ROW = re.compile(r"^\| `(lifebus_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", re.MULTILINE)
DASHBOARD = DOCS / "grafana/lifebus.json"
SERIES = re.compile(r"\b(lifebus_\w+)\{([^}]*)\}")
GROUPED = re.compile(r"\bby \(([\w, ]+)\)")
OF_PROMETHEUS = {"instance", "le"}


def test_the_names_are_those_of_the_page() -> None:
    rows = ROW.findall((DOCS / "metrics.md").read_text())
    assert rows == [
        (one.name, one.kind, ", ".join(f"`{label}`" for label in one.labels) or "–", one.help) for one in FAMILIES
    ]


def test_names_are_as_prometheus_wants_them() -> None:
    names = [one.name for one in FAMILIES]
    assert len(set(names)) == len(names)
    for one in FAMILIES:
        assert re.fullmatch(r"lifebus_[a-z][a-z_]*", one.name)
        assert one.name.endswith("_total") == (one.kind is Kind.COUNTER)
        assert one.kind is not Kind.HISTOGRAM or one.name.endswith("_seconds")


def test_no_label_has_values_without_bound() -> None:
    labels = {label for one in FAMILIES for label in one.labels}
    assert labels == {"adapter", "consumer", "client", "version", "contract_version", "backend", "durability"}


def expressions(dashboard: dict[str, Any]) -> Iterator[str]:
    for panel in dashboard["panels"]:
        for target in panel.get("targets", ()):
            yield target["expr"]


def known_series() -> dict[str, set[str]]:
    """The labels of each series that a page can have."""
    found: dict[str, set[str]] = {}
    for one in FAMILIES:
        suffixes = ("_bucket", "_sum", "_count") if one.kind is Kind.HISTOGRAM else ("",)
        found.update({one.name + suffix: {*one.labels, *OF_PROMETHEUS} for suffix in suffixes})
    return found


def test_the_dashboard_asks_for_metrics_and_labels_that_there_are() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    known = known_series()
    asked = list(expressions(dashboard))
    assert asked
    for expression in asked:
        series = SERIES.findall(expression)
        assert len(series) == expression.count("lifebus_") > 0, expression
        for name, matchers in series:
            assert set(re.findall(r"(\w+)=~?", matchers)) <= known[name], expression
            for group in GROUPED.findall(expression):
                assert set(re.split(r",\s*", group)) <= known[name], expression
    for variable in dashboard["templating"]["list"]:
        for name in re.findall(r"lifebus_\w+", json.dumps(variable)):
            assert name in known


def test_no_two_panels_of_the_dashboard_lie_over_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    panels = json.loads(DASHBOARD.read_text())["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        assert at["x"] + at["w"] <= 24
        taken |= cells
