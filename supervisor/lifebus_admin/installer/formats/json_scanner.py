"""JSON, JSONC and JSON5 with positions: where each value begins and ends, so that text can be spliced, not rewritten.

One scanner reads the three dialects.  It returns values, and for the places that we may touch (a `Track`) also where
their items, keys and commas stand.  What it cannot read with certainty it refuses, naming line and column; it never
repairs.  Strict JSON takes no comment, no trailing comma and no key twice; JSONC takes the first two; JSON5 all of its
own.  A key twice is refused in every dialect where it stands on a path that we touch.
"""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

from msgspec import Struct

from lifebus_adapters.shared.assets import Dialect
from lifebus_admin.installer.formats.json5_text import JSON5_KEY, JSON5_NUMBER, JSON5_STRING, json5_number, json5_string
from lifebus_admin.installer.refusals import SettingsUnreadable

MAX_DEPTH: Final = 200
"""Containers within containers that are read; no settings file needs as many."""

Track = Mapping[str, "Track"]
"""Which places to keep positions of: keys below keys; below an empty map nothing, below `ALL` everything."""


class _Everything(dict[str, Any]):
    def get(self, key: str, default: Any = None) -> Any:
        del key, default
        return self


ALL: Final[Track] = _Everything()
"""Keep the positions of everything below."""

# No two ways lead through the same text, so that hostile input cannot make a match exponential; possessive and atomic
# groups, which would do as well, match wrongly before Python 3.11.5.
_BLANK: Final = {
    "json": re.compile(r"[ \t\n\r]*"),
    "jsonc": re.compile(r"[ \t\n\r]*(?:(?://[^\n\r]*|/\*(?s:.*?)\*/)[ \t\n\r]*)*"),
    "json5": re.compile(r"[\s\ufeff]*(?:(?://[^\n\r\u2028\u2029]*|/\*(?s:.*?)\*/)[\s\ufeff]*)*"),
}
_STRING: Final = re.compile(r'"[^"\\\x00-\x1f]*(?:\\.[^"\\\x00-\x1f]*)*"')
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?P<fraction>\.[0-9]+)?(?P<power>[eE][+-]?[0-9]+)?")
_WORD: Final = re.compile(r"true|false|null")
_WORDS: Final = {"true": True, "false": False, "null": None}
# What follows a scalar directly makes it another word: `truex`, `1.2.3`.
_AFTER_SCALAR: Final = re.compile(r"[\w.+$-]")


class Node(Struct):
    """A value between `start` and `end`; `items` are kept where the place is tracked and it is a container."""

    start: int
    end: int
    value: Any
    items: "list[Item] | None" = None


class Item(Struct):
    """A member or an element: it begins at `start` (the key's, if any); `comma` is the place after its comma, or -1."""

    key: str | None
    start: int
    node: Node
    comma: int = -1


def track_of(paths: Iterable[tuple[str, ...]]) -> Track:
    """Return the track that follows each path and keeps everything below its end."""
    tree: dict[str, Any] = {}
    for path in paths:
        below = tree
        for key in path[:-1]:
            following = below.setdefault(key, {})
            if following is ALL:
                break
            below = following
        else:
            if not path:
                return ALL
            below[path[-1]] = ALL
    return tree


def skip_blank(text: str, at: int, dialect: Dialect) -> int:
    """Return the first place at or after `at` that is no white space and, where the dialect has them, no comment."""
    found = _BLANK[dialect].match(text, at)
    return at if found is None else found.end()


def scan(text: str, dialect: Dialect, track: Track, name: str) -> Node | None:
    """Return the root value, or None where the text is blank; `name` is the file's, for the message.

    Raises:
        SettingsUnreadable: the text breaks the dialect's rules.
    """
    scanner = _Scanner(text, dialect, name)
    start = scanner.blank(0)
    if start == len(text):
        return None
    root = scanner.value(start, track, 0)
    end = scanner.blank(root.end)
    if end < len(text):
        raise scanner.fault(end, "there is more text after the value")
    return root


class _Scanner:
    def __init__(self, text: str, dialect: Dialect, name: str) -> None:
        self._text, self._name = text, name
        self._dialect: Dialect = dialect
        self._strict, self._json5 = dialect == "json", dialect == "json5"
        self._quick: json.JSONDecoder | None = _quick_decoder() if self._strict else None

    def fault(self, at: int, why: str) -> SettingsUnreadable:
        # Columns are counted as editors do, whatever the line ends are.
        before = self._text[:at].replace("\r\n", "\n").replace("\r", "\n")
        line, column = before.count("\n") + 1, len(before) - before.rfind("\n")
        return SettingsUnreadable(self._name, why, line=line, column=column)

    def blank(self, at: int) -> int:
        return skip_blank(self._text, at, self._dialect)

    def value(self, at: int, track: Track | None, depth: int) -> Node:
        first = self._text[at : at + 1]
        # A part that is not tracked needs no positions.
        if first == "{" or first == "[":  # noqa: PLR1714  (this is the hot path)
            if track is None and self._quick is not None:
                # The standard library reads it much faster.
                known = self._skip(at)
                if known is not None:
                    return known
            if depth >= MAX_DEPTH:
                raise self.fault(at, f"it is nested deeper than {MAX_DEPTH} levels")
            return self._container(at, track, depth)
        if first == '"' or (first == "'" and self._json5):
            text, end = self._string(at)
            return Node(at, end, text)
        return self._scalar(at)

    def _skip(self, at: int) -> Node | None:
        """Read a value whose inside is of no interest by the standard library; on any fault go the slow way, once."""
        decoder = cast("json.JSONDecoder", self._quick)
        try:
            value, end = decoder.raw_decode(self._text, at)
        # Its messages have no position in this file; the slow way finds the fault and names it.
        except (ValueError, RecursionError):
            self._quick = None
            return None
        return Node(at, end, value)

    def _container(self, at: int, track: Track | None, depth: int) -> Node:
        keyed = self._text[at] == "{"
        closing = "}" if keyed else "]"
        items: list[Item] = []
        place = self.blank(at + 1)
        while self._text[place : place + 1] != closing:
            item = self._item(place, track, depth, keyed=keyed)
            items.append(item)
            place = self._after(item, closing)
        if not keyed:
            values: Any = [item.node.value for item in items]
        else:
            values = self._object(items, track)
        return Node(at, place + 1, values, items if track is not None else None)

    def _item(self, at: int, track: Track | None, depth: int, *, keyed: bool) -> Item:
        if not keyed:
            return Item(None, at, self.value(at, ALL if track is ALL else None, depth + 1))
        key, place = self._key(at)
        place = self.blank(place)
        if self._text[place : place + 1] != ":":
            raise self.fault(place, "a colon is missing after the key")
        below = None if track is None else track.get(key)
        return Item(key, at, self.value(self.blank(place + 1), below, depth + 1))

    def _after(self, item: Item, closing: str) -> int:
        """Return where the next item or the closing bracket begins."""
        place = self.blank(item.node.end)
        following = self._text[place : place + 1]
        if following == ",":
            item.comma = place + 1
            place = self.blank(item.comma)
            # JSONC and JSON5 allow it.
            if self._strict and self._text[place : place + 1] == closing:
                raise self.fault(item.comma - 1, "strict JSON takes no comma after the last item")
        elif following != closing:
            missing = f"a comma or {closing} is missing" if following else f"{closing} is missing"
            raise self.fault(place, missing + self._comment_hint(place))
        return place

    def _object(self, items: list[Item], track: Track | None) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for item in items:
            key = cast("str", item.key)
            # Parsers differ in which of two equal keys counts, so ours must not be among them.
            touched = track is not None and track.get(key) is not None
            if key in values and (self._strict or touched):
                raise self.fault(item.start, f"the key {json.dumps(key)} stands there twice")
            values[key] = item.node.value
        return values

    def _key(self, at: int) -> tuple[str, int]:
        first = self._text[at : at + 1]
        if first == '"' or (first == "'" and self._json5):
            return self._string(at)
        found = JSON5_KEY.match(self._text, at) if self._json5 else None
        if found is None:
            raise self.fault(at, "a key in double quotes is missing" + self._comment_hint(at))
        return found.group(), found.end()

    def _string(self, at: int) -> tuple[str, int]:
        found = (JSON5_STRING if self._json5 else _STRING).match(self._text, at)
        if found is None:
            raise self.fault(at, "a string is not closed on its line, or holds a control character")
        lexeme = found.group()
        try:
            # Most strings have no escapes, and need no decoding.
            if "\\" not in lexeme:
                return lexeme[1:-1], found.end()
            return json5_string(lexeme) if self._json5 else cast("str", json.loads(lexeme)), found.end()
        except ValueError:
            raise self.fault(at, "a string holds an escape that does not exist") from None

    def _scalar(self, at: int) -> Node:
        word = _WORD.match(self._text, at)
        number = (JSON5_NUMBER if self._json5 else _NUMBER).match(self._text, at) if word is None else None
        found = word or number
        if found is None or _AFTER_SCALAR.match(self._text, found.end()):
            raise self.fault(at, "a value is missing or misspelt" + self._comment_hint(at))
        if word is not None:
            return Node(at, found.end(), _WORDS[found.group()])
        try:
            return Node(at, found.end(), self._number(found))
        except ValueError:
            raise self.fault(at, "a number has too many digits") from None

    def _number(self, found: re.Match[str]) -> int | float:
        if self._json5:
            return json5_number(found.group())
        return float(found.group()) if found["fraction"] or found["power"] else int(found.group())

    def _comment_hint(self, at: int) -> str:
        if self._text[at : at + 2] == "/*":
            return " (strict JSON takes no comments)" if self._strict else " (the comment is not closed)"
        return " (strict JSON takes no comments)" if self._text[at : at + 2] == "//" else ""


def _quick_decoder() -> json.JSONDecoder:
    return json.JSONDecoder(object_pairs_hook=_object_once, parse_constant=_no_constant)


def _object_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key stands there twice")
    return found


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
