"""Lines of a screen as cells, and the bytes that make one screen of another.  Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from rich.cells import cell_len
from rich.color import ColorSystem
from rich.style import Style
from rich.text import Text

Cell = tuple[str, Style]
"""A letter with its marks, and how it looks; the second column of a wide letter is an empty text."""

Paint = Callable[[str, Style], str]
"""Returns a text with the codes of a style."""

BLANK: Final = (" ", Style.null())

BEGIN: Final = "\x1b[?2026h"
"""A terminal that knows it shows nothing until `END`; others pass it over."""
END: Final = "\x1b[?2026l"
_CLEAR: Final = "\x1b[0m\x1b[2J"
_ERASE: Final = "\x1b[K"


def cells_of(line: Text, width: int) -> list[Cell]:
    """Return exactly `width` cells of a line, which is cut with a sign where it is longer."""
    shown = line.copy()
    shown.truncate(width, overflow="ellipsis")
    styles = [_style(shown.style)] * len(shown.plain)
    for span in shown.spans:
        for at in range(span.start, min(span.end, len(styles))):
            styles[at] += _style(span.style)
    cells: list[Cell] = []
    for letter, style in zip(shown.plain, styles, strict=True):
        _append(cells, letter, style)
    return cells[:width] + [BLANK] * (width - len(cells))


def line_text(line: Text, width: int, paint: Paint) -> str:
    """Return a line as text with its codes, without blanks at its end."""
    cells = cells_of(line, width)
    while cells and cells[-1] == BLANK:
        cells.pop()
    return _painted(cells, paint)


def changes(old: Sequence[Sequence[Cell]] | None, new: Sequence[Sequence[Cell]], paint: Paint) -> str:
    """Return what turns the old screen into the new one, empty where they are the same; None is a screen to clear."""
    parts = [_row_change(number, None if old is None else old[number], row, paint) for number, row in enumerate(new)]
    body = "".join(parts)
    if old is None:
        body = _CLEAR + body
    return f"{BEGIN}{body}{END}" if body else ""


def painter(*, colored: bool) -> Paint:
    """Return what paints in the sixteen colours of every terminal; without colour, bold and reversed text stay so."""

    def paint(text: str, style: Style) -> str:
        return (style if colored else style.without_color).render(text, color_system=ColorSystem.STANDARD)

    return paint


def plain(text: str, _: Style) -> str:
    """Paint nothing."""
    return text


def _style(style: Style | str) -> Style:
    """Return a style; lines are made with styles, and a name is only rich's empty one."""
    return style if isinstance(style, Style) else Style.null()


def _append(cells: list[Cell], letter: str, style: Style) -> None:
    width = cell_len(letter)
    if width == 0:
        # A mark belongs to the letter before it, which may be a wide one.
        at = len(cells) - 1
        while at >= 0 and not cells[at][0]:
            at -= 1
        if at >= 0:
            cells[at] = (cells[at][0] + letter, cells[at][1])
        return
    cells.append((letter, style))
    cells.extend([("", style)] * (width - 1))


def _row_change(number: int, old: Sequence[Cell] | None, new: Sequence[Cell], paint: Paint) -> str:
    before = old if old is not None else [BLANK] * len(new)
    differing = [column for column, cell in enumerate(new) if cell != before[column]]
    if not differing:
        return ""
    # Where the second half of a wide letter differs, so does the first: halves are never written alone.
    first, last = differing[0], differing[-1] + 1
    end = len(new)
    while end > first and new[end - 1] == BLANK:
        end -= 1
    # Blanks to the end of the line are one code.
    erased = _ERASE if end < last else ""
    return f"\x1b[{number + 1};{first + 1}H{_painted(new[first : min(last, end)], paint)}{erased}"


def _painted(cells: Sequence[Cell], paint: Paint) -> str:
    parts: list[str] = []
    run, style = "", Style.null()
    for letter, own in cells:
        if own != style:
            parts.append(paint(run, style) if run else "")
            run, style = "", own
        run += letter
    parts.append(paint(run, style) if run else "")
    return "".join(parts)
