"""What a terminal sends as names of keys.  Pure."""

import codecs
from typing import Final

_SEQUENCES: Final = {
    "A": "up",
    "B": "down",
    "C": "right",
    "D": "left",
    "H": "home",
    "F": "end",
    "1~": "home",
    "4~": "end",
    "5~": "page-up",
    "6~": "page-down",
}
_CONTROLS: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\b": "backspace",
    "\t": "tab",
    "\x0c": "redraw",
}
_LONGEST: Final = 32
"""Most characters of an escape sequence."""


class KeyDecoder:
    """Turns bytes into keys: a character, or a name such as ``up``; what is no key is left out."""

    def __init__(self) -> None:
        self._text = codecs.getincrementaldecoder("utf-8")("replace")
        self._begun = ""

    @property
    def is_waiting(self) -> bool:
        """Whether an escape sequence has begun; where nothing follows, it was the key Esc."""
        return bool(self._begun)

    def feed(self, data: bytes) -> list[str]:
        """Return the keys that are complete."""
        keys: list[str] = []
        for letter in self._text.decode(data):
            keys += self._take(letter)
        return keys

    def flush(self) -> list[str]:
        """Return the key Esc, where nothing followed it."""
        begun, self._begun = self._begun, ""
        return ["escape"] if begun == "\x1b" else []

    def _take(self, letter: str) -> list[str]:
        if letter == "\x1b":
            found = self.flush()
            self._begun = letter
            return found
        if self._begun:
            return self._continue(letter)
        if letter in _CONTROLS:
            return [_CONTROLS[letter]]
        return [letter] if letter.isprintable() else []

    def _continue(self, letter: str) -> list[str]:
        # What is too long is no key, and passed over to its end.
        if len(self._begun) < _LONGEST:
            self._begun += letter
        if self._begun in {"\x1b[", "\x1bO"}:
            return []
        if self._begun[1] in "[O" and not "@" <= letter <= "~":
            return []
        body, self._begun = self._begun[2:], ""
        # With modifiers, `1;5A` for Ctrl and up, it is the same key.
        name = _SEQUENCES.get(body) or _SEQUENCES.get(body[-1:] if body.startswith("1;") else "")
        return [name] if name else []
