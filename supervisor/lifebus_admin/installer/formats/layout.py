"""How a JSON file is laid out, and text of ours that looks the same.  Pure."""

import json
import re
from typing import Any, Final

from msgspec import Struct

from lifebus_admin.installer.formats.json_scanner import Node

_INDENTATION: Final = re.compile(r"[ \t]*")
_DEFAULT_UNIT: Final = "  "


class TextEdit(Struct, frozen=True):
    """Replace what stands between `start` and `end` by `text`."""

    start: int
    end: int
    text: str = ""


class Layout(Struct, frozen=True):
    """A file's ways: its line ends, what it indents by, and whether it is written in one line, and how tightly."""

    newline: str
    unit: str
    one_line: bool
    comma: str
    colon: str


def apply_edits(text: str, edits: list[TextEdit]) -> str:
    """Return the text with the edits made, which must not overlap; those of one place come in the given order."""
    parts: list[str] = []
    place = 0
    # The sort is stable, so edits of one place keep their order.
    for edit in sorted(edits, key=_start):
        parts += (text[place : edit.start], edit.text)
        place = edit.end
    return "".join((*parts, text[place:]))


def _start(edit: TextEdit) -> int:
    return edit.start


def newline_of(text: str) -> str:
    """Return the text's first line end, a line feed where it has none."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def indentation_of(text: str, place: int) -> str:
    """Return the white space that the line of the place begins with."""
    found = _INDENTATION.match(text, text.rfind("\n", 0, place) + 1, max(place, 0))
    return "" if found is None else found.group()


def starts_line(text: str, place: int) -> bool:
    """Whether only white space stands before the place on its line, and there is a line before it."""
    begin = text.rfind("\n", 0, place) + 1
    return begin > 0 and not text[begin:place].strip(" \t")


def layout_of(text: str, root: Node | None) -> Layout:
    """Return the layout of a file; a blank one and an empty object get the usual one."""
    newline = newline_of(text)
    items = root.items if root is not None else None
    if root is None or not items:
        return Layout(newline, _DEFAULT_UNIT, one_line=False, comma=", ", colon=": ")
    first, outer = items[0], indentation_of(text, root.start)
    unit = _DEFAULT_UNIT
    if starts_line(text, first.start):
        unit = indentation_of(text, first.start).removeprefix(outer) or _DEFAULT_UNIT
    # `"a":1` without a blank is taken as the style of the whole file.
    tight = text[first.start : first.node.start].endswith(":")
    one_line = "\n" not in text[root.start : root.end]
    return Layout(newline, unit, one_line, "," if tight else ", ", ":" if tight else ": ")


def rendered(value: Any, layout: Layout, indentation: str | None) -> str:
    """Return a value as text: on lines of its own below `indentation`, or in one line where that is None."""
    if indentation is None:
        return json.dumps(value, ensure_ascii=False, separators=(layout.comma, layout.colon))
    text = json.dumps(value, ensure_ascii=False, indent=layout.unit)
    return text.replace("\n", f"{layout.newline}{indentation}")


def rendered_member(key: str, value: Any, layout: Layout, indentation: str | None) -> str:
    """Return a member as text, as `rendered` does for a value."""
    colon = layout.colon if indentation is None else ": "
    return f"{json.dumps(key, ensure_ascii=False)}{colon}{rendered(value, layout, indentation)}"
