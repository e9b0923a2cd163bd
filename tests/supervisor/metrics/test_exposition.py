"""The text format: whatever the values are, Prometheus' own parser reads them back."""

from hypothesis import given
from hypothesis import strategies as st

from lifebus_broker.durations import BOUNDS_S, Durations
from lifebus_supervisor.metrics.exposition import text_of, text_of_durations
from lifebus_supervisor.metrics.families import CONSUMERS, DURATIONS
from support.metric_pages import samples_of

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=20)
(LAG, *_) = CONSUMERS


@given(st.dictionaries(st.tuples(NAMES), st.integers(0, 2**53) | st.floats(0, 1e12), min_size=1, max_size=5))
def test_values_and_labels_come_back_as_they_were(samples: dict[tuple[str, ...], float]) -> None:
    text = "".join(f"{line}\n" for line in text_of(LAG, samples))
    assert samples_of(text) == {LAG.name: samples}


def test_a_metric_without_a_value_is_not_there() -> None:
    assert list(text_of(LAG, {})) == []


@given(st.lists(st.floats(0, 20), max_size=30))
def test_a_histogram_counts_each_duration_once_and_below_every_bound_that_it_keeps(seconds: list[float]) -> None:
    durations = Durations(iter(seconds).__next__)
    for _ in seconds:
        durations.add_since(0.0)
    (family, *_) = DURATIONS
    found = samples_of("".join(f"{line}\n" for line in text_of_durations(family, durations)))
    buckets = found[f"{family.name}_bucket"]
    for bound in BOUNDS_S:
        (count,) = [count for (label,), count in buckets.items() if label != "+Inf" and float(label) == bound]
        assert count == sum(one <= bound for one in seconds)
    assert buckets["+Inf",] == found[f"{family.name}_count"][()] == len(seconds)
    assert found[f"{family.name}_sum"][()] == durations.total
