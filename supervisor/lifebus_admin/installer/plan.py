"""What an installation or a removal will do, file by file, as values that can be shown before a user agrees."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import Final, Literal

from msgspec import Struct

from lifebus_adapters.shared.assets import Asset, Scope
from lifebus_contract import IntegrationMode

Action = Literal["create", "change", "remove", "keep"]
"""What happens to a file; one that is kept has nothing to do."""

_AROUND: Final = 3
_NO_NEWLINE: Final = "\\ no line end at the end of the file"
# A line of more characters is split, as a diff of it would show nothing.
_LONG: Final = 240
# Strings are matched whole, so that a comma within one does not split.
_PIECE: Final = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[{\[,]|[^"{\[,]+|"')


class FilePlan(Struct, frozen=True, kw_only=True):
    """One file: its text before and after (None where there is none), its mode after, and what to know about it.

    `edited` where it stays although it should go, because somebody else wrote in it.
    """

    path: str
    action: Action
    before: str | None
    after: str | None
    mode: int
    notes: tuple[str, ...] = ()
    edited: bool = False

    @property
    def diff(self) -> str:
        """A unified diff for people; empty where the text stays."""
        return readable_diff(self.path, self.before, self.after)


class InstallPlan(Struct, frozen=True, kw_only=True):
    """Everything that is going to be done, in the order in which it is done.

    `user` names this installation among others that share a file.  `assets` are what the files were planned from.
    """

    adapter_id: str
    mode: IntegrationMode
    scope: Scope
    installs: bool
    user: str
    assets: tuple[Asset, ...]
    files: tuple[FilePlan, ...]
    advice: tuple[str, ...] = ()

    @property
    def nothing(self) -> bool:
        """Whether every file is as it should be already."""
        return all(file.action == "keep" for file in self.files)


def readable_diff(path: str, before: str | None, after: str | None) -> str:
    """Return a unified diff, control characters made visible; where long lines change, their parts are compared."""
    if before == after:
        return ""
    old, new = _lines(before), _lines(after)
    # Equal ends are not compared: difflib takes quadratic time in the worst case.
    head, tail = _unchanged(old, new)
    if any(len(line) > _LONG for text in (old, new) for line in text[head : len(text) - tail]):
        old, new = _parts(old), _parts(new)
        head, tail = _unchanged(old, new)
        path += " (lines shown in parts)"
    skipped, kept = max(head - _AROUND, 0), max(tail - _AROUND, 0)
    body = difflib.unified_diff(
        [_visible(line) for line in old[skipped : len(old) - kept]],
        [_visible(line) for line in new[skipped : len(new) - kept]],
        path if before is not None else "(no file)",
        path if after is not None else "(no file)",
        n=_AROUND,
        lineterm="",
    )
    return "\n".join(_shifted(body, skipped)) + "\n"


def _lines(text: str | None) -> list[str]:
    if not text:
        return []
    lines = text.replace("\r\n", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    else:
        lines.append(_NO_NEWLINE)
    return lines


def _visible(line: str) -> str:
    return "".join(
        # A file may hold control characters that would drive a terminal.
        sign if sign.isprintable() or sign == "\t" else sign.encode("unicode_escape").decode()
        for sign in line
    )


def _parts(lines: Sequence[str]) -> list[str]:
    """Split lines after every comma and opening bracket that stands in no text."""
    parts: list[str] = []
    for line in lines:
        begun = ""
        for piece in _PIECE.findall(line):
            begun += piece
            if piece in "{[,":
                parts.append(begun)
                begun = ""
        parts += [begun] if begun else []
    return parts


def _unchanged(old: Sequence[str], new: Sequence[str]) -> tuple[int, int]:
    """Return how many lines are equal at the beginning, and how many at the end: they need not be compared."""
    head = _equal(old, new)
    return head, min(_equal(old[::-1], new[::-1]), min(len(old), len(new)) - head)


def _equal(old: Sequence[str], new: Sequence[str]) -> int:
    pairs = enumerate(zip(old, new, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(old), len(new)))


def _shifted(body: Iterator[str], skipped: int) -> Iterator[str]:
    """Make the line numbers those of the whole file."""
    for number, line in enumerate(body):
        yield _shifted_range(line, skipped) if number > 1 and line.startswith("@@") else line


def _shifted_range(line: str, skipped: int) -> str:
    words = line.split(" ")
    for place in (1, 2):
        first, comma, count = words[place][1:].partition(",")
        words[place] = f"{words[place][0]}{int(first) + skipped}{comma}{count}"
    return " ".join(words)
