"""What users call explains itself in an editor: typed parameters, all of them explained, nothing passed through."""

import ast
import importlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any, Unpack, get_origin, get_overloads

import msgspec
import pytest

import lifebus.blocking
from lifebus.requests import PayloadFields, RequestFields
from lifebus_contract import CallbackRequest, PayloadEnvelope

HELD_BY_A_BUS = {
    "lifebus.checkpoints.reporting": "Checkpoints",
    "lifebus.consumer_admin": "ConsumerAdmin",
    "lifebus.extension_admin": "ExtensionAdmin",
    "lifebus.flows.runs": "Flows",
    "lifebus.inbox": "QuestionInbox",
    "lifebus.jobs": "Jobs",
    "lifebus.ledger_admin": "LedgerAdmin",
    "lifebus.snapshots": "Snapshots",
    "lifebus.ticks": "Ticks",
    "lifebus.transcripts": "Transcripts",
}
SAID_ELSEWHERE = re.compile(r"`\S+` without an event loop: its calls block|see `[\w.]+`")
INNER = re.compile(r"\blifebus_\w+|\b_internal\b")
MOST_ALTERNATIVES = 3
"""A parameter that takes more kinds of things has a named alias for them."""

Called = Callable[..., Any]


def things() -> Iterator[tuple[str, Any]]:
    for name in lifebus.__all__:
        yield name, getattr(lifebus, name)
    for name in lifebus.blocking.__all__:
        yield f"blocking.{name}", getattr(lifebus.blocking, name)
    for module, name in HELD_BY_A_BUS.items():
        yield name, getattr(importlib.import_module(module), name)


def called() -> Iterator[tuple[str, Called, str]]:
    """Yield what users call: its name, the function, and what its class says."""
    for name, thing in things():
        if inspect.isfunction(thing):
            yield name, thing, ""
        if not inspect.isclass(thing):
            continue
        for attribute in dir(thing):
            member = inspect.getattr_static(thing, attribute)
            function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
            if not attribute.startswith("_") and inspect.isfunction(function):
                yield f"{name}.{attribute}", function, inspect.getdoc(thing) or ""


CALLED = {name: (function, of_class) for name, function, of_class in called()}


@pytest.mark.parametrize("check", ["faults", "unexplained", "wide", "inner"])
def test_every_signature_can_be_read(check: str) -> None:
    checks = {"faults": faults, "unexplained": unexplained, "wide": wide, "inner": inner}
    found = {name: checks[check](*of) for name, of in CALLED.items()}
    assert {name: what for name, what in found.items() if what} == {}
    assert len(found) > 150


def faults(function: Called, _: str) -> list[str]:
    """Return parameters without a type, and those that pass on whatever they are given."""
    parameters = list(inspect.signature(function).parameters.values())
    found = [one.name for one in parameters if one.annotation is one.empty and one.name not in {"self", "cls"}]
    if inspect.signature(function).return_annotation is inspect.Signature.empty:
        found.append("return")
    passed = [one for one in parameters if one.kind is one.VAR_KEYWORD and get_origin(one.annotation) is not Unpack]
    untyped = [one for one in parameters if one.kind is one.VAR_POSITIONAL and one.annotation in {Any, object}]
    return [*found, *(one.name for one in (*passed, *untyped))]


def unexplained(function: Called, of_class: str) -> list[str]:
    """Return the parameters that neither their function nor its class says anything of; an id's name says it."""
    said = f"{of_class}\n{inspect.getdoc(function)}"
    if SAID_ELSEWHERE.search(said):
        return []
    names = [name for name in inspect.signature(function).parameters if name not in {"self", "cls"}]
    # By its own name, or as what it is: "a job" for `job`, "the question" for `question_id`.
    shown = {name: f"{name}|{name.removesuffix('_id')}" for name in names}
    return [name for name in names if not re.search(rf"\b({shown[name]})s?\b", said, re.IGNORECASE)]


def wide(function: Called, _: str) -> list[str]:
    """Return the parameters that list more than a few kinds of things; an overload's list is what is shown."""
    (definition,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(definition, ast.FunctionDef | ast.AsyncFunctionDef)
    if get_overloads(function):
        return []
    arguments = [*definition.args.posonlyargs, *definition.args.args, *definition.args.kwonlyargs]
    return [one.arg for one in arguments if one.annotation and _alternatives(one.annotation) > MOST_ALTERNATIVES]


def _alternatives(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return _alternatives(ast.parse(node.value, mode="eval").body)
    if isinstance(node, ast.BinOp):
        return _alternatives(node.left) + _alternatives(node.right)
    return 0 if isinstance(node, ast.Constant) and node.value is None else 1


def inner(function: Called, of_class: str) -> list[str]:
    """Return the names of inner packages that a docstring sends its reader to."""
    return INNER.findall(f"{of_class}\n{inspect.getdoc(function)}")


def test_the_checks_bite() -> None:
    def bad(one, two: str | bytes | float | list[int], *three: object, **four: Any) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
        """Do it as `lifebus_contract.codes` says, with two."""

    assert faults(bad, "") == ["one", "four", "three"]
    assert unexplained(bad, "") == ["one", "three", "four"]
    assert wide(bad, "") == ["two"]
    assert inner(bad, "") == ["lifebus_contract"]


def test_the_listed_keywords_are_the_fields_that_have_no_parameter() -> None:
    parameters = {"event", "adapter_id", "adapter_version", "integration_mode", "harness_session_id", "frame_context"}
    fields = {one.name for one in msgspec.structs.fields(CallbackRequest)}
    assert set(RequestFields.__annotations__) == fields - parameters
    parameters = {"client_id", "body", "payload_kind", "acceptable_placements"}
    fields = {one.name for one in msgspec.structs.fields(PayloadEnvelope)}
    assert set(PayloadFields.__annotations__) == fields - parameters - {"body_ref"}  # a payload with a body has none
