"""The table of what has to be recorded, read from expected.toml."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, cast


@dataclass(frozen=True)
class ExpectedLines:
    """Lines that have to be recorded one after another; `repeat` is `+` for once or more often, `*` for any number."""

    lines: tuple[str, ...]
    repeat: str = ""

    @property
    def pattern(self) -> str:
        """A regular expression for the lines, each with its line break."""
        text = "".join(f"{line}\n" for line in self.lines)
        return f"(?:{re.escape(text)}){self.repeat}"


@dataclass(frozen=True)
class Expectation:
    """One cell of the table: what has to be recorded, or why the harness cannot run the scenario."""

    parts: tuple[ExpectedLines, ...] = ()
    cannot: str = ""

    @property
    def lines(self) -> tuple[str, ...]:
        """The lines for people, with how often they may come."""
        return tuple(f"{line} {part.repeat}".rstrip() for part in self.parts for line in part.lines)

    def fits(self, recorded: Sequence[str]) -> bool:
        """Return whether these are the lines that have to be recorded."""
        pattern = "".join(part.pattern for part in self.parts)
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in recorded)) is not None


def expectation(scenario: str, harness: str) -> Expectation:
    """Return a cell of the table.

    Raises:
        KeyError: there is no such cell, or it has a word that the table does not explain.
    """
    return read_cell(_table(), scenario, harness)


def read_cell(table: Mapping[str, Any], scenario: str, harness: str) -> Expectation:
    """Return a cell of a table in the form of expected.toml.

    Raises:
        KeyError: there is no such cell, or it has a word that the table does not explain.
    """
    row = table["scenarios"][scenario]
    cell = row[harness] if harness in row else row["every"]
    if isinstance(cell, dict):
        return Expectation(cannot=str(cast("dict[str, Any]", cell)["cannot"]))
    words: dict[str, list[str]] = {**table["words"], **table["words_of"].get(harness, {})}
    return Expectation(tuple(_part(words, word) for word in str(cell).split()))


def _part(words: Mapping[str, list[str]], word: str) -> ExpectedLines:
    repeat = word[-1] if word[-1] in "+*" else ""
    return ExpectedLines(tuple(words[word.removesuffix(repeat)]), repeat)


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("lifebus.live") / "expected.toml").read_text())
