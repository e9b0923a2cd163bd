"""What the parser of command lines refuses, in words of its users: which word is wrong, and what was meant.  Pure."""

import difflib
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, get_args

from cyclopts import CoercionError, CycloptsError, MissingArgumentError, UnknownOptionError

from lifebus.cli.app import known_group
from lifebus.cli.arguments import unknown_word
from lifebus.cli.command_table import COMMANDS

_KINDS: Final = {int: "a whole number", float: "a number", bool: "a word for yes or no"}
_SHOWN: Final = 64


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
        has_command = fault.app is not None and fault.app.default_command is not None
        collection = fault.app.assemble_argument_collection() if fault.app is not None and has_command else ()
        flags = _flags(collection)
        return f"{first}: a value is missing" if first in flags else _no_option(first, flags)
    # The word behind those of a group is that of a command in it.
    if list(words[len(known) : len(known) + 1]) == [first] and (group is not None or not known):
        return _no_command(first, known, COMMANDS if group is None else group)
    return f"not understood: {' '.join(unused)}"


def _no_command(word: str, known: Sequence[str], commands: "Iterable[str]") -> str:
    names = [name for name in commands if not name.startswith("-")]
    near = difflib.get_close_matches(word, names, n=1)
    whole = " ".join(("lifebus", *known, word[:_SHOWN]))
    if near:
        return f"there is no command `{whole}`; did you mean `{' '.join(('lifebus', *known, near[0]))}`?"
    return f"there is no command `{whole}`" + (f"; known are {', '.join(names)}" if known else "")


def _no_option(word: str, flags: Sequence[str]) -> str:
    name = word.partition("=")[0]
    near = difflib.get_close_matches(name, flags, n=1)
    return f"there is no option `{name[:_SHOWN]}`" + (f"; did you mean {near[0]}?" if near else "")


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
