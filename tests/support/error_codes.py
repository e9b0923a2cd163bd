"""What the product's sources say about error codes: where each is raised and with which failure class."""

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from lifebus_contract import FailureClass, errors
from support.sources import PRODUCT, name_of, text_of

NO_ERRORS = {"Warning"}
"""Calls with a `code` that is none of an error: a receipt's warnings have words of their own."""

BY_TABLE = "by the table"

_AS_BEFORE = {"__init__", "replace"}
"""Calls that give a code to what has its class from elsewhere."""

CODE_ATTRIBUTES = {"code_word"}
"""Class attributes that hold the code of an exception."""


class Use(NamedTuple):
    """One place that raises or builds an error with a code.

    `failure` is its class; `BY_TABLE` where the place leaves it to the table, None where only the run can tell it.
    """

    code: str
    failure: FailureClass | str | None
    where: str


@cache
def uses() -> list[Use]:
    """Return every use of a literal code in the product."""
    sources = [path for path in PRODUCT if "code" in text_of(path) or "Refusal.of" in text_of(path)]
    return [use for path in sources for use in _uses_in(name_of(path), ast.parse(text_of(path)))]


def compared() -> dict[str, str]:
    """Return the codes that somebody decides by, and where: `fault.code == "busy"`, `fault.code in _PASSING`."""
    found: dict[str, str] = {}
    for path in PRODUCT:
        if ".code" not in text_of(path):
            continue
        tree = ast.parse(text_of(path))
        for node in ast.walk(tree):
            if isinstance(node, ast.Compare) and isinstance(node.left, ast.Attribute) and node.left.attr == "code":
                values = [_value_of(one, tree) for one in node.comparators]
                found |= dict.fromkeys(
                    filter(None, (text for value in values for text in _texts(value))), name_of(path)
                )
    return found


def _value_of(node: ast.AST, tree: ast.Module) -> ast.AST | None:
    """Return what a name of the module stands for, and everything else as it is."""
    if not isinstance(node, ast.Name):
        return node
    lines = (line for line in tree.body if isinstance(line, ast.Assign | ast.AnnAssign))
    named = (line for line in lines if node.id in ast.unparse(line).split("=")[0])
    return next((line.value for line in named), None)


def _texts(node: ast.AST | None) -> Iterator[str]:
    """Return the texts in a set, or the keys of a mapping."""
    if isinstance(node, ast.Dict):
        yield from (text for key in node.keys for text in _texts(key))
    elif node is not None:
        for literal in ast.walk(node):
            if isinstance(literal, ast.Constant) and isinstance(literal.value, str):
                yield literal.value


def _uses_in(name: str, tree: ast.Module) -> Iterator[Use]:
    helpers = dict(_helpers(tree))
    for function in _scopes(tree):
        for node in _own_nodes(function):
            if isinstance(node, ast.ClassDef):
                yield from _class_codes(name, node)
                yield from _own_codes(name, node)
            if isinstance(node, ast.Call):
                for code, failure in _codes_of(node, function, helpers):
                    yield Use(code, failure, f"{name}:{node.lineno}")
    for helper in helpers.values():
        for default in helper.defaults:
            yield Use(default, helper.failure, f"{name}:{helper.line}")


class _Helper(NamedTuple):
    """A function that is handed a code: at which place, with which default, and the class of what it builds."""

    place: int | None
    defaults: tuple[str, ...]
    failure: FailureClass | str | None
    line: int


def _helpers(tree: ast.Module) -> Iterator[tuple[str, _Helper]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef) or node.name.startswith("__"):
            continue
        places = [argument.arg for argument in node.args.args]
        keywords = [argument.arg for argument in node.args.kwonlyargs]
        if "code" not in places + keywords:
            continue
        defaults = node.args.kw_defaults[keywords.index("code")] if "code" in keywords else None
        built = next((call for call in ast.walk(node) if isinstance(call, ast.Call) and _passes_code(call)), None)
        if built is not None:
            failure = _failure_of(built)
            place = places.index("code") if "code" in places else None
            yield node.name, _Helper(place, tuple(_literals(defaults, node)), failure, node.lineno)


def _passes_code(call: ast.Call) -> bool:
    if _callee(call) == "of" and call.args:
        return isinstance(call.args[0], ast.Name) and call.args[0].id == "code"
    return any(
        one.arg == "code" and isinstance(one.value, ast.Name) and one.value.id == "code" for one in call.keywords
    )


def _codes_of(
    call: ast.Call, scope: ast.AST, helpers: dict[str, _Helper]
) -> Iterator[tuple[str, FailureClass | str | None]]:
    callee = _callee(call)
    if callee in NO_ERRORS or (isinstance(call.func, ast.Attribute) and ast.unparse(call.func.value) == "_log"):
        return
    helper = helpers.get(callee)
    given = next((one.value for one in call.keywords if one.arg == "code"), None)
    if given is None and callee == "of" and ast.unparse(call.func) == "Refusal.of":
        given = call.args[0]
    if given is None and helper is not None and helper.place is not None and len(call.args) > helper.place:
        given = call.args[helper.place]
    failure = helper.failure if helper is not None else _failure_of(call)
    for code in _literals(given, scope):
        yield code, failure


def _failure_of(call: ast.Call) -> FailureClass | str | None:
    """Return the class that a call gives by itself."""
    given = next((one.value for one in call.keywords if one.arg == "failure_class"), None)
    if given is None and _callee(call) == "error_for":
        given = call.args[0]
    if given is not None:
        return _failure_named(given)
    kind = getattr(errors, _callee(call), None)
    return getattr(kind, "default_failure", None) or (None if _callee(call) in _AS_BEFORE else BY_TABLE)


def _class_codes(name: str, node: ast.ClassDef) -> Iterator[Use]:
    for line in node.body:
        if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) in CODE_ATTRIBUTES:
            for code in _literals(line.value, node):
                yield Use(code, None, f"{name}:{line.lineno}")


def _own_codes(name: str, node: ast.ClassDef) -> Iterator[Use]:
    """Return the codes that an exception's own `__init__` gives, with the class of the exception."""
    own = [line.value for line in node.body if isinstance(line, ast.Assign) and "default_failure" in ast.unparse(line)]
    bases = [getattr(errors, ast.unparse(base), None) for base in node.bases]
    given = next((getattr(base, "default_failure", None) for base in bases if base is not None), None)
    failure = _failure_named(own[0]) if own else given or BY_TABLE
    for call in (one for one in ast.walk(node) if isinstance(one, ast.Call) and "super().__init__" in ast.unparse(one)):
        for code in _literals(next((one.value for one in call.keywords if one.arg == "code"), None), node):
            yield Use(code, failure, f"{name}:{call.lineno}")


def _literals(node: ast.AST | None, scope: ast.AST) -> Iterator[str]:
    """Return the texts that an expression may be, as far as the function around it tells."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.IfExp):
        yield from _literals(node.body, scope)
        yield from _literals(node.orelse, scope)
    elif isinstance(node, ast.BoolOp):
        for value in node.values:
            yield from _literals(value, scope)
    elif isinstance(node, ast.Attribute) and node.attr == "value" and (failure := _failure_named(node.value)):
        yield failure.value
    elif isinstance(node, ast.Name):
        for line in _own_nodes(scope):
            if isinstance(line, ast.Assign) and ast.unparse(line.targets[0]) == node.id:
                yield from _literals(line.value, scope)


def _failure_named(node: ast.AST) -> FailureClass | None:
    """Return the class that an expression such as `FailureClass.TIMEOUT` names."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "FailureClass":
        return FailureClass[node.attr]
    return None


def _callee(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else ast.unparse(call.func)


def _scopes(tree: ast.Module) -> Iterator[ast.AST]:
    yield tree
    yield from (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))


def _own_nodes(scope: ast.AST) -> Iterator[ast.AST]:
    """Return the nodes of a scope without those of the functions in it."""
    for child in ast.iter_child_nodes(scope):
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            yield child
            yield from _own_nodes(child)
