"""Hypothesis strategies for every kind of document, read off the structs' own types."""

import re
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from lifebus_contract import CAPABILITIES, FRAME_EVENTS, KINDS

TEXT = st.characters(exclude_categories=["Cs"])
PRINTABLE = st.characters(exclude_categories=["C", "Z"])
MAX_INTEGER = 2**53 - 1
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-MAX_INTEGER, MAX_INTEGER) | st.text(TEXT, max_size=8),
    lambda children: st.lists(children, max_size=2) | st.dictionaries(st.text(TEXT, max_size=4), children, max_size=2),
    max_leaves=4,
)


def plain_documents(kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Return valid documents of a kind as plain data, in every shape the contract allows."""
    return strategy_of(inspect.type_info(KINDS[kind]))


def strategy_of(info: inspect.Type) -> st.SearchStrategy[Any]:  # noqa: PLR0911  one return a type
    match info:
        case inspect.StructType():
            return struct_strategy(info)
        case inspect.EnumType(cls=cls):
            return st.sampled_from([member.value for member in cls])
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.UnionType(types=types):
            return st.one_of([strategy_of(one) for one in types])
        case inspect.VarTupleType(item_type=item, min_length=least):
            return st.lists(strategy_of(item), min_size=least or 0, max_size=max(least or 0, 2))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(strategy_of(key), strategy_of(value), max_size=3)
        case inspect.Metadata(type=inner):
            return strategy_of(inner)
        case _:
            return scalar_strategy(info)


def scalar_strategy(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.StrType(pattern=str(pattern)):
            return st.from_regex(re.compile(pattern.replace("$", r"\Z"), re.ASCII)).filter(lambda text: len(text) < 65)
        case inspect.StrType(min_length=least):
            return st.text(PRINTABLE if least else TEXT, min_size=least or 0, max_size=12)
        case inspect.IntType(ge=least, le=most):
            return st.integers(-MAX_INTEGER if least is None else least, MAX_INTEGER if most is None else most)
        case inspect.BoolType():
            return st.booleans()
        case inspect.NoneType():
            return st.none()
        case inspect.AnyType():
            return PLAIN
        case _:
            raise NotImplementedError(info)


def struct_strategy(info: inspect.StructType) -> st.SearchStrategy[dict[str, Any]]:
    needed = {field.encode_name: strategy_of(field.type) for field in info.fields if field.required}
    rest = {field.encode_name: strategy_of(field.type) for field in info.fields if not field.required}
    built = st.fixed_dictionaries(needed, optional=rest)
    return built.map(MENDED.get(info.cls.__name__, lambda plain: plain))


def mend_emission(plain: dict[str, Any]) -> dict[str, Any]:
    changes = [one for one in plain.get("degradations", ()) if one["current_support"] != one["previous_support"]]
    if not changes:
        return plain | {"degradations": []}
    event = plain["request"] | {"event": "capability.degraded"}
    return plain | {"request": event, "degradations": changes, "payloads": [], "requirements": []}


def mend_frame(plain: dict[str, Any]) -> dict[str, Any]:
    parent = plain.get("parent_frame_id") or "parent"
    return plain | {"parent_frame_id": parent if plain["frame_class"] == "subcall" else None}


def mend_request(plain: dict[str, Any]) -> dict[str, Any]:
    if plain["event"] == "receipt.emitted":
        plain = plain | {"event": "session.started"}
    if plain["event"] in FRAME_EVENTS and not plain.get("frame_context"):
        plain = plain | {"frame_context": {"frame_id": "f", "frame_class": "top_level"}}
    return plain


def mend_payload(plain: dict[str, Any]) -> dict[str, Any]:
    if plain.get("body") is not None:
        return plain | {"body_ref": None}
    return plain | {"body_ref": plain.get("body_ref") or "store:1"}


def mend_response(plain: dict[str, Any]) -> dict[str, Any]:
    if plain["status"] == "failed":
        return plain | {"failure_class": plain.get("failure_class") or "timeout"}
    return plain | {"failure_class": None, "retry_class": None}


def mend_receipt(plain: dict[str, Any]) -> dict[str, Any]:
    event = "session.started" if plain["event"] == "receipt.emitted" else plain["event"]
    failure = plain["failure_class"] or ("timeout" if plain["status"] == "failed" else None)
    return plain | {"event": event, "failure_class": failure}


def mend_manifest(plain: dict[str, Any]) -> dict[str, Any]:
    modes = plain["integration_modes"]
    events = {name: claim | {"modes": modes} for name, claim in plain["lifecycle_events"].items()}
    watches_only = set(modes) == {"telemetry_only"}
    mended = plain | {"lifecycle_events": events} | ({"placement": {}} if watches_only else {})
    return mended | ({"renewal": None} if watches_only else {})


def mend_pressure(plain: dict[str, Any]) -> dict[str, Any]:
    percentage, tokens = plain.get("context_used_pct"), plain.get("context_used_tokens")
    if percentage is None and tokens is None:
        plain, tokens = plain | {"context_used_tokens": 7}, 7
    if plain.get("context_window_tokens"):
        return plain
    return plain | {"level": None} | ({} if tokens is None else {"context_used_pct": None})


def mend_capability(plain: dict[str, Any]) -> dict[str, Any]:
    names = sorted(CAPABILITIES)
    changed = {"capability": names[len(plain["capability"]) % len(names)]}
    return plain | changed | ({"support": "native"} if plain.get("support") == "unavailable" else {})


def mend_event_claim(plain: dict[str, Any]) -> dict[str, Any]:
    return plain | {"modes": plain.get("modes") or ["native_hook"]}


MENDED: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "Emission": mend_emission,
    "FrameContext": mend_frame,
    "CallbackRequest": mend_request,
    "PayloadEnvelope": mend_payload,
    "CallbackResponse": mend_response,
    "Receipt": mend_receipt,
    "AdapterManifest": mend_manifest,
    "PressureObservation": mend_pressure,
    "CapabilityRequest": mend_capability,
    "EventClaim": mend_event_claim,
}
"""The rules between fields, which the types alone do not say."""


def documents(kind: str) -> st.SearchStrategy[Any]:
    """Return valid documents of a kind as structs."""
    return plain_documents(kind).map(lambda plain: msgspec.convert(plain, KINDS[kind]))
