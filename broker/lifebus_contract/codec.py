"""Bytes to contract types and back, with the first fault named by field and rule.

JSON and MessagePack come from the same structs.  JSON is read strictly: no duplicate keys, no NaN, no lone
surrogates, bounded size and depth (docs/contract.md 1.3).  MessagePack readers that need the same strictness
use `lifebus_transports.framing.frames`.
"""

import inspect
import json
import math
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final, TypeGuard, TypeVar, cast

import msgspec

from lifebus_contract.capability import CapabilityRequest, Degradation, Negotiation
from lifebus_contract.envelope import CallbackRequest, CallbackResponse, DispatchEnvelope, Emission, PayloadEnvelope
from lifebus_contract.errors import InvalidRequest
from lifebus_contract.fields import MAX_DEPTH, MAX_INTEGER, MAX_MESSAGE_BYTES, Document
from lifebus_contract.manifest import AdapterManifest
from lifebus_contract.receipt import PressureObservation, Receipt
from lifebus_contract.vocabulary import CONTRACT_VERSION, LifecycleEvent, ManifestPlacementClass

T = TypeVar("T")

MAX_ITEMS: Final = 4096
"""Most containers and entries in a free-form part of a message (docs/contract.md 1.3)."""

KINDS: Final[dict[str, type[Document]]] = {
    "request": CallbackRequest,
    "response": CallbackResponse,
    "payload": PayloadEnvelope,
    "receipt": Receipt,
    "manifest": AdapterManifest,
    "dispatch": DispatchEnvelope,
    "pressure": PressureObservation,
    "degradation": Degradation,
    "capability": CapabilityRequest,
    "negotiation": Negotiation,
    "emission": Emission,
}
"""Documents by the name that `lifebus contract validate` and `lifebus contract schema` use."""

_JSON: Final = msgspec.json.Encoder(order="deterministic")
_MSGPACK: Final = msgspec.msgpack.Encoder(order="deterministic")
_RECEIPT: Final = msgspec.json.Decoder(Receipt)
_AT: Final = re.compile(r"^(?P<rule>.*?) - at (?:`key` in )?`(?P<path>[^`]*)`$", re.DOTALL)
_BETWEEN_FIELDS: Final = re.compile(r"(?P<name>[a-z_]+): ")
_UNKNOWN: Final = re.compile(r"unknown field `(?P<name>[^`]*)`")


def encode_json(document: Document) -> bytes:
    """Return the document as JSON; for a `Receipt` this is its canonical form (docs/contract.md 1.4)."""
    return _JSON.encode(document)


def encode_msgpack(document: object) -> bytes:
    """Return the document as MessagePack, maps in key order."""
    return _MSGPACK.encode(document)


def decode_json(data: bytes | str, kind: type[T]) -> T:
    """Return the validated document that `data` holds.

    Raises:
        InvalidRequest: too large, not strict JSON, or against the contract; `field` and the text name what and why.
    """
    return validate(load_json(data), kind)


def decode_receipt(data: bytes) -> Receipt:
    """Return a receipt from the canonical bytes that a ledger keeps; ten times faster than `decode_json`.

    The bytes are a broker's own, so duplicate keys and odd numbers cannot be in them.

    Raises:
        InvalidRequest: the bytes are not a receipt.
    """
    try:
        return _RECEIPT.decode(data)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise _explain(fault) from None


def load_json(data: bytes | str, *, max_bytes: int = MAX_MESSAGE_BYTES, max_items: int = MAX_ITEMS) -> Any:
    """Return strictly read plain JSON data.

    Raises:
        InvalidRequest: too large, malformed, duplicate keys, NaN or infinity, lone surrogates, too deep, or
            integers outside ±2^53.
    """
    # `surrogatepass`: a lone surrogate is refused below, by its own rule, and not as a failure to encode.
    raw = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    if len(raw) > max_bytes:
        raise InvalidRequest(f"document of {len(raw)} bytes; the limit is {max_bytes}", code="too_large", field="$")
    try:
        # The standard library's reader, not msgspec's: only this one lets a key that comes twice be refused.
        value = _STRICT.decode(raw.decode("utf-8"))
    except RecursionError:
        raise InvalidRequest(f"nested deeper than {MAX_DEPTH} levels", code="too_deep", field="$") from None
    except InvalidRequest:
        raise
    except UnicodeDecodeError as fault:
        detail = f"not valid JSON: byte {fault.start} is not UTF-8"
        raise InvalidRequest(detail, code="malformed", field="$") from None
    except ValueError as fault:  # JSONDecodeError and over-long integers
        raise InvalidRequest(f"not valid JSON: {_short(fault)}", code="malformed", field="$") from None
    check_plain(value, max_items=max_items)
    return value


def decode_msgpack(data: bytes, kind: type[T]) -> T:
    """Return the validated document that the MessagePack `data` holds.

    Raises:
        InvalidRequest: malformed or against the contract.
    """
    try:
        return cast("T", _decoder(cast("Any", kind)).decode(data))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise _explain(fault) from None


def validate(value: Any, kind: type[T]) -> T:
    """Return plain data, or an already built document, as a validated document.

    Raises:
        InvalidRequest: the data is against the contract.
    """
    # A struct that was built in Python was never checked: msgspec checks types and lengths on decoding only.
    plain = msgspec.to_builtins(value) if isinstance(value, msgspec.Struct) else value
    try:
        return msgspec.convert(plain, kind)
    except (msgspec.ValidationError, RecursionError) as fault:
        raise _explain(fault) from None


def check_plain(value: Any, *, max_items: int = MAX_ITEMS) -> None:
    """Refuse plain data that another reader might not understand in the same way.

    Raises:
        InvalidRequest: deeper than 32 levels, more than `max_items` entries, integers outside ±2^53, NaN or
            infinity, lone surrogates, keys that are not text, values that JSON does not have.
    """
    if _is_plain(value, max_items):
        return
    budget = max_items
    # A list of what is left to do and no recursion: the depth is the sender's choice.
    pending: list[tuple[Any, int, str]] = [(value, 1, "$")]
    while pending:
        item, depth, path = pending.pop()
        if depth > MAX_DEPTH:
            raise InvalidRequest(f"nested deeper than {MAX_DEPTH} levels", code="too_deep", field=path)
        if not _is_map(item) and not _is_list(item):
            _check_scalar(item, path)
            continue
        budget -= len(item) + 1  # the container counts as well, so that empty ones are not free
        if budget < 0:
            raise InvalidRequest(f"more than {max_items} entries", code="too_large", field=path)
        if _is_map(item):
            for key in item:
                _check_key(key, path)
            children = [(child, depth + 1, f"{path}.{key}") for key, child in item.items()]
        else:
            children = [(child, depth + 1, f"{path}[{index}]") for index, child in enumerate(item)]
        pending.extend(children)


def _is_plain(value: Any, max_items: int) -> bool:
    """Whether the data is plain, found without building paths; `check_plain` finds what is wrong and where."""
    level: list[Any] = [value]
    texts: list[str] = []
    budget = max_items
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            kind = type(item)  # pyright: ignore[reportUnknownVariableType]  quicker than `isinstance`, which it precedes
            if kind is str:
                texts.append(item)
            elif kind is dict or kind is list:
                budget -= len(item) + 1
                below.extend(item if kind is list else item.values())
                texts.extend(item if kind is dict else ())
            elif not _is_plain_scalar(item):
                return False
        if budget < 0:
            return False
        if not below:
            return _are_plain_texts(texts)
        level = below
    return False


def _is_plain_scalar(item: Any) -> bool:
    if isinstance(item, int):
        return -MAX_INTEGER <= item <= MAX_INTEGER
    return item is None or (isinstance(item, float) and math.isfinite(item))


def _are_plain_texts(texts: list[str]) -> bool:
    try:
        "".join(texts).encode()  # one call for all texts, instead of one for each
    except (TypeError, UnicodeEncodeError):  # a key that is no text, a lone surrogate
        return False
    return True


@cache
def schema_for(kind: str) -> dict[str, Any]:
    """Return the JSON Schema (2020-12) of one of `KINDS`; rules between fields are beyond it and stand in `validate`.

    Raises:
        InvalidRequest: there is no such kind.
    """
    if kind not in KINDS:
        raise InvalidRequest(f"no such kind: `{kind[:64]}`; known are {', '.join(KINDS)}", code="unknown_kind")
    schema = msgspec.json.schema(KINDS[kind])
    for definition in schema["$defs"].values():
        if "description" in definition:
            # The descriptions are our docstrings, without their indentation.
            definition["description"] = inspect.cleandoc(definition["description"])
    _name_the_keys(schema["$defs"])
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": f"urn:lifebus:{CONTRACT_VERSION}:{kind}",
        **schema,
    }


def _name_the_keys(definitions: dict[str, Any]) -> None:
    """Say in a manifest's schema which keys its two maps may have: msgspec leaves out the type of a map's keys."""
    manifest = definitions.get("AdapterManifest")
    if manifest is None:
        return
    for field, names in (("lifecycle_events", LifecycleEvent), ("placement", ManifestPlacementClass)):
        manifest["properties"][field]["propertyNames"] = {"enum": [name.value for name in names]}


@cache
def _decoder(kind: Any) -> "msgspec.msgpack.Decoder[Any]":
    return msgspec.msgpack.Decoder(kind)


def _is_map(value: Any) -> TypeGuard[dict[Any, Any]]:
    return isinstance(value, dict)


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, list | tuple)


def _check_key(key: Any, path: str) -> None:
    if not isinstance(key, str):
        raise InvalidRequest("the keys of a map must be text", code="not_json", field=path)
    _check_scalar(key, path)


def _check_scalar(value: Any, path: str) -> None:
    if isinstance(value, str):
        if not value.isascii() and not _is_scalar_text(value):
            raise InvalidRequest("text with a lone surrogate", code="lone_surrogate", field=path)
    elif isinstance(value, float):
        if not math.isfinite(value):
            raise InvalidRequest("numbers must be finite", code="not_finite", field=path)
    elif isinstance(value, int):  # `bool` is one, and always in range
        if not -MAX_INTEGER <= value <= MAX_INTEGER:
            raise InvalidRequest("integers must lie within ±2^53", code="integer_range", field=path)
    elif value is not None:  # MessagePack also has bytes, times and extensions
        raise InvalidRequest("a value that JSON does not have", code="not_json", field=path)


def _is_scalar_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, refusing a key that comes twice."""
    built = dict(pairs)
    if len(built) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise InvalidRequest(f"duplicate key `{key[:64]}`", code="duplicate_key", field=f"$.{key[:64]}")
            seen.add(key)
    return built


def _refuse_constant(name: str) -> None:
    raise InvalidRequest(f"`{name}` is not JSON", code="not_finite", field="$")


_STRICT: Final = json.JSONDecoder(object_pairs_hook=_unique, parse_constant=_refuse_constant)
"""Made once: to make one takes as long as to read a small document."""


def _explain(fault: Exception) -> InvalidRequest:
    """Return a decoder's exception as a refusal that names the field and the rule."""
    if isinstance(fault, RecursionError):
        return InvalidRequest(f"nested deeper than {MAX_DEPTH} levels", code="too_deep", field="$")
    # msgspec says it in words only: "<rule> - at `$.path`".
    text = _short(fault)
    found = _AT.match(text)
    rule, path = (found["rule"], found["path"]) if found else (text, "$")
    unknown = _UNKNOWN.search(rule)
    if unknown:
        path = f"{path}.{unknown['name']}"
        return InvalidRequest(f"unknown key `{path}`: {rule}", code="unknown_key", field=path)
    own = _BETWEEN_FIELDS.match(rule)
    if own:  # a rule of the document's own, which starts with the field
        path = f"{path}.{own['name']}"
        return InvalidRequest(f"{path}: {rule[own.end() :]}", code="against_contract", field=path)
    if path.endswith(("schema_version", "contract_version")):
        rule = f"schema_version mismatch: expected `{CONTRACT_VERSION}` ({rule})"
        return InvalidRequest(f"{path}: {rule}", code="schema_version_mismatch", field=path)
    code = "malformed" if not isinstance(fault, msgspec.ValidationError) else "against_contract"
    return InvalidRequest(f"{path}: {rule}", code=code, field=path)


def _short(fault: Exception) -> str:
    """Return the fault's text, bounded and free of control characters."""
    text = str(fault)[:300]
    return text if text.isprintable() else text.encode("unicode_escape").decode("ascii")
