"""The dashboard, loaded by Grafana's own library for Python: nothing of it is unknown to Grafana."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models import prometheus, stat, timeseries
from grafana_foundation_sdk.models.dashboard import Dashboard, Panel

from support.paths import DOCS

TEXT = (DOCS / "grafana/lifebus.json").read_text()
OPTIONS = {"stat": stat.Options, "timeseries": timeseries.Options}


@pytest.fixture(scope="module", autouse=True)
def _panels_are_known() -> None:
    register_default_plugins()


def lost(written: Any, read: Any, at: str) -> Iterator[str]:
    """What stands in the file and not in what Grafana's library made of it."""
    if isinstance(written, dict) and isinstance(read, dict):
        for name, value in written.items():
            yield from lost(value, read[name], f"{at}.{name}") if name in read else (f"{at}.{name}",)
    elif isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        for number, (one, other) in enumerate(zip(written, read, strict=True)):
            yield from lost(one, other, f"{at}[{number}]")
    elif written != read:
        yield at


def again(document: dict[str, Any]) -> Any:
    return json.loads(JSONEncoder().encode(Dashboard.from_json(document)))


def test_grafana_knows_every_field_of_the_dashboard() -> None:
    document = json.loads(TEXT)
    assert list(lost(document, again(document), "")) == []


def test_a_field_that_grafana_does_not_know_is_found() -> None:
    document = json.loads(TEXT)
    document["panels"][1]["options"]["colour"] = "red"
    document["panels"][1]["targets"][0]["expression"] = "up"
    assert set(lost(document, again(document), "")) == {".panels[1].options.colour", ".panels[1].targets[0].expression"}


def test_panels_and_queries_are_of_the_kinds_that_grafana_has() -> None:
    panels = [panel for panel in Dashboard.from_json(json.loads(TEXT)).panels or () if isinstance(panel, Panel)]
    assert {panel.type_val for panel in panels} == OPTIONS.keys()
    for panel in panels:
        assert isinstance(panel.options, OPTIONS[panel.type_val]), panel.title
        assert panel.targets, panel.title
        assert all(isinstance(target, prometheus.Dataquery) for target in panel.targets), panel.title


def test_every_graph_has_a_legend_that_is_shown() -> None:
    """Grafana's types ask for it; a panel without it is left to the defaults of whatever version loads it."""
    panels = [panel for panel in json.loads(TEXT)["panels"] if panel["type"] == "timeseries"]
    assert panels
    for panel in panels:
        assert panel["options"]["legend"].keys() == {"showLegend", "displayMode", "placement", "calcs"}, panel["title"]
        assert panel["options"]["legend"]["showLegend"] is True
