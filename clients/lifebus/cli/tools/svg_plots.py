"""Plots as inline SVG: stacked columns over time, lines over time, and bars.  Pure; nothing but text comes of them.

Every plot has a title and a description for screen readers, and what it shows stands in a table beside it.  Colours are
classes (`c0`, `c1`, …) that the page's own style sets for light and dark.
"""

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Final

from msgspec import Struct

MAX_COLORS: Final = 6
"""How many colours there are; further series begin again with the first one."""

_WIDTH: Final = 720
_HEIGHT: Final = 200
_LEFT: Final = 44
_RIGHT: Final = 8
_TOP: Final = 10
_BOTTOM: Final = 26
_BAR: Final = 22
_NAMES: Final = 110
_VALUES: Final = 70
_ROUND: Final = (1, 2, 5)


class Series(Struct, frozen=True):
    """Values of one name; `points` maps the number of a step, from 0, to its value."""

    name: str
    points: Mapping[int, int]


class Axis(Struct, frozen=True):
    """The steps of a time axis: what each is called, in order."""

    labels: Sequence[str]


def columns(title: str, series: Sequence[Series], axis: Axis) -> str:
    """Return columns over time, one for each step, with the series of a step upon each other."""
    most = max((sum(one.points.get(step, 0) for one in series) for step in range(len(axis.labels))), default=0)
    scale = _Scale(most, len(axis.labels))
    parts = scale.grid(axis)
    for step, label in enumerate(axis.labels):
        below = 0
        for number, one in enumerate(series):
            value = one.points.get(step, 0)
            if value:
                words = f"{label}, {one.name}: {value}"
                parts.append(scale.column(step, below, value, f"c{number % MAX_COLORS}", words))
                below += value
    return _svg(title, f"Columns over time: {_names(series)}.", _HEIGHT, parts)


def lines(title: str, series: Sequence[Series], axis: Axis, most: int) -> str:
    """Return lines over time, with a dot for each value; `most` is the highest value that there can be."""
    scale = _Scale(most, len(axis.labels))
    parts = scale.grid(axis)
    for number, one in enumerate(series):
        kind = f"c{number % MAX_COLORS}"
        spots = [(scale.middle(step), scale.height(value)) for step, value in sorted(one.points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in spots)
        parts.append(f'<polyline class="line {kind}" points="{path}"/>')
        for (x, y), (step, value) in zip(spots, sorted(one.points.items()), strict=True):
            words = escape(f"{axis.labels[step]}, {one.name}: {value}")
            parts.append(f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.5"><title>{words}</title></circle>')
    return _svg(title, f"Lines over time: {_names(series)}.", _HEIGHT, parts)


def bars(title: str, values: Sequence[tuple[str, int, str]]) -> str:
    """Return a bar for each name, value and text of the value."""
    most = max((value for _, value, _ in values), default=0) or 1
    room = _WIDTH - _NAMES - _VALUES
    parts: list[str] = []
    for number, (name, value, words) in enumerate(values):
        top = number * _BAR + 4
        long = room * value / most
        parts += [
            f'<text class="name" x="{_NAMES - 8}" y="{top + 13}">{escape(name)}</text>',
            f'<rect class="c{number % MAX_COLORS}" x="{_NAMES}" y="{top}" width="{long:.1f}" height="{_BAR - 6}"/>',
            f'<text x="{_NAMES + long + 6:.1f}" y="{top + 13}">{escape(words)}</text>',
        ]
    said = ", ".join(f"{name}: {words}" for name, _, words in values)
    return _svg(title, f"Bars: {said}.", len(values) * _BAR + 8, parts)


def legend(names: Iterable[str]) -> str:
    """Return which colour is whose, as the plots of these series have it."""
    items = (
        f'<li><svg class="key" viewBox="0 0 12 12" aria-hidden="true"><rect class="c{number % MAX_COLORS}"'
        f' width="12" height="12"/></svg>{escape(name)}</li>'
        for number, name in enumerate(names)
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def ceiling(value: int) -> int:
    """Return the end of an axis on which a value has room: 1, 2 or 5, or ten, hundred … times that."""
    unit = 1
    while True:
        for step in _ROUND:
            if value <= step * unit:
                return step * unit
        unit *= 10


class _Scale:
    """Where values and steps lie in a plot over time."""

    def __init__(self, most: int, steps: int) -> None:
        self._most = ceiling(most)
        self._wide = (_WIDTH - _LEFT - _RIGHT) / max(1, steps)

    def middle(self, step: int) -> float:
        return _LEFT + (step + 0.5) * self._wide

    def height(self, value: int) -> float:
        return _TOP + (_HEIGHT - _TOP - _BOTTOM) * (1 - value / self._most)

    def column(self, step: int, below: int, value: int, kind: str, words: str) -> str:
        top, bottom = self.height(below + value), self.height(below)
        wide = self._wide * 0.8
        place = f'x="{self.middle(step) - wide / 2:.1f}" y="{top:.1f}" width="{wide:.1f}" height="{bottom - top:.1f}"'
        return f'<rect class="{kind}" {place}><title>{escape(words)}</title></rect>'

    def grid(self, axis: Axis) -> list[str]:
        marks = sorted({0, self._most // 2, self._most} if self._most > 1 else {0, 1})
        parts = [
            f'<line class="grid" x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{self.height(mark):.1f}"'
            f' y2="{self.height(mark):.1f}"/><text class="name" x="{_LEFT - 6}" y="{self.height(mark) + 4:.1f}">'
            f"{mark}</text>"
            for mark in marks
        ]
        last = len(axis.labels) - 1
        for step, anchor in {0: "start", last // 2: "middle", last: "end"}.items() if last >= 0 else ():
            label = escape(axis.labels[step])
            place = f'x="{self.middle(step):.1f}" y="{_HEIGHT - 8}"'
            parts.append(f'<text class="{anchor}" {place}>{label}</text>')
        return parts


def _svg(title: str, description: str, height: int, parts: Iterable[str]) -> str:
    label = f"<title>{escape(title)}</title><desc>{escape(description)}</desc>"
    return f'<svg class="plot" role="img" viewBox="0 0 {_WIDTH} {height}">{label}{"".join(parts)}</svg>'


def _names(series: Sequence[Series]) -> str:
    return ", ".join(one.name for one in series)
