"""What the parser of command lines refuses, in words of its users: which word is wrong, and what was meant.  Pure."""

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, get_args

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownOptionError

from lifebus.cli.app import known_group
from lifebus.cli.arguments import unknown_word
from lifebus.cli.command_table import COMMANDS
from lifebus.cli.wording.nearest import nearest_command, nearest_flag

_KINDS: Final = {int: "a whole number", float: "a number", bool: "a word for yes or no"}
_SHOWN: Final = 64
_SESSION: Final = re.compile(r"[^#/]+#\d+$|[\w-]+/.")


def plain_words(fault: CycloptsError, words: Sequence[str]) -> str:
    """Return what is wrong with a command line: the word that is meant first, then what is to be there."""
    if fault.unused_tokens:
        return _not_used(fault.unused_tokens, words, fault)
    if isinstance(fault, UnknownOptionError):
        return _no_option(fault.token.keyword or fault.token.value, _flags(fault.argument_collection))
    if isinstance(fault, MissingArgumentError):
        return _missing(fault)
    if isinstance(fault, CoercionError) and fault.token is not None:
        return _no_value(fault, fault.token.value)
    return str(fault)


def _not_used(unused: Sequence[str], words: Sequence[str], fault: CycloptsError) -> str:
    known, group = known_group(words)
    first = unused[0]
    if first.startswith("-") and first != "-":
        flags = _flags_of(fault)
        return f"{first}: a value is missing" if first in flags else _no_option(first, flags)
    word = next(iter(words[len(known) : len(known) + 1]), "")
    # The word behind those of a group is that of a command in it.
    if word == first and (group is not None or not known):
        return _no_command(first, known, COMMANDS if group is None else group)
    # What a group does without one took the word for a value, and another was left over.
    if group is not None and (meant := _meant(word, known, group)) is not None:
        return f"there is no command `{_line(known, word)}`; did you mean `{meant}`?"
    return f"not understood: {' '.join(unused)}" + _where_it_belongs(first, fault)


def meant_command(words: Sequence[str]) -> str | None:
    """Return the command that is meant by a word behind those of a group, if it is none of the group's but nearly."""
    known, group = known_group(words)
    word = next(iter(words[len(known) : len(known) + 1]), "")
    return None if group is None or not word or word.startswith("-") else _meant(word, known, group)


def _meant(word: str, known: Sequence[str], commands: Iterable[str]) -> str | None:
    near = nearest_command(word, [name for name in commands if not name.startswith("-")])
    return None if near is None or near == word else _line([] if " " in near else known, near)


def _line(known: Sequence[str], word: str) -> str:
    return " ".join(("lifebus", *known, word[:_SHOWN]))


def _no_command(word: str, known: Sequence[str], commands: Iterable[str]) -> str:
    names = [name for name in commands if not name.startswith("-")]
    there_is_none = f"there is no command `{_line(known, word)}`"
    if (meant := _meant(word, known, names)) is not None:
        return f"{there_is_none}; did you mean `{meant}`?"
    return there_is_none + (f"; known are {', '.join(names)}" if known else "")


def _where_it_belongs(word: str, fault: CycloptsError) -> str:
    """Return the flag of a command that takes a word without one: a session is named by its short name."""
    flags = _flags_of(fault)
    return f"; did you mean --session {word[:_SHOWN]}?" if _SESSION.match(word) and "--session" in flags else ""


def _flags_of(fault: CycloptsError) -> list[str]:
    has_command = fault.app is not None and fault.app.default_command is not None
    return _flags(fault.app.assemble_argument_collection() if fault.app is not None and has_command else ())


def _no_option(word: str, flags: Sequence[str]) -> str:
    name = word.partition("=")[0]
    # As of `tail` and `head`.
    near = f"-n {name[1:]}" if name[1:].isdecimal() and "-n" in flags else nearest_flag(name, flags)
    return f"there is no option `{name[:_SHOWN]}`" + (f"; did you mean {near}?" if near else "")


def _missing(fault: MissingArgumentError) -> str:
    argument = fault.argument
    if argument is None:
        return str(fault)
    if fault.keyword is not None:
        return f"{fault.keyword}: a value is missing"
    is_place = argument.index is not None and not argument.field_info.is_keyword_only
    return f"{argument.name.lstrip('-').upper() if is_place else argument.name} is missing"


def _no_value(fault: CoercionError, value: str) -> str:
    argument = fault.argument
    name = (fault.token and fault.token.keyword) or (argument.name.lstrip("-").upper() if argument else "the value")
    kind = fault.target_type
    if isinstance(kind, type) and issubclass(kind, Enum):
        return unknown_word(name, value, [str(one.value) for one in kind])
    choices = [one for one in get_args(kind) if isinstance(one, str)]
    if choices:
        return unknown_word(name, value, choices)
    wanted = next((words for one, words in _KINDS.items() if kind is one), "such a value")
    return f"{name}: `{value[:_SHOWN]}` is not {wanted}"


def _flags(collection: "Iterable[object]") -> list[str]:
    """Return every name of every option of a command."""
    names = (name for argument in collection for name in getattr(argument, "names", ()))
    return [name for name in names if name.startswith("-")]
