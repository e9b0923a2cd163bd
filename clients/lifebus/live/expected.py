"""The table of what has to be recorded, read from expected.toml."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True)
class Expectation:
    """One cell of the table: the lines that have to be recorded, or why the harness cannot run the scenario.

    A line that ends in ` +` may be recorded once or more often, one that ends in ` *` not at all or more often.
    """

    lines: tuple[str, ...] = ()
    cannot: str = ""

    def fits(self, recorded: Sequence[str]) -> bool:
        """Return whether these are the lines that have to be recorded."""
        pattern = "".join(_pattern(line) for line in self.lines)
        return re.fullmatch(pattern, "".join(f"{line}\n" for line in recorded)) is not None


def _pattern(line: str) -> str:
    repeat = line[-1] if line.endswith((" +", " *")) else ""
    return f"(?:{re.escape(line.removesuffix(f' {repeat}') if repeat else line)}\n){repeat}"


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
        return Expectation(cannot=str(cell["cannot"]))
    words: dict[str, list[str]] = {**table["words"], **table["words_of"].get(harness, {})}
    return Expectation(tuple(line for word in str(cell).split() for line in _lines(words, word)))


def _lines(words: Mapping[str, list[str]], word: str) -> list[str]:
    if word[-1] in "+*":
        return [f"{line} {word[-1]}" for line in words[word[:-1]]]
    return words[word]


@cache
def _table() -> dict[str, Any]:
    return tomllib.loads((files("lifebus.live") / "expected.toml").read_text())
