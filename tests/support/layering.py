"""The import rules of docs/architecture.md as a check: a module's name and source in, what is wrong with it out."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from support.paths import REPOSITORY

ROOTS = ("broker", "transports", "supervisor", "clients")
OURS = (
    "lifebus_contract",
    "lifebus_broker",
    "lifebus_adapters",
    "lifebus_transports",
    "lifebus_supervisor",
    "lifebus_admin",
    "lifebus",
)
PURE_FOLDERS = ("lifebus_contract", "lifebus_adapters", "lifebus_broker.state")
"""Folders that decide and never act.  Elsewhere a module says so itself: its docstring's first line ends in "Pure."."""
UNCLOCKED = {"asyncio", "logging", "multiprocessing", "random", "secrets", "selectors", "socket", "sqlite3"}
UNCLOCKED |= {"ssl", "subprocess", "threading", "time", "uuid"}
NO_IO = UNCLOCKED | {"io", "shutil", "tempfile", "urllib", "http"}


@dataclass(frozen=True, slots=True)
class Rule:
    """What the modules under a prefix may import beside themselves: our packages, other people's, and never."""

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()
    never: frozenset[str] = frozenset()


def _rule(ours: str = "", others: str = "", never: set[str] | None = None) -> Rule:
    return Rule(frozenset(ours.split()), frozenset(others.split()), frozenset(never or ()))


_BROKER = "anyio structlog msgspec"
_NO_SOCKETS = {"socket", "subprocess", "sqlite3"}

PORTS = "lifebus_broker.ports"
"""What the broker needs from outside; the deciding half exchanges its values."""

RULES: dict[str, Rule] = {
    "lifebus_contract": _rule("", "msgspec", UNCLOCKED),
    "lifebus_adapters": _rule("lifebus_contract", "msgspec", NO_IO),
    "lifebus_broker": _rule("lifebus_contract", _BROKER, _NO_SOCKETS),
    "lifebus_broker.ledger.sqlite": _rule("lifebus_contract", f"{_BROKER} apsw", _NO_SOCKETS),
    "lifebus_broker.ledger.jetstream": _rule("lifebus_contract", f"{_BROKER} nats", {"subprocess"}),
    "lifebus_broker.state": _rule("lifebus_contract", "msgspec", NO_IO | {"anyio"}),
    "lifebus_transports": _rule("lifebus_contract lifebus_adapters", "anyio zmq msgpack msgspec structlog"),
    "lifebus_transports.http": _rule(
        "lifebus_contract", "anyio h11 jwt msgspec starlette structlog uvicorn websockets"
    ),
    "lifebus_transports.shims": _rule(),
    "lifebus_supervisor": _rule(
        "lifebus_contract lifebus_broker lifebus_adapters lifebus_transports",
        "anyio msgpack msgspec packaging structlog platformdirs watchfiles genai_prices",
    ),
    "lifebus_supervisor.traces": _rule("lifebus_contract lifebus_broker", "google msgspec opentelemetry"),
    "lifebus_supervisor.api": _rule(
        "lifebus_contract lifebus_broker lifebus_adapters lifebus_transports", "anyio msgspec structlog"
    ),
    "lifebus_supervisor.daemon": _rule(
        "lifebus_contract lifebus_broker lifebus_adapters lifebus_transports", "anyio msgspec structlog zmq"
    ),
    "lifebus_admin": _rule(
        "lifebus_contract lifebus_broker lifebus_adapters lifebus_transports lifebus_supervisor",
        "anyio msgspec structlog yaml",
    ),
    "lifebus": _rule("lifebus_contract lifebus_transports", "anyio zmq msgpack msgspec structlog platformdirs"),
    "lifebus.cli": _rule(
        "lifebus_contract lifebus_adapters lifebus_transports lifebus_supervisor lifebus_admin",
        "anyio arro3 msgspec cyclopts rich structlog platformdirs zmq",
    ),
    "lifebus.demo": _rule("lifebus_contract lifebus_transports", "anyio msgspec rich structlog"),
    "lifebus.hook": _rule(),
    "lifebus.live": _rule("lifebus_contract lifebus_transports", "anyio"),
    "lifebus.loa": _rule("lifebus_contract lifebus_transports", "anyio msgspec structlog yaml"),
    "lifebus.observer": _rule("lifebus_contract lifebus_adapters lifebus_transports", "anyio msgspec zmq"),
    "lifebus.proxy": _rule(),
    "lifebus.top": _rule("lifebus_contract lifebus_transports", "anyio rich"),
    "lifebus.wrapper": _rule(),
}
"""What each folder may import; the longest prefix decides.

The standard library is allowed unless it is named as `never`.
"""


def rule_for(module: str) -> Rule:
    """Return the rule of the longest prefix that the module's name has."""
    names = [name for name in RULES if f"{module}.".startswith(f"{name}.")]
    return RULES[max(names, key=len)]


def modules(repository: Path) -> Iterator[tuple[str, Path]]:
    """Yield the name and path of each module of the packages that we ship."""
    for root in ROOTS:
        for path in sorted((repository / root).rglob("*.py")):
            parts = path.relative_to(repository / root).with_suffix("").parts
            yield ".".join(parts[:-1] if parts[-1] == "__init__" else parts), path


def violations(module: str, source: str) -> list[str]:
    """Return what the module imports against the rules, one sentence each, function-level imports included."""
    tree = ast.parse(source)
    nodes = list(ast.walk(tree))
    imports = [node for node in nodes if isinstance(node, ast.Import | ast.ImportFrom)]
    found = [fault for node in imports for fault in _import_faults(module, node)]
    if is_pure(module, tree):
        found += _purity_faults(module, nodes)
    if rule_for(module) is RULES["lifebus.cli"]:
        found += _eager_faults(module, tree)
    return found


def _import_faults(module: str, node: ast.AST) -> Iterator[str]:
    rule, own = rule_for(module), module.partition(".")[0]
    if isinstance(node, ast.ImportFrom) and node.level:
        yield f"{module}:{node.lineno} imports relatively; write the absolute name"
        return
    for name in _imported(node):
        top = name.split(".")[0]
        where = f"{module}:{getattr(node, 'lineno', 0)} must not import {name}"
        if module == "lifebus.hook":
            if top not in sys.stdlib_module_names or top in {"asyncio", "dataclasses"}:
                yield where
        elif top in OURS:
            if top != own and top not in rule.ours:
                yield where
        elif (top in rule.never) or (top not in sys.stdlib_module_names and top not in rule.others):
            yield where


def _eager_faults(module: str, tree: ast.Module) -> Iterator[str]:
    """The command line starts quickly, so that only its functions import what is heavy."""
    for node in tree.body:
        for name in _imported(node):
            if name.split(".")[0] in {"lifebus_supervisor", "lifebus_transports", "lifebus_adapters", "rich", "anyio"}:
                yield f"{module}:{node.lineno} imports {name} at module level; import it inside the command"


def _imported(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=str(name), level=0):
            return [name]
        case _:
            return []


def is_pure(module: str, tree: ast.Module) -> bool:
    """Whether a module promises to decide without acting: by its folder, or by the first line of its docstring."""
    first = (ast.get_docstring(tree) or "").partition("\n\n")[0]
    return f"{module}.".startswith(tuple(f"{folder}." for folder in PURE_FOLDERS)) or first.endswith("Pure.")


@cache
def pure_modules() -> frozenset[str]:
    """Return the modules of this repository that promise to be pure."""
    return frozenset(name for name, path in modules(REPOSITORY) if is_pure(name, ast.parse(path.read_text())))


def _purity_faults(module: str, nodes: list[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if _is_async(node):
            yield f"{module} is pure and must not be async"
        if _asks_clock(node):
            yield f"{module} is pure and must not ask a clock"
        for name in _imported(node):
            if name.split(".")[0] in UNCLOCKED | {"anyio"} or (_is_brokers(module, name) and not _is_pure_import(node)):
                yield f"{module} is pure and must not import {name}"


def _is_brokers(module: str, name: str) -> bool:
    return module.startswith("lifebus_broker.") and name.startswith("lifebus_broker.") and name != PORTS


def _is_pure_import(node: ast.AST) -> bool:
    """Whether everything that is imported comes out of pure modules; a package may hold several."""
    pure = pure_modules()
    if not isinstance(node, ast.ImportFrom):
        return all(name in pure for name in _imported(node))
    return node.module in pure or all(f"{node.module}.{alias.name}" in pure for alias in node.names)


def _is_async(node: ast.AST) -> bool:
    return isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)


def _asks_clock(node: ast.AST) -> bool:
    """Whether `datetime` is asked for the time; to write down a time that was passed in is pure."""
    return isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
