"""Text that is longer than the screen is wide or high: broken into lines, and scrolled."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from rich.cells import cell_len
from rich.style import Style
from rich.text import Text

from lifebus.top.navigation import TopChoice

_DIM: Final = Style(dim=True)
_WORD: Final = re.compile(r" *[^ ]+")


def wrapped(text: str, width: int, style: Style | None = None) -> list[Text]:
    """Return a text as lines of at most so many columns, at least one, broken between words where there are any."""
    lines, line = list[str](), ""
    for word in _WORD.findall(text):
        if cell_len(line + word) <= width:
            line += word
            continue
        if line:
            lines.append(line)
        *full, line = _pieces(word.lstrip() if lines else word, width)
        lines += full
    return [Text(one, style or Style.null()) for one in (*lines, line)]


def scrolled(lines: Sequence[Text], choice: TopChoice, room: int) -> list[Text]:
    """Return as many lines as have room, from where the user has scrolled to; the last one says how many follow.

    How far down that is (`choice.down`) is held within what there is: else as many keys up would do nothing.
    """
    seen = max(0, room - 1)
    choice.down = min(choice.down, max(0, len(lines) - seen)) if len(lines) > room else 0
    if len(lines) <= room:
        return list(lines)
    left = len(lines) - choice.down - seen
    return [*lines[choice.down :][:seen], Text(f"  {left} more below" if left else "  the end", _DIM)][:room]


def _pieces(word: str, width: int) -> Iterator[str]:
    """Break what is no words, or in a script without blanks: by columns, of which a letter may have two."""
    piece = ""
    for letter in word:
        if piece and cell_len(piece + letter) > width:
            yield piece
            piece = ""
        piece += letter
    yield piece
