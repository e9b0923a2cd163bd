"""Modules of extensions, imported one by one; what each registers, and why one cannot be used."""

import importlib
import inspect
import sys
import typing
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from importlib.util import module_from_spec
from itertools import count
from pathlib import PurePosixPath
from typing import Any, Final, get_args, get_origin

from msgspec import Struct

from lifebus.extensions import Event, RegisteredHandler, RegistrationFault, registered
from lifebus_contract.extensions import LoadErrorCode
from lifebus_transports.messages.extensions.host import (
    MAX_REGISTRATIONS,
    HandlerRegistration,
    Imported,
    ModuleSource,
    ToolFault,
)

_WITH_TOOLS: Final = 2

_numbers: Final = count(1)


class HandlerFunction(Struct, frozen=True):
    """A handler as it is called: the type of the event that it is told, and whether it takes tools."""

    module_name: str
    handler: Callable[..., Any]
    event: Any
    takes_tools: bool


class ImportedModule(Struct, frozen=True):
    """What an import came to: what is reported of it, and its handlers in the order of their registration."""

    report: Imported
    handlers: tuple[HandlerFunction, ...] = ()
    package: str = ""


def import_module(source: ModuleSource) -> ImportedModule:
    """Import a module in a package of its own, so that it imports what lies beside it as ``from . import helper``."""
    # Numbered: the same folder is imported again after a reload, and must not find itself of before.
    package = f"_lifebus_extension_{next(_numbers)}"
    found: list[RegisteredHandler] = []
    token = registered.set(found)
    try:
        _make_package(package, source.folder)
        name = ".".join(PurePosixPath(source.entrypoint).with_suffix("").parts)
        importlib.import_module(f"{package}.{name}")
        bound = tuple(_bind(source.module_name, one) for one in found)
    except RegistrationFault as fault:
        return _failed(source, LoadErrorCode.REGISTRATION_FAILED, str(fault))
    # Also SystemExit: what a module does at its import must not end the host.
    except BaseException as fault:  # noqa: BLE001
        return _failed(source, LoadErrorCode.IMPORT_FAILED, describe(fault))
    finally:
        registered.reset(token)
    if not found:
        return _failed(source, LoadErrorCode.MISSING_REGISTER, "it registers no handler with `@on(…)`")
    if len(found) > MAX_REGISTRATIONS:
        why = f"it registers more than {MAX_REGISTRATIONS} handlers"
        return _failed(source, LoadErrorCode.REGISTRATION_FAILED, why)
    registrations = tuple(HandlerRegistration(one.event_type, one.priority, one.timeout_ms) for one in found)
    return ImportedModule(Imported(source.module_name, registrations), bound, package)


def forget_package(package: str) -> None:
    """Forget the modules of a package, for a process that goes on."""
    for name in [name for name in sys.modules if name == package or name.startswith(f"{package}.")]:
        del sys.modules[name]


def describe(fault: BaseException) -> str:
    """Return what failed and where, short enough for a message."""
    last = fault.__traceback__
    where = ""
    while last is not None:
        where = f" ({PurePosixPath(last.tb_frame.f_code.co_filename).name}:{last.tb_lineno})"
        last = last.tb_next
    # A text with a lone surrogate cannot be told to the broker.
    return f"{type(fault).__name__}: {fault}"[:900].encode(errors="backslashreplace").decode() + where


def _make_package(package: str, folder: str) -> None:
    spec = ModuleSpec(package, None, is_package=True)
    spec.submodule_search_locations = [folder]
    sys.modules[package] = module_from_spec(spec)
    importlib.invalidate_caches()


def _bind(module_name: str, one: RegisteredHandler) -> HandlerFunction:
    """Check that a handler can be called, and read its annotation.

    Raises:
        RegistrationFault: it is no `async def` that takes an event, or its annotations cannot be read.
    """
    name = getattr(one.handler, "__qualname__", repr(one.handler))[:128]
    if not inspect.iscoroutinefunction(one.handler):
        raise RegistrationFault(f"`{name}` is no `async def`")
    parameters = list(inspect.signature(one.handler).parameters.values())
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in parameters if each.default is each.empty and each not in positional]
    if not 1 <= len(positional) <= _WITH_TOOLS or [each for each in needed if each.kind is each.KEYWORD_ONLY]:
        raise RegistrationFault(f"`{name}` has to take an event, and may take tools, and nothing else")
    try:
        hint = typing.get_type_hints(one.handler).get(positional[0].name)
    except Exception as fault:  # noqa: BLE001  annotations are code of its author
        raise RegistrationFault(f"the annotations of `{name}` cannot be read: {describe(fault)}") from None
    told = hint if get_origin(hint) is Event and get_args(hint) else Event[Any]
    return HandlerFunction(module_name, one.handler, told, len(positional) == _WITH_TOOLS)


def _failed(source: ModuleSource, code: LoadErrorCode, why: str) -> ImportedModule:
    return ImportedModule(Imported(source.module_name, fault=ToolFault(code, why[:1024])))
