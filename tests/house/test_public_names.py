"""Every public module says what it offers: a complete `__all__`, and a docstring on everything in it."""

import ast
import importlib
import inspect
from types import ModuleType

from support.layering import modules
from support.paths import REPOSITORY

SOURCES = dict(modules(REPOSITORY))
PUBLIC = [name for name in SOURCES if not any(part.startswith("_") for part in name.split("."))]


def defined_names(source: str) -> set[str]:
    """Return the public names that a module's own statements bind at its top level, imports left out."""
    found: set[str] = set()
    for node in ast.parse(source).body:
        match node:
            case ast.FunctionDef(decorator_list=[first, *_]) if ast.unparse(first).startswith("app."):
                pass  # a command, which its application holds
            case ast.Assign(value=ast.Call(func=ast.Name(id="TypeVar" | "TypeVarTuple" | "ParamSpec"))):
                pass
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {target.id for target in targets if isinstance(target, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case _:
                pass
    found.discard("TYPE_CHECKING")  # where `typing` would cost too much start-up time
    return {name for name in found if not name.startswith("_")}


def faults_of(name: str) -> list[str]:
    """Return what is wrong with a module's `__all__`."""
    module, defined = importlib.import_module(name), defined_names(SOURCES[name].read_text())
    if not defined and not hasattr(module, "__all__"):
        return []
    listed = set(module.__all__)
    faults = [f"`{entry}` is not listed" for entry in sorted(defined - listed)]
    faults += [f"`{entry}` is listed and not there" for entry in sorted(listed) if not hasattr(module, entry)]
    return faults + ["it is not sorted, or lists twice"] * (sorted(module.__all__) != sorted(listed))


def test_a_module_lists_all_that_it_offers_and_nothing_else() -> None:
    assert {name: faults for name in PUBLIC if (faults := faults_of(name))} == {}


def test_everything_public_has_a_docstring() -> None:
    assert {name: found for name in PUBLIC if (found := undocumented(importlib.import_module(name)))} == {}


def undocumented(module: ModuleType) -> list[str]:
    """Return what lacks a docstring: the module, its listed classes and functions, their public methods."""
    found = [] if (module.__doc__ or "").strip() else [module.__name__]
    for name in getattr(module, "__all__", ()):
        thing = getattr(module, name)
        if getattr(thing, "__module__", None) != module.__name__:
            continue
        if inspect.isfunction(thing) and not thing.__doc__:
            found.append(name)
        if inspect.isclass(thing):
            found += _undocumented_class(name, thing)
    return found


def _undocumented_class(name: str, thing: type) -> list[str]:
    found = [] if vars(thing).get("__doc__") else [name]
    for attribute, member in vars(thing).items():
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if (
            not attribute.startswith("_")
            and inspect.isfunction(function)
            and not inspect.getdoc(getattr(thing, attribute))
        ):
            found.append(f"{name}.{attribute}")
    return found


def test_the_check_of_names_bites() -> None:
    assert defined_names("A = 1\n_b = 2\nclass C: ...\ndef d(): ...\nimport os") == {"A", "C", "d"}
    assert defined_names('T = TypeVar("T")\n@app.command()\ndef show(): ...') == set()


def test_the_check_of_docstrings_bites() -> None:
    module = ModuleType("sample")
    exec('__all__ = ["C", "f"]\nclass C:\n  "text"\n  def m(self): ...\ndef f(): ...', vars(module))
    assert undocumented(module) == ["sample", "C.m", "f"]
