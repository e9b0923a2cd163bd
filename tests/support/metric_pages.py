"""Pages of metrics, read as Prometheus reads them."""

from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families


def families_of(text: str) -> dict[str, Metric]:
    """The metrics of a page by the names that stand on it."""
    found = {
        f"{family.name}_total" if family.type == "counter" else family.name: family
        for family in text_string_to_metric_families(text)
    }
    assert len(found) == text.count("# TYPE "), "a metric stands there twice"
    return found


def samples_of(text: str) -> dict[str, dict[tuple[str, ...], float]]:
    """The values of each sample name, by the values of their labels."""
    found: dict[str, dict[tuple[str, ...], float]] = {}
    for family in families_of(text).values():
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sample.labels.values())] = sample.value
    return found
