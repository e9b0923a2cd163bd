"""The parser of command lines.  A command's module is imported when it runs, or when its help is shown."""

from collections.abc import Iterable
from importlib import import_module

from cyclopts import App, Group, Parameter

from lifebus.cli.command_table import COMMANDS, FIRST
from lifebus.cli.first_screen import ABOUT
from lifebus.cli.help_pages import FirstScreen, Further, HelpPages


def make_app() -> App:
    """Return the application; nothing of a command is imported yet."""
    first = Group("First", sort_key=1, help_formatter=FirstScreen())
    further = Group("Further", sort_key=2, help_formatter=Further())
    app = App(
        name="lifebus",
        help=ABOUT,
        version=_version,
        default_parameter=Parameter(negative=(), show_default=False),
        help_format="plaintext",
        help_formatter=HelpPages(),
    )
    for flag in ("--help", "--version"):
        app[flag].show = False
    for number, (name, row) in enumerate(COMMANDS.items()):
        # By name: the module is imported only when its command runs or its help is shown.
        group = first if name in FIRST else further
        app.command(f"lifebus.cli.{row.target}", name=name, help=row.help, group=group, sort_key=number)
    return app


def known_words(words: Iterable[str]) -> list[str]:
    """Return as many words from the beginning as are names of a command and of commands within it."""
    return known_group(words)[0]


def known_group(words: Iterable[str]) -> tuple[list[str], App | None]:
    """Return `known_words`, and the group that they name; None where they name a command, or nothing."""
    known: list[str] = []
    found: object = None
    for word in words:
        if known and not (isinstance(found, App) and word in found and not word.startswith("-")):
            break
        if not known and word not in COMMANDS:
            break
        found = _target(COMMANDS[word].target) if not known else _member(found, word)
        known.append(word)
    return known, found if isinstance(found, App) and any(not name.startswith("-") for name in found) else None


def _target(target: str) -> object:
    module, _, member = target.partition(":")
    return getattr(import_module(f"lifebus.cli.{module}"), member)


def _member(group: object, name: str) -> object:
    return group[name] if isinstance(group, App) else None


def _version() -> str:
    from lifebus_supervisor.version import VERSION  # noqa: PLC0415

    return VERSION
