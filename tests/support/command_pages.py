"""docs/commands.md: the help page of every command.

    PYTHONPATH=tests python tests/support/command_pages.py

writes it anew; a test compares it with what the commands say.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from typing import Final
from unittest import mock

from cyclopts import App

from lifebus.cli import run
from lifebus.cli.app import make_app
from support.paths import DOCS

PAGE: Final = DOCS / "commands.md"
_WIDTH: Final = "88"
_HEAD: Final = """# All commands

The help page of every command, as `--help` shows it.
[The command line](command-line.md) says what holds for all of them: groups, values, exit codes and JSON.

<!-- Made by `PYTHONPATH=tests python tests/support/command_pages.py`. -->
"""


def command_page() -> str:
    """Return the page, with a heading for each command and each group."""
    return _HEAD + "".join(_part(words) for words in _commands(make_app(), ()))


def _part(words: tuple[str, ...]) -> str:
    heading = f"{'#' * min(4, len(words) + 1)} lifebus {' '.join(words)}"
    return f"\n{heading}\n\n```text\n{_help_of(words)}\n```\n"


def _commands(app: App, above: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in app:
        if name.startswith("-") or not (found := app[name]).show:
            continue
        yield (*above, name)
        yield from _commands(found, (*above, name))


def _help_of(words: tuple[str, ...]) -> str:
    out = io.StringIO()
    environment = {"COLUMNS": _WIDTH, "HOME": "/nowhere", "PATH": os.defpath}
    with mock.patch.dict(os.environ, environment, clear=True), contextlib.redirect_stdout(out):
        code = run((*words, "--help"))
    if code:
        raise RuntimeError(f"lifebus {' '.join(words)} --help: exit code {code}")
    return out.getvalue().strip()


if __name__ == "__main__":
    PAGE.write_text(command_page())
