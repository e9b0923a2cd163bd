"""What a person means who types a word that there is not: the word that other tools have for it, or a slip.  Pure."""

import difflib
from collections.abc import Iterable, Mapping
from typing import Final

_SLIP: Final = 0.7
"""How alike two words have to be: less suggests words that have nothing to do with each other."""

_FEW: Final = 4
"""How many words a suggestion lists."""

COMMANDS: Final[Mapping[str, tuple[str, ...]]] = {
    "start": ("up", "run"),
    "run": ("up",),
    "stop": ("down", "abort"),
    "kill": ("down", "abort"),
    "quit": ("down",),
    "shutdown": ("down",),
    "restart": ("service restart",),
    "install": ("hooks install",),
    "uninstall": ("remove", "hooks remove"),
    "delete": ("remove", "forget"),
    "rm": ("remove", "forget"),
    "ls": ("list", "sessions"),
    "ps": ("sessions",),
    "get": ("show",),
    "info": ("show", "status"),
    "view": ("show",),
    "logs": ("tail",),
    "log": ("tail",),
    "follow": ("tail",),
    "watch": ("top",),
    "monitor": ("top",),
    "ui": ("dashboard",),
    "web": ("dashboard",),
    "stats": ("report",),
    "summary": ("report",),
    "check": ("doctor", "verify"),
    "settings": ("config",),
    "consumers": ("clients",),
    "help": ("--help",),
}
"""What is meant by words of other tools: the first of these that a group has, or else the commands of another one."""

FLAGS: Final[Mapping[str, tuple[str, ...]]] = {
    "lines": ("--last",),
    "limit": ("--last",),
    "count": ("--last",),
    "harness": ("--adapter",),
    "agent": ("--adapter",),
    "open": ("--open-only",),
    "active": ("--open-only",),
    "after": ("--since",),
    "before": ("--until",),
    "consumer": ("--name",),
    "client": ("--name",),
    "folder": ("--project", "--root"),
    "cwd": ("--project", "--root"),
    "force": ("--yes",),
    "d": ("--detach",),
}
"""The same of flags, without their dashes."""


def nearest_command(word: str, names: Iterable[str]) -> str | None:
    """Return the command that is meant by a word, of those that there are; None where no one is near."""
    there = list(names)
    meant = next((one for one in COMMANDS.get(word, ()) if one.partition(" ")[0] in there or one == "--help"), None)
    return meant or _slip(word, there)


def nearest_flag(word: str, flags: Iterable[str]) -> str | None:
    """Return the flag that is meant by one that there is not, of those of a command; None where no one is near."""
    there = {flag.lstrip("-"): flag for flag in flags}
    name = word.lstrip("-")
    meant = next((one for one in FLAGS.get(name, ()) if one in there.values()), None)
    near = _slip(name, there)
    return meant or (None if near is None else there[near])


def nearest_words(word: str, known: Iterable[str]) -> list[str]:
    """Return the words that may be meant: all that begin so, where these are a few, else the one that is most alike."""
    there = list(known)
    longer = [one for one in there if word and one.startswith(word)]
    if 1 < len(longer) <= _FEW:
        return longer
    return difflib.get_close_matches(word, there, n=1)


def _slip(word: str, known: Iterable[str]) -> str | None:
    return next(iter(difflib.get_close_matches(word, list(known), n=1, cutoff=_SLIP)), None)
