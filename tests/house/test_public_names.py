"""Every public name has a docstring."""

import importlib
import inspect
from types import ModuleType

from support.layering import modules
from support.paths import REPOSITORY

SOURCES = dict(modules(REPOSITORY))
PUBLIC = [name for name in SOURCES if not any(part.startswith("_") for part in name.split("."))]


def test_everything_public_has_a_docstring() -> None:
    assert {name: found for name in PUBLIC if (found := undocumented(importlib.import_module(name)))} == {}


def undocumented(module: ModuleType) -> list[str]:
    """Return what lacks a docstring: the module, its listed classes and functions, their public methods."""
    found = [] if (module.__doc__ or "").strip() else [module.__name__]
    for name, thing in vars(module).items():
        if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
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


def test_the_check_of_docstrings_bites() -> None:
    module = ModuleType("sample")
    exec('class C:\n  "text"\n  def m(self): ...\ndef f(): ...', vars(module))
    assert undocumented(module) == ["sample", "C.m", "f"]
