"""The text format of Prometheus, version 0.0.4.  Pure."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Final

from lifebus_broker.durations import BOUNDS_S, Durations
from lifebus_supervisor.metrics.families import MetricFamily

Samples = Mapping[tuple[str, ...], float]
"""The values of one metric by the values of its labels, in their order."""

_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def text_of(family: MetricFamily, samples: Samples) -> Iterator[str]:
    """Yield the lines of a counter or a gauge; none where there is no value."""
    if not samples:
        return
    yield from _head(family)
    for values, number in samples.items():
        yield f"{family.name}{_labels(family.labels, values)} {_number(number)}"


def text_of_durations(family: MetricFamily, durations: Durations) -> Iterator[str]:
    """Yield the lines of a histogram."""
    yield from _head(family)
    counts = list(accumulate(durations.counts))
    for bound, count in zip((*map(_number, BOUNDS_S), "+Inf"), counts, strict=True):
        yield f'{family.name}_bucket{{le="{bound}"}} {count}'
    yield f"{family.name}_sum {_number(durations.total)}"
    yield f"{family.name}_count {counts[-1]}"


def _head(family: MetricFamily) -> Iterator[str]:
    yield f"# HELP {family.name} {family.help}"
    yield f"# TYPE {family.name} {family.kind}"


def _labels(names: Sequence[str], values: Sequence[str]) -> str:
    pairs = [f'{name}="{value.translate(_ESCAPES)}"' for name, value in zip(names, values, strict=True)]
    return f"{{{','.join(pairs)}}}" if pairs else ""


def _number(number: float) -> str:
    return str(int(number)) if float(number).is_integer() else repr(number)
