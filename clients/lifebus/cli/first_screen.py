"""The first screen: what `lifebus` and `lifebus --help` show, made of the table of commands without the parser."""

import os
import sys

from lifebus.cli.command_table import FIRST, FURTHER
from lifebus.cli.terminal import paint, put

TYPE_CHECKING = False  # as in the table
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ABOUT = "A lifecycle bus for AI coding harnesses: events in, receipts out."
"""What lifebus is, in one line."""

WIDEST_LINE = 100
"""Longer lines are hard to read, on however wide a terminal."""

_INDENT = "  "
_USUAL_WIDTH = 80


def show_first_screen() -> int:
    """Print the first screen, as wide as the terminal is; return the exit code."""
    width = min(_terminal_width(), WIDEST_LINE)
    put(paint("Usage: lifebus COMMAND", "bold"))
    for line in (*_wrapped(ABOUT.split(" "), width), "", *first_lines(width), *further_lines(width)):
        put(line)
    return 0


def first_lines(width: int) -> "Iterator[str]":
    """Yield a line for each command of the first screen, or as many as it needs."""
    column = max(map(len, FIRST))
    after = " " * (len(_INDENT) + column + 2)
    for name, row in FIRST.items():
        first, *others = _wrapped(row.help.split(" "), max(20, width - len(after)))
        yield f"{_INDENT}{name.ljust(column)}  {first}"
        for line in others:
            yield after + line


def further_lines(width: int) -> "Iterator[str]":
    """Yield the names of all other commands, and what is in those that are groups."""
    yield "More; each has a --help of its own:"
    room = width - len(_INDENT)
    names = [f"{name} ({', '.join(row.members)})" if row.members else name for name, row in FURTHER.items()]
    whole = [*(f"{name}," for name in names[:-1]), names[-1]]
    # A group and its members stay on one line where there is room for them.
    pieces = [piece for name in whole for piece in ([name] if len(name) <= room else name.split(" "))]
    for line in _wrapped(pieces, room):
        yield _INDENT + line


def _wrapped(pieces: "Sequence[str]", width: int) -> "list[str]":
    """Return lines of pieces with spaces between; a piece that is too long has a line of its own."""
    lines = [pieces[0]]
    for piece in pieces[1:]:
        if len(lines[-1]) + 1 + len(piece) <= width:
            lines[-1] += f" {piece}"
        else:
            lines.append(piece)
    return lines


def _terminal_width() -> int:
    """Return the columns that COLUMNS says, else those of the terminal, else the usual ones."""
    given = os.environ.get("COLUMNS", "")
    if given.isdecimal() and int(given):
        return int(given)
    for stream in (sys.__stdin__, sys.__stdout__, sys.__stderr__):
        try:
            found = os.get_terminal_size(stream.fileno()).columns if stream is not None else 0
        except (OSError, ValueError):  # no terminal, or closed
            continue
        if found:
            return found
    return _USUAL_WIDTH
