"""Help pages: names in one column, what they are in the next, within the width of the terminal."""

import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from lifebus.cli.first_screen import WIDEST_LINE, first_lines, further_lines

if TYPE_CHECKING:
    from cyclopts.help import HelpEntry, HelpPanel
    from rich.console import Console, ConsoleOptions

_INDENT: Final = "  "
_WIDEST_NAME: Final = 22
"""What is longer has its text on the next line."""

_NARROWEST_TEXT: Final = 20
"""Fewest columns of text beside the names; on a narrower terminal all texts stand below them."""


class HelpPages:
    """Writes the help of a command, as plain text with bold heads where they can be shown."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:  # noqa: ARG002
        """Write the commands or the flags of a panel."""
        rows = [(_names_of(entry), _text_of(entry)) for entry in panel.entries]
        if not rows:
            return
        if panel.title:
            _print(console, f"{panel.title}:", style="bold")
        column = max(len(name) for name, _ in rows if len(name) <= _WIDEST_NAME or name == rows[0][0])
        for name, text in rows:
            for line in _lines(name, text, min(column, _WIDEST_NAME), _width(console)):
                _print(console, line)
        _print(console, "")

    def render_usage(self, console: "Console", options: "ConsoleOptions", usage: Any) -> None:  # noqa: ARG002
        """Write how the command is called."""
        if words := _plain(usage):
            whole = words if words.startswith("Usage:") else f"Usage: {words}"
            for line in textwrap.wrap(whole, _width(console), subsequent_indent=_INDENT, break_on_hyphens=False):
                _print(console, line, style="bold")

    def render_description(self, console: "Console", options: "ConsoleOptions", description: Any) -> None:  # noqa: ARG002
        """Write what the command does."""
        for paragraph in _plain(description).split("\n\n"):
            for line in paragraph.splitlines():
                for piece in textwrap.wrap(line, _width(console), break_on_hyphens=False) or [""]:
                    _print(console, piece)
            _print(console, "")


class FirstScreen(HelpPages):
    """Writes the commands of the first screen, where its parser is asked for it."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:  # noqa: ARG002
        """Write a line for each command."""
        for line in first_lines(_width(console)):
            _print(console, line)


class Further(HelpPages):
    """Writes all other commands as one list."""

    def __call__(self, console: "Console", options: "ConsoleOptions", panel: "HelpPanel") -> None:  # noqa: ARG002
        """Write the names, as many on a line as there is room for."""
        for line in further_lines(_width(console)):
            _print(console, line)


def _names_of(entry: "HelpEntry") -> str:
    if entry.display_labels_with_metavar:
        return ", ".join(entry.display_labels_with_metavar)
    return ", ".join((*entry.positive_names, *entry.positive_shorts))


def _text_of(entry: "HelpEntry") -> str:
    parts = [_plain(entry.description)]
    if entry.choices:
        parts.append(f"[choices: {', '.join(entry.choices)}]")
    if entry.env_var:
        parts.append(f"[env var: {', '.join(entry.env_var)}]")
    if entry.required:
        parts.append("[required]")
    return " ".join(" ".join(parts).split())


def _lines(name: str, text: str, column: int, width: int) -> Iterable[str]:
    """Yield the lines of an entry; where the name is too long its text begins on the next one."""
    after = len(_INDENT) + column + 2
    is_narrow = width - after < _NARROWEST_TEXT
    if is_narrow:
        after = 2 * len(_INDENT)
    pieces = textwrap.wrap(text, max(1, width - after), break_on_hyphens=False)
    if is_narrow or len(name) > column or not pieces:
        yield f"{_INDENT}{name}"
    else:
        yield f"{_INDENT}{name.ljust(column)}  {pieces.pop(0)}"
    for piece in pieces:
        yield " " * after + piece


def _width(console: "Console") -> int:
    return min(console.width, WIDEST_LINE)


def _plain(text: Any) -> str:
    """Return the text of what the parser made of a docstring or a usage line."""
    if text is None:
        return ""
    if hasattr(text, "plain"):
        return str(text.plain).strip()
    inner = getattr(text, "primary_renderable", None)
    return _plain(inner) if inner is not None else str(text).strip()


def _print(console: "Console", line: str, *, style: str | None = None) -> None:
    try:
        console.print(line, style=style, markup=False, highlight=False, soft_wrap=True)
    except SystemExit:
        # The console makes an exit of a pipe that was closed; here that ends a command as it ends all others.
        raise BrokenPipeError from None
