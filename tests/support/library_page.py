"""docs/library.md and docs/library-types.md: what the library offers, from its signatures and docstrings.

    PYTHONPATH=tests python tests/support/library_page.py

writes them anew; a test compares them with the library.
"""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Iterator
from enum import Enum
from functools import partial
from itertools import pairwise
from typing import Any, Final, get_type_hints, is_typeddict

import msgspec

import lifebus
import lifebus.blocking
import lifebus_contract
from lifebus_contract import errors
from lifebus_contract.failure import DEFAULT_RETRY
from support.library_types import comments, field_rows, hints_of, overloads_of, shown, structs_in, table
from support.paths import DOCS, SUPPORT

PAGE: Final = DOCS / "library.md"
TYPES: Final = DOCS / "library-types.md"
_MADE: Final = "<!-- Made by `PYTHONPATH=tests python tests/support/library_page.py`. -->"
_HEADS: Final = SUPPORT / "library"

_GROUPS: Final[dict[str, tuple[str, ...]]] = {
    "Connect": ("lifebus:connect", "lifebus:run", "lifebus:Bus"),
    "Make what is emitted": (
        "lifebus:make_request",
        "lifebus:make_payload",
        "lifebus:new_id",
        "lifebus.requests:RequestFields",
        "lifebus.requests:PayloadFields",
    ),
    "Follow": (
        "lifebus:Subscription",
        "lifebus:tells_of_failure",
        "lifebus:tells_of_wait",
        "lifebus:tells_of_canary",
        "lifebus:Deliveries",
        "lifebus:Delivery",
        "lifebus:Signals",
        "lifebus:SignalReceived",
        "lifebus:State",
        "lifebus:Position",
        "lifebus:Gap",
        "lifebus.ticks:Ticks",
    ),
    "Parts of a bus": (
        "lifebus.inbox:QuestionInbox",
        "lifebus.jobs:Jobs",
        "lifebus.transcripts:Transcripts",
        "lifebus.flows.runs:Flows",
        "lifebus.checkpoints.reporting:Checkpoints",
        "lifebus.extension_admin:ExtensionAdmin",
        "lifebus.consumer_admin:ConsumerAdmin",
        "lifebus.snapshots:Snapshots",
        "lifebus.ledger_admin:LedgerAdmin",
    ),
    "Files": ("lifebus:Workspace",),
    "Without an event loop": tuple(f"lifebus.blocking:{name}" for name in lifebus.blocking.__all__),
}
_HELD: Final = {
    "QuestionInbox": "bus.inbox",
    "Jobs": "bus.jobs",
    "Transcripts": "bus.transcripts",
    "Flows": "bus.flows",
    "Checkpoints": "bus.checkpoints",
    "ExtensionAdmin": "bus.extensions",
    "ConsumerAdmin": "bus.cursors",
    "Snapshots": "bus.saves",
    "LedgerAdmin": "bus.ledger",
}
_ALIASES: Final = (
    ("lifebus.subscription", "Since"),
    ("lifebus._internal.thread_views", "SignalsSince"),
    ("lifebus._internal.following.short_names", "SessionName"),
    ("lifebus._internal.following.gaps", "OnGap"),
    ("lifebus._internal.following.gaps", "GapHandler"),
    ("lifebus._internal.worker", "Handler"),
)
_LINE: Final = 88
_RAISED: Final = re.compile(r"^ {4}(\w+): (.*(?:\n {4}(?!\w+: ).*)*)", re.MULTILINE)


def library_page() -> str:
    """Return the page of calls and errors."""
    parts = [_head("calls")]
    for heading, names in _GROUPS.items():
        parts.append(f"\n## {heading}\n")
        parts += [_entry(*name.split(":")) for name in names]
    return "".join((*parts, _errors()))


def types_page() -> str:
    """Return the page of the types: the names that parameters' types have, then structs and enums."""
    told = {_loaded(*name.split(":")) for names in _GROUPS.values() for name in names}
    found = {one.__name__: one for one in _reached() if one not in told}
    aliases = "".join(_alias(*one) for one in _ALIASES)
    types = "".join(_type(one) for _, one in sorted(found.items()))
    return f"{_head('types')}\n## Names of alternatives\n{aliases}\n## Structures and values\n{types}"


def _head(name: str) -> str:
    return f"{(_HEADS / f'{name}.txt').read_text()}\n{_MADE}\n"


def _entry(module: str, name: str) -> str:
    thing = _loaded(module, name)
    called = name if module != "lifebus.blocking" else f"blocking.{name}"
    if inspect.isfunction(thing):
        return f"\n### lifebus.{called}\n" + _function(thing)
    if is_typeddict(thing):
        rows = table(
            [(f"`{field}`", f"`{shown(hint)}`") for field, hint in get_type_hints(thing).items()], ("keyword", "type")
        )
        return f"\n### {name}\n\n{prose(thing)}\n\n{rows}\n"
    if issubclass(thing, msgspec.Struct):
        return f"\n### {name}\n" + _struct(thing) + _methods(thing, name)
    held = _HELD.get(name)
    heading = f"`{held}`: {name}" if held else called
    return f"\n### {heading}\n\n{prose(thing)}\n" + _methods(thing, held or ("bus" if name == "Bus" else name))


def _loaded(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _methods(thing: type, prefix: str) -> str:
    parts = []
    for name, member in members(thing):
        if isinstance(member, property):
            parts.append(f"\n#### {prefix}.{name}\n\n{prose(member)}\n")
        else:
            parts.append(f"\n#### {prefix}.{name}\n" + _function(getattr(member, "__func__", member)))
    return "".join(parts)


def members(thing: type) -> Iterator[tuple[str, Any]]:
    """Yield the public methods and properties of a class, those of its bases after its own."""
    seen: set[str] = set()
    for base in thing.__mro__:
        for name, member in vars(base).items():
            of_ours = base.__module__.startswith("lifebus") and not name.startswith("_") and name not in seen
            if of_ours and (isinstance(member, property) or inspect.isfunction(getattr(member, "__func__", member))):
                seen.add(name)
                yield name, member


def _function(function: Any) -> str:
    function = inspect.unwrap(function)
    return f"\n```python\n{signature(function)}\n```\n\n{prose(function)}\n"


def signature(function: Any) -> str:
    """Return how a function is called, a parameter a line where one line is too short."""
    definition = _definition(function)
    forms = [_definition(one).returns for one in overloads_of(function)]
    returned = " | ".join(dict.fromkeys(ast.unparse(one) for one in forms if one)).strip("'")
    word = "async def" if isinstance(definition, ast.AsyncFunctionDef) else "def"
    if _is_context(definition):
        word, returned = "async with" if word == "async def" else "with", re.sub(r"^\w+\[(.*)\]$", r"\1", returned)
    arguments = [one for one in _arguments(definition.args) if one not in {"self", "cls"}]
    if not arguments[:1] or arguments[0] == "/":
        arguments = arguments[1:]
    line = f"{word} {definition.name}({', '.join(arguments)}) -> {returned}"
    if len(line) <= _LINE:
        return line
    listed = "".join(f"    {one},\n" for one in arguments)
    return f"{word} {definition.name}(\n{listed}) -> {returned}"


def _definition(function: Any) -> ast.FunctionDef | ast.AsyncFunctionDef:
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    if not isinstance(found, ast.FunctionDef | ast.AsyncFunctionDef):
        raise TypeError(f"{function} is no function")
    return found


def _is_context(definition: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("contextmanager" in ast.unparse(one) for one in definition.decorator_list)


def _arguments(arguments: ast.arguments) -> list[str]:
    """Return the parameters as they are written, with the marks between their kinds."""
    plain = [*arguments.posonlyargs, *arguments.args]
    defaults: list[ast.expr | None] = [None] * (len(plain) - len(arguments.defaults)) + list(arguments.defaults)
    found = [_argument(*one) for one in zip(plain, defaults, strict=True)]
    if arguments.posonlyargs:
        found.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        found.append(f"*{_argument(arguments.vararg, None)}")
    elif arguments.kwonlyargs:
        found.append("*")
    found += [_argument(*one) for one in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)]
    if arguments.kwarg:
        found.append(f"**{_argument(arguments.kwarg, None)}")
    return found


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    value = "" if default is None else (" = " if kind else "=") + ast.unparse(default)
    return f"{argument.arg}{kind}{value}".replace("'", '"')


def prose(thing: Any) -> str:
    """Return a docstring as Markdown: its paragraphs, and what is raised as a list."""
    text, _, raised = (thing if isinstance(thing, str) else inspect.getdoc(thing) or "").partition("\nRaises:\n")
    paragraphs = [" ".join(one.split()) for one in text.split("\n\n") if one.strip()]
    errors_raised = [f"- `{name}`: {' '.join(why.split())}" for name, why in _RAISED.findall(raised)]
    if errors_raised:
        paragraphs.append("Raises:\n\n" + "\n".join(errors_raised))
    return _linked("\n\n".join(paragraphs).replace("``", "`"))


def _linked(text: str) -> str:
    return re.sub(r"\bdocs/([\w/-]+\.md)", r"[\1](\1)", text)


def _struct(kind: type[msgspec.Struct]) -> str:
    first, *further = prose(kind).split("\n\n")
    text = "\n\n".join((first + _import_of(kind), *further))
    return f"\n{text}\n\n{table(field_rows(kind))}\n"


def _errors() -> str:
    kinds = [one for one in vars(errors).values() if inspect.isclass(one) and issubclass(one, lifebus.LifebusError)]
    rows = [_error(one) for one in kinds if one.default_failure]
    table = "\n".join(["| error | failure class | retry class | when |", "|---|---|---|---|", *rows])
    head = f"\n## Errors\n\n### LifebusError\n\n{prose(lifebus.LifebusError)}\n\n{table}\n"
    return f"{head}\n### GapFound\n\n{prose(lifebus.GapFound)}\n"


def _error(kind: type[lifebus.LifebusError]) -> str:
    failure = kind.default_failure
    if failure is None:
        raise ValueError(f"{kind.__name__} has no failure class")
    when = prose(kind).partition("\n")[0]
    return f"| `{kind.__name__}` | `{failure}` | `{DEFAULT_RETRY[failure]}` | {when} |"


def _alias(module: str, name: str) -> str:
    body = ast.parse(inspect.getsource(importlib.import_module(module))).body
    for definition, said in pairwise(body):
        if isinstance(definition, ast.Assign) and ast.unparse(definition.targets[0]) == name:
            text = prose(ast.literal_eval(ast.unparse(said)))
            value = ast.unparse(definition.value).replace("'", '"')
            return f"\n### {name}\n\n```python\n{name} = {value}\n```\n\n{text}\n"
    raise LookupError(f"{module} has no {name}")


def _type(kind: type[msgspec.Struct | Enum]) -> str:
    if issubclass(kind, Enum):
        said = comments(kind)
        values = "\n".join(f"- `{one.value}`" + (f": {said[one.name]}" if one.name in said else "") for one in kind)
        return f"\n### {kind.__name__}\n\n{prose(kind)}{_import_of(kind)}\n\n{values}\n"
    return f"\n### {kind.__name__}\n" + _struct(kind) + _methods(kind, kind.__name__)


def _import_of(kind: type) -> str:
    """Return how a type is imported by whoever makes one; answers of the broker are never made by users."""
    if kind.__name__ in lifebus.__all__:
        return f" Import: `lifebus.{kind.__name__}`."
    module = "lifebus_contract" if kind.__name__ in vars(lifebus_contract) else kind.__module__
    return f" Import: `from {module} import {kind.__name__}`." if module.startswith("lifebus_contract") else ""


def _reached() -> set[type[msgspec.Struct | Enum]]:
    """Return all structs and enums that signatures mention, or the fields of another one."""
    open_ones = [one for one in map(partial(getattr, lifebus), lifebus.__all__) if inspect.isclass(one)]
    for names in _GROUPS.values():
        for thing in (_loaded(*name.split(":")) for name in names):
            functions = (
                [thing] if inspect.isfunction(thing) else [getattr(one, "fget", one) for _, one in members(thing)]
            )
            open_ones += [kind for one in functions for hint in _hints(one) for kind in structs_in(hint)]
    reached: set[type[msgspec.Struct | Enum]] = set()
    while open_ones:
        kind = open_ones.pop()
        if kind in reached or not issubclass(kind, msgspec.Struct | Enum):
            continue
        reached.add(kind)
        hints = hints_of(kind).values() if issubclass(kind, msgspec.Struct) else ()
        open_ones += [one for hint in hints for one in structs_in(hint)]
    return reached


def _hints(function: Any) -> list[Any]:
    forms = overloads_of(inspect.unwrap(getattr(function, "__func__", function)))
    return [hint for one in forms for hint in hints_of(one).values()]


if __name__ == "__main__":
    PAGE.write_text(library_page())
    TYPES.write_text(types_page())
