"""The house's import rules as a pure check: a module's name and source in, what is wrong with it out (design 1)."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOTS = ("broker", "transports", "supervisor", "clients")
OURS = (
    "lifebus_contract",
    "lifebus_broker",
    "lifebus_adapters",
    "lifebus_transports",
    "lifebus_supervisor",
    "lifebus",
)
PURE_BROKER = {
    "canon",
    "claims",
    "degradation",
    "deliveries",
    "fold",
    "log",
    "negotiation",
    "payload_validation",
    "placement",
    "pressure",
    "registry",
    "renewal",
    "reports",
    "retention",
    "selection",
    "shares",
    "slots",
    "strands",
    "synthesis",
    "transitions",
}
"""The deciding half of the broker: values in, values out."""
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


RULES: dict[str, Rule] = {
    "lifebus_contract": _rule("", "msgspec", UNCLOCKED),
    "lifebus_adapters": _rule("lifebus_contract", "msgspec", NO_IO),
    "lifebus_broker": _rule("lifebus_contract", "anyio structlog msgspec", {"socket", "subprocess", "sqlite3"}),
    "lifebus_broker.ledger.sqlite.ledger": _rule(
        "lifebus_contract", "anyio structlog msgspec apsw", {"socket", "subprocess", "sqlite3"}
    ),
    "lifebus_broker.ledger.jetstream": _rule("lifebus_contract", "anyio structlog msgspec nats", {"subprocess"}),
    **{
        f"lifebus_broker.{module}": _rule("lifebus_contract", "msgspec", UNCLOCKED | {"anyio"})
        for module in PURE_BROKER
    },
    "lifebus_transports": _rule("lifebus_contract lifebus_adapters", "anyio zmq msgpack msgspec structlog"),
    "lifebus_supervisor": _rule(
        "lifebus_contract lifebus_broker lifebus_adapters lifebus_transports",
        "anyio zmq msgpack msgspec structlog apsw platformdirs watchfiles yaml",
    ),
    "lifebus": _rule("lifebus_contract lifebus_transports", "anyio zmq msgpack msgspec structlog platformdirs"),
    "lifebus.cli": _rule(
        "lifebus_contract lifebus_adapters lifebus_transports lifebus_supervisor",
        "anyio msgspec cyclopts rich structlog platformdirs apsw zmq",
    ),
    "lifebus.demo": _rule("lifebus_contract lifebus_transports", "anyio msgspec rich structlog"),
    "lifebus.hook": _rule(),
    "lifebus.observer": _rule("lifebus_contract lifebus_adapters lifebus_transports", "anyio msgspec zmq"),
    "lifebus.proxy": _rule(),
    "lifebus.wrapper": _rule(),
}
"""The table of design 1, longest prefix first; the standard library is allowed unless a rule says never."""


def rule_for(module: str) -> Rule:
    """Return the rule of the longest prefix that the module's name has."""
    names = [name for name in RULES if f"{module}.".startswith((f"{name}.", f"{name}_"))]
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
    if _is_pure(module):
        found += [f"{module} is pure and must not be async" for node in nodes if _is_async(node)]
        found += [f"{module} is pure and must not ask a clock" for node in nodes if _asks_clock(node)]
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
            if (top != own and top not in rule.ours) or (_is_pure(module) and _is_acting(name)):
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


def _is_pure(module: str) -> bool:
    parts = module.split(".")
    return parts[0] in {"lifebus_contract", "lifebus_adapters"} or (
        parts[0] == "lifebus_broker" and len(parts) > 1 and parts[1] in PURE_BROKER
    )


def _is_acting(name: str) -> bool:
    """Whether the module belongs to the half of the broker that does I/O; the pure half must not lean on it."""
    parts = name.split(".")
    return parts[0] == "lifebus_broker" and len(parts) > 1 and parts[1] not in PURE_BROKER | {"ports"}


def _is_async(node: ast.AST) -> bool:
    return isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)


def _asks_clock(node: ast.AST) -> bool:
    """Whether `datetime` is asked for the time; to write down a time that was passed in is pure."""
    return isinstance(node, ast.Attribute) and node.attr in {"now", "utcnow", "today"}
