"""The line of each key of a TOML document, which `tomllib` does not tell.  Pure.

The document is known to be valid: this scan follows strings, lists and tables, and checks nothing.
"""

from bisect import bisect_right
from typing import Final

KeyPath = tuple[str | int, ...]
"""The way to a value: keys of tables, and numbers in lists, from 0."""

_BLANK: Final = " \t\r\n"
_BARE_END: Final = frozenset(" \t\r\n,]}#")
_QUOTES: Final = ('"""', "'''", '"', "'")


def find_lines(text: str) -> dict[KeyPath, int]:
    """Return the line, from 1, of every table, key and element of a valid document.

    Of a table that several headers name it is the first line.
    """
    return _Scan(text).run()


class _Scan:
    """One pass over the text; `place` is the next character."""

    def __init__(self, text: str) -> None:
        self._text, self._place = text, 0
        self._breaks = [place for place, letter in enumerate(text) if letter == "\n"]
        self._lines: dict[KeyPath, int] = {}
        self._counts: dict[KeyPath, int] = {}

    def run(self) -> dict[KeyPath, int]:
        table: KeyPath = ()
        while self._skip():
            if self._text.startswith("[", self._place):
                table = self._header()
            else:
                self._pair(table)
        return self._lines

    def _skip(self, letters: str = _BLANK) -> bool:
        """Pass over blanks, comments and the letters; return whether anything is left."""
        while self._place < len(self._text):
            letter = self._text[self._place]
            if letter == "#":
                end = self._text.find("\n", self._place)
                self._place = len(self._text) if end < 0 else end
            elif letter in letters:
                self._place += 1
            else:
                return True
        return False

    def _header(self) -> KeyPath:
        """Read ``[table]`` or ``[[table]]``; below a list of tables its newest one is meant."""
        start = self._place
        is_list = self._text.startswith("[[", start)
        self._place += 2 if is_list else 1
        path: KeyPath = ()
        for part in self._key():
            path = _below(path, part)
            if path in self._counts:
                path = _below(path, self._counts[path])
        if is_list:
            # The name of a list that is there already leads to its newest table: that makes place for the next one.
            base = path[:-1] if path and isinstance(path[-1], int) else path
            self._counts[base] = self._counts.get(base, -1) + 1
            path = _below(base, self._counts[base])
            self._note(base, start)
        self._note(path, start)
        self._place = self._text.index("]", self._place) + (2 if is_list else 1)
        return path

    def _pair(self, table: KeyPath) -> None:
        start = self._place
        path = table
        for part in self._key():
            path = _below(path, part)
            self._note(path, start)
        self._skip(_BLANK + "=")
        self._value(path)

    def _key(self) -> list[str]:
        """Read a key with its dots, up to what follows it."""
        parts: list[str] = []
        while True:
            self._skip(" \t.")
            letter = self._text[self._place : self._place + 1]
            if letter and letter in "\"'":
                parts.append(self._string())
                continue
            start = self._place
            while (letter := self._text[self._place : self._place + 1]) and (letter.isalnum() or letter in "_-"):
                self._place += 1
            if start == self._place:
                return parts
            parts.append(self._text[start : self._place])

    def _value(self, path: KeyPath) -> None:
        letter = self._text[self._place : self._place + 1]
        if letter and letter in "\"'":
            self._string()
        elif letter == "[":
            self._list(path)
        elif letter == "{":
            self._inline(path)
        else:
            while self._place < len(self._text) and self._text[self._place] not in _BARE_END:
                self._place += 1

    def _list(self, path: KeyPath) -> None:
        self._place += 1
        number = 0
        while self._skip(_BLANK + ",") and self._text[self._place] != "]":
            self._note(_below(path, number), self._place)
            self._value(_below(path, number))
            number += 1
        self._place += 1

    def _inline(self, path: KeyPath) -> None:
        self._place += 1
        while self._skip(_BLANK + ",") and self._text[self._place] != "}":
            self._pair(path)
        self._place += 1

    def _string(self) -> str:
        """Pass over a string; return what stands between its quotes, as it is written."""
        quote = next(one for one in _QUOTES if self._text.startswith(one, self._place))
        start = self._place = self._place + len(quote)
        escapes = quote[0] == '"'
        while not self._text.startswith(quote, self._place):
            self._place += 2 if escapes and self._text[self._place] == "\\" else 1
        # A multi-line string may end in quotes of its own: the last three are the end.
        while len(quote) > 1 and self._text.startswith(quote[0], self._place + len(quote)):
            self._place += 1
        found = self._text[start : self._place]
        self._place += len(quote)
        return found

    def _note(self, path: KeyPath, place: int) -> None:
        self._lines.setdefault(path, bisect_right(self._breaks, place - 1) + 1)


def _below(path: KeyPath, part: str | int) -> KeyPath:
    return (*path, part)
