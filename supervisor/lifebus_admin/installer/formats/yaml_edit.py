"""Put ours into the text of a YAML settings file, and take it out again, leaving every other byte alone.  Pure.

Block style is edited by whole lines, flow style between its brackets.  A key that had nothing after its colon, and a
file that was empty, get a comment with ours, so that taking ours out brings them back; brackets that were empty get a
blank, as in JSON.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import yaml

from lifebus_adapters.shared.assets import SettingsEntry
from lifebus_admin.installer.formats.additions import Appended, nested, plain, require_fit
from lifebus_admin.installer.formats.layout import TextEdit, apply_edits, newline_of
from lifebus_admin.installer.formats.removals import CUT, removals
from lifebus_admin.installer.formats.settings_diff import Path, lookup
from lifebus_admin.installer.formats.yaml_nodes import (
    YamlEntry,
    children,
    compose,
    content_end,
    is_nothing,
    kind_of,
    load,
    require_plain,
)
from lifebus_admin.installer.refusals import SettingsConflict

# Left in the file on purpose: without it a removal could not tell an empty file from one that we made.
_MARK: Final = "# lifebus: nothing stood here before"
_GAP: Final = re.compile(r"\s*,\s*")
_UNIT: Final = 2


class YamlText:
    """The text of a YAML settings file, with its positions; None is a file that is missing."""

    def __init__(self, text: str | None, touched: Sequence[tuple[str, ...]], name: str) -> None:
        self._missing, self._text, self._name = text is None, text or "", name
        self._newline = newline_of(self._text)
        root, shared = compose(self._text, name)
        # A document that says null is as good as empty.
        self._root: Any = None if root is None or is_nothing(root) else root
        self.value: Any = {} if self._root is None else load(self._text, name)
        if self._root is not None:
            # Anchors and aliases: to change one place would change others.
            require_plain(self._root, touched, shared, name)

    def without(self, cuts: Sequence[Path], puts: Sequence[tuple[Path, Any]]) -> str | None:
        """Return the text without the values at `cuts`, and with those of `puts` in place of what stands there.

        None means that the file was ours alone, and has to go.

        Raises:
            SettingsConflict: it is written in a way from which nothing can be cut with certainty.
        """
        if self._root is None:
            return None if self._missing else self._text
        edits = self._thinned(self._root, removals(cuts, puts), ours_to_drop=True, start=0)
        if edits is None:
            start = self._line_start(children(self._root)[0].start)
            edits = [TextEdit(start, self._line_after(self._root))]
        left = apply_edits(self._text, self._united(edits))
        # The file was there before us, and was empty.
        if left.strip() == _MARK:
            return ""
        return left or None

    def _thinned(
        self, node: Any, tree: Mapping[str | int, Any], *, ours_to_drop: bool, start: int
    ) -> list[TextEdit] | None:
        """Return the edits that thin a container out, or None where the container itself has to go."""
        inside, edits, gone = children(node), list[TextEdit](), set[int]()
        for place, child in enumerate(inside):
            below = tree.get(place if child.key is None else child.key)
            if below is None:
                continue
            # A tuple is a new value for what is there; anything else is a tree of cuts below it.
            if isinstance(below, tuple):
                edits.append(self._put(node, child, below[0]))
                continue
            inner = None
            if below != CUT:
                drop = ours_to_drop and child.key is not None
                inner = self._thinned(child.node, below, ours_to_drop=drop, start=child.start)
            if inner is None:
                gone.add(place)
            else:
                edits += inner
        if not gone:
            return edits
        if kind_of(node) == "flow":
            cut = self._flow_cuts(node, inside, gone, ours_to_drop=ours_to_drop)
        else:
            cut = self._block_cuts(node, inside, gone, start if ours_to_drop else None)
        return None if cut is None else edits + cut

    def _block_cuts(
        self, node: Any, inside: list[YamlEntry], gone: set[int], start: int | None
    ) -> list[TextEdit] | None:
        cuts = [
            TextEdit(self._first_line(inside[place]), self._line_after(inside[place].node)) for place in sorted(gone)
        ]
        if len(gone) < len(inside):
            return cuts
        if start is None:
            # A block list without elements is no list any more, but null.
            raise SettingsConflict(self._name, "ours stand in a list of others, and nothing else does")
        begin, end = self._next_line(start), self._line_after(node)
        if node is self._root:
            return None
        rest = apply_edits(self._text[:end], cuts)[begin:]
        # The key had nothing after its colon before us.
        if rest.strip() == _MARK:
            return [TextEdit(begin, end)]
        return cuts if rest.strip() else None

    def _flow_cuts(
        self, node: Any, inside: list[YamlEntry], gone: set[int], *, ours_to_drop: bool
    ) -> list[TextEdit] | None:
        begin = node.start_mark.index + 1
        if len(gone) == len(inside):
            # Brackets without the blank behind them were made by us.
            if ours_to_drop and not self._text[begin:].startswith(" "):
                return None
            return [TextEdit(begin, content_end(inside[-1].node))]
        cuts: list[TextEdit] = []
        for place in sorted(gone):
            if gone.issuperset(range(place)):
                cut = (inside[place].start, inside[place + 1].start)
                between = self._text[content_end(inside[place].node) : cut[1]]
            else:
                before = content_end(inside[place - 1].node)
                cut = (before, content_end(inside[place].node))
                between = self._text[before : inside[place].start]
            # Only a plain comma is certain to belong to the element that goes.
            if not _GAP.fullmatch(between):
                raise SettingsConflict(self._name, "ours stand between brackets with comments or anchors around")
            cuts.append(TextEdit(*cut))
        return cuts

    def _put(self, node: Any, child: YamlEntry, value: Any) -> TextEdit:
        end = content_end(child.node)
        if kind_of(node) == "flow":
            return TextEdit(child.node.start_mark.index, end, json.dumps(value, ensure_ascii=False))
        if child.key is None:
            dash = self._dash(child)
            return TextEdit(dash, end, self._block([value], self._column(dash)).lstrip(" "))
        return TextEdit(child.start, end, self._block({child.key: value}, self._column(child.start)).lstrip(" "))

    def _united(self, edits: list[TextEdit]) -> list[TextEdit]:
        """Join cuts that touch; one that reaches the end of a text without a last line end takes the one before."""
        united: list[TextEdit] = []
        for edit in sorted(edits, key=lambda edit: edit.start):
            if united and not edit.text and not united[-1].text and edit.start <= united[-1].end:
                united[-1] = TextEdit(united[-1].start, max(edit.end, united[-1].end))
            else:
                united.append(edit)
        last = united[-1] if united else None
        if last is not None and not last.text and last.end == len(self._text) and not self._text.endswith("\n"):
            united[-1] = TextEdit(len(self._text[: last.start].removesuffix("\n").removesuffix("\r")), last.end)
        return united

    def with_added(self, entries: Sequence[SettingsEntry]) -> str:
        """Return the text with the entries put in, and with the containers that they need.

        Raises:
            SettingsConflict: what stands on the way is no mapping, or no list, or somebody else's value.
        """
        tree = nested(entries)
        if self._root is not None:
            return apply_edits(self._text, self._grown(self._root, tree, ()))
        block = self._block(plain(tree), 0)
        if self._text:
            return apply_edits(self._text, [self._inserted(len(self._text), block)])
        return block + self._newline if self._missing else _MARK + self._newline + block + self._newline

    def _grown(self, node: Any, tree: Any, path: tuple[str, ...]) -> list[TextEdit]:
        require_fit(lookup(self.value, path), tree, path, self._name)
        if isinstance(tree, Appended):
            return self._appended(node, [(None, value) for value in tree.values])
        edits, missing = list[TextEdit](), list[tuple[str | None, Any]]()
        present = {child.key: child for child in children(node)}
        for key, below in tree.items():
            child = present.get(key)
            if child is None:
                missing.append((key, plain(below)))
            # `key:` alone means null, which our mapping or list may take the place of.
            elif is_nothing(child.node) and isinstance(below, Appended | dict) and kind_of(node) == "block":
                edits.append(self._filled(child, plain(below)))
            else:
                edits += self._grown(child.node, below, (*path, key))
        return edits + (self._appended(node, missing) if missing else [])

    def _appended(self, node: Any, values: list[tuple[str | None, Any]]) -> list[TextEdit]:
        inside = children(node)
        if kind_of(node) == "block":
            first = inside[0].start if inside[0].key is not None else self._dash(inside[0])
            column, place = self._column(first), self._line_after(node)
            blocks = [self._block([value] if key is None else {key: value}, column) for key, value in values]
            return [self._inserted(place, self._newline.join(blocks))]
        texts = [
            ("" if key is None else f"{json.dumps(key, ensure_ascii=False)}: ") + json.dumps(value, ensure_ascii=False)
            for key, value in values
        ]
        if inside:
            place = content_end(inside[-1].node)
            return [TextEdit(place, place, "".join(f", {text}" for text in texts))]
        place = node.start_mark.index + 1
        return [TextEdit(place, place, " " + ", ".join(texts))]

    def _filled(self, child: YamlEntry, value: Any) -> TextEdit:
        """Put a value below a key that has nothing after its colon."""
        column = self._column(child.start) + _UNIT
        text = " " * column + _MARK + self._newline + self._block(value, column)
        return self._inserted(self._line_after(child.node), text)

    def _inserted(self, place: int, block: str) -> TextEdit:
        """Insert whole lines; at the end of a text without a last line end, they have none either."""
        if place == len(self._text) and not self._text.endswith("\n"):
            return TextEdit(place, place, self._newline + block)
        return TextEdit(place, place, block + self._newline)

    def _block(self, value: Any, column: int) -> str:
        # So wide that it never breaks a line: a broken one could not be taken out whole.
        made: str = yaml.safe_dump(  # pyright: ignore[reportUnknownMemberType]  a type of its stubs is not to be found
            value, sort_keys=False, allow_unicode=True, width=1 << 30
        )
        text = made.rstrip("\n")
        return self._newline.join(" " * column + line for line in text.split("\n"))

    def _dash(self, child: YamlEntry) -> int:
        before = self._text[: child.start].rstrip(" \t\r\n")
        if not before.endswith("-"):
            raise SettingsConflict(self._name, "a comment or a tag stands between a dash and its element")
        return len(before) - 1

    def _first_line(self, child: YamlEntry) -> int:
        first = child.start if child.key is not None else self._dash(child)
        start = self._line_start(first)
        # To remove the line would remove somebody else's text.
        if self._text[start:first].strip(" "):
            raise SettingsConflict(self._name, "ours share a line with what is not ours")
        return start

    def _line_start(self, place: int) -> int:
        return self._text.rfind("\n", 0, place) + 1

    def _next_line(self, place: int) -> int:
        end = self._text.find("\n", place)
        return len(self._text) if end < 0 else end + 1

    def _line_after(self, node: Any) -> int:
        """Return the beginning of the line after a node's; a block scalar ends there itself."""
        end = content_end(node)
        return end if end > 0 and self._text[end - 1] == "\n" else self._next_line(end)

    def _column(self, place: int) -> int:
        return place - self._line_start(place)
