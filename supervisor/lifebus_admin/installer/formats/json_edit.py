"""Put ours into the text of a JSON settings file, and take it out again, leaving every other byte alone.  Pure.

Taking out is the exact inverse of putting in, with no record needed.  A container that ends up empty was either made by
us, and is taken out as well, or stood there before, and is kept.  To distinguish the two, what we put into a container
that was empty before follows its bracket after blanks that our own containers never have:

    one blank      there was nothing between the brackets
    two blanks     there were white space or comments between them; they follow ours now
    three blanks   (after the outermost bracket) the file was there, but blank; what it held follows the object
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from lifebus_adapters.shared.assets import Dialect, SettingsEntry
from lifebus_admin.installer.formats.additions import Appended, nested, plain, require_fit
from lifebus_admin.installer.formats.json_scanner import Item, Node
from lifebus_admin.installer.formats.layout import (
    TextEdit,
    apply_edits,
    indentation_of,
    layout_of,
    rendered,
    rendered_member,
    starts_line,
)
from lifebus_admin.installer.formats.removals import CUT, removals
from lifebus_admin.installer.formats.settings_diff import Path

# The marks of the docstring, as the blanks behind a bracket.
_WAS_EMPTY, _WAS_BLANK_INSIDE, _FILE_WAS_BLANK = " ", "  ", "   "
_MARK: Final = re.compile(r"( {1,3})(?=[^ \t]|$)")
# Comments on the rest of a line belong to the item before them.
_SAME_LINE: Final = {
    "json": re.compile(r""),
    "jsonc": re.compile(r"(?:[ \t]*(?://[^\n\r]*|/\*(?s:.*?)\*/))*"),
    "json5": re.compile(r"(?:[ \t]*(?://[^\n\r\u2028\u2029]*|/\*(?s:.*?)\*/))*"),
}


class JsonText:
    """The text of a settings file in one of the JSON dialects, with its positions; None is a file that is missing."""

    def __init__(self, text: str | None, root: Node | None, dialect: Dialect, name: str) -> None:
        self._missing = text is None
        text = text or ""
        self._text, self._root, self._dialect, self._name = text, root, dialect, name
        self._layout = layout_of(text, root)
        self.value: Any = {} if root is None else root.value

    def without(self, cuts: Sequence[Path], puts: Sequence[tuple[Path, Any]]) -> str | None:
        """Return the text without the values at `cuts`, and with those of `puts` in place of what stands there.

        None means that the file was ours alone, and has to go.
        """
        if self._root is None:
            return None if self._missing else self._text
        edits = self._thinned(self._root, removals(cuts, puts), ours_to_drop=True)
        return self._emptied(self._root) if edits is None else apply_edits(self._text, edits)

    def _thinned(self, node: Node, tree: Mapping[str | int, Any], *, ours_to_drop: bool) -> list[TextEdit] | None:
        """Return the edits that thin a container out, or None where the container itself has to go."""
        items, edits, gone = node.items or [], list[TextEdit](), set[int]()
        for place, item in enumerate(items):
            below = tree.get(place if item.key is None else item.key)
            if below is None:
                continue
            # A tuple is a new value for what is there; anything else is a tree of cuts below it.
            if isinstance(below, tuple):
                edits.append(self._put(item, below[0]))
                continue
            inner = (
                None
                if below == CUT
                else self._thinned(item.node, below, ours_to_drop=ours_to_drop and item.key is not None)
            )
            if inner is None:
                gone.add(place)
            else:
                edits += inner
        if not gone:
            return edits
        # Lists of others are never removed, even when ours were all they held.
        if len(gone) == len(items) and ours_to_drop:
            return self._closed(node, items)
        return edits + self._slots(items, gone)

    def _put(self, item: Item, value: Any) -> TextEdit:
        own_lines = starts_line(self._text, item.start)
        indentation = indentation_of(self._text, item.start) if own_lines else None
        return TextEdit(item.node.start, item.node.end, rendered(value, self._layout, indentation))

    def _closed(self, node: Node, items: list[Item]) -> list[TextEdit] | None:
        """Return what empties a container that was there before, or None for one that we made."""
        mark = _MARK.match(self._text, node.start + 1)
        slots = self._slots(items, set(range(len(items))))
        # What would be left between the brackets.
        rest = apply_edits(self._text[: node.end - 1], slots)[node.start + 1 :]
        if mark is not None and mark[1] == _WAS_BLANK_INSIDE:
            return [TextEdit(node.start + 1, max(items[-1].node.end, items[-1].comma))]
        # Comments of somebody else are there, so the container stays.
        if rest.strip():
            return slots
        if mark is not None and mark[1] == _WAS_EMPTY:
            return [TextEdit(node.start + 1, node.end - 1)]
        return None

    def _emptied(self, root: Node) -> str | None:
        """Return what is left of the file when nothing of the outermost object is: only what stood around it."""
        mark = _MARK.match(self._text, root.start + 1)
        around = self._text[: root.start] + self._text[root.end :]
        return around if (mark is not None and mark[1] == _FILE_WAS_BLANK) or around.strip() else None

    def _slots(self, items: list[Item], gone: set[int]) -> list[TextEdit]:
        """Cut the items with their commas, and the comma before, where nothing follows it any more.

        Items at the beginning leave the blanks before them, later ones those behind them.
        """
        edits: list[TextEdit] = []
        for place in sorted(gone):
            item = items[place]
            end = max(item.node.end, item.comma)
            # Nothing is left before this item, so its comma and the blanks behind it go with it.
            if gone.issuperset(range(place)):
                end = self._blanks(end) if len(gone) < len(items) else end
                edits.append(TextEdit(item.start, end))
            else:
                edits.append(TextEdit(self._line_rest(items[place - 1].comma), end))
        # The last item that is left must not end in a comma where none stood before.
        left = [place for place in range(len(items)) if place not in gone]
        if left and left[-1] < len(items) - 1 and items[-1].comma < 0:
            comma = items[left[-1]].comma
            edits.append(TextEdit(comma - 1, comma))
        return edits

    def _blanks(self, place: int) -> int:
        while self._text[place : place + 1].isspace():
            place += 1
        return place

    def _line_rest(self, place: int) -> int:
        """Return the end of the comments that belong to what stands before them on the line."""
        found = _SAME_LINE[self._dialect].match(self._text, place)
        return place if found is None else found.end()

    def with_added(self, entries: Sequence[SettingsEntry]) -> str:
        """Return the text with the entries put in, and with the containers that they need.

        Raises:
            SettingsConflict: what stands on the way is no object, or no list, or somebody else's value.
        """
        tree = nested(entries)
        if self._root is None:
            return self._text_of_blank(tree)
        return apply_edits(self._text, self._grown(self._root, tree, ()))

    def _text_of_blank(self, tree: dict[str, Any]) -> str:
        text = rendered(plain(tree), self._layout, "")
        if self._missing:
            return text + self._layout.newline
        # The blank text follows the object, so that a removal finds it again.
        return "{" + _FILE_WAS_BLANK + text[1:] + self._text

    def _grown(self, node: Node, tree: Any, path: tuple[str, ...]) -> list[TextEdit]:
        # Checked before anything is edited: no other program's value is ever replaced.
        require_fit(node.value, tree, path, self._name)
        items = node.items or []
        if isinstance(tree, Appended):
            return self._appended(node, items, [(None, value) for value in tree.values])
        edits, missing = list[TextEdit](), list[tuple[str | None, Any]]()
        present = {item.key: item for item in items if item.key is not None}
        for key, below in tree.items():
            if key in present:
                edits += self._grown(present[key].node, below, (*path, key))
            else:
                missing.append((key, plain(below)))
        return edits + (self._appended(node, items, missing) if missing else [])

    def _appended(self, node: Node, items: list[Item], values: list[tuple[str | None, Any]]) -> list[TextEdit]:
        return self._after_last(items[-1], values) if items else self._into_empty(node, values)

    def _after_last(self, last: Item, values: list[tuple[str | None, Any]]) -> list[TextEdit]:
        indentation = indentation_of(self._text, last.start) if starts_line(self._text, last.start) else None
        begin = max(last.node.end, last.comma)
        place = self._line_rest(begin)
        # Behind a line comment only a new line is safe.
        if "//" in self._text[begin:place] and indentation is None:
            indentation = indentation_of(self._text, last.start) + self._layout.unit
        gap = self._layout.comma[1:] if indentation is None else self._layout.newline + indentation
        text = gap + self._joined(values, gap, indentation)
        # A trailing comma was the file's style, and stays its style.
        if last.comma >= 0:
            return [TextEdit(place, place, text + ",")]
        # The comma follows the value, our text follows the comments on that line.
        return [TextEdit(last.node.end, last.node.end, ","), TextEdit(place, place, text)]

    def _into_empty(self, node: Node, values: list[tuple[str | None, Any]]) -> list[TextEdit]:
        inside = self._text[node.start + 1 : node.end - 1]
        # Says how the container was, so that a removal restores it to the byte.
        mark = _WAS_BLANK_INSIDE if inside else _WAS_EMPTY
        if self._layout.one_line:
            text = mark + self._joined(values, self._layout.comma[1:], None)
        else:
            outer = indentation_of(self._text, node.start)
            indentation = outer + self._layout.unit
            gap = self._layout.newline + indentation
            text = mark + gap + self._joined(values, gap, indentation)
            text += "" if inside else self._layout.newline + outer
        return [TextEdit(node.start + 1, node.start + 1, text)]

    def _joined(self, values: list[tuple[str | None, Any]], gap: str, indentation: str | None) -> str:
        texts = [
            rendered(value, self._layout, indentation)
            if key is None
            else rendered_member(key, value, self._layout, indentation)
            for key, value in values
        ]
        return f",{gap}".join(texts)
