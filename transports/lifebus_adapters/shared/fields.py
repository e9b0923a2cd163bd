"""Typed reads from a plain hook payload: dotted paths in, checked values out, refusals that name the field."""

from collections.abc import Mapping
from typing import Any, Final, cast

from lifebus_contract import InvalidRequest
from lifebus_contract.fields import MAX_INTEGER

Payload = Mapping[str, Any]
"""A hook payload as plain JSON data; it is always an object."""

FACT_CHARACTERS: Final = 128
"""Longest text taken over as a fact: enough for a word such as a reason, too little for a prompt."""

_IDENTIFIER_CHARACTERS: Final = 256


def find(payload: Payload, path: str) -> Any:
    """Return the value at a dotted path, None where it is absent or null.

    Raises:
        InvalidRequest: something on the way is not an object.
    """
    node: Any = payload
    walked: list[str] = []
    for key in path.split("."):
        if node is None:
            return None
        if not isinstance(node, dict):
            raise _wrong_type(".".join(walked), "an object")
        node = cast("Payload", node).get(key)
        walked.append(key)
    return node


def identifier(payload: Payload, *paths: str) -> str | None:
    """Return the first identifier found at `paths`; harnesses leave one empty where there is none.

    Raises:
        InvalidRequest: it is not text, longer than 256 characters, or not printable.
    """
    for path in paths:
        value = find(payload, path)
        if value is None or value == "":
            continue
        if not isinstance(value, str):
            raise _wrong_type(path, "text")
        if len(value) > _IDENTIFIER_CHARACTERS or not value.isprintable():
            raise InvalidRequest(
                f"`{path}` must be printable and at most {_IDENTIFIER_CHARACTERS} characters long",
                code="bad_identifier",
                field=f"$.{path}",
            )
        return value
    return None


def scalar(payload: Payload, path: str, kind: type) -> str | int | bool | None:
    """Return the small fact at `path`, text cut to `FACT_CHARACTERS`, None where it is absent.

    Raises:
        InvalidRequest: it is not of the kind the harness documents.
    """
    value = find(payload, path)
    if value is None:
        return None
    if type(value) is not kind:  # a bool is an int to isinstance
        raise _wrong_type(path, _KIND_NAMES[kind])
    # Cut and not refused: a long reason must not cost the whole hook call.
    return value[:FACT_CHARACTERS] if isinstance(value, str) else cast("int | bool", value)


def count(payload: Payload, path: str) -> int | None:
    """Return the number of things at `path`, such as tokens; None where it is absent.

    Raises:
        InvalidRequest: it is not an integer from 0 to 2^53.
    """
    value = find(payload, path)
    if value is None:
        return None
    # A bool is an int to isinstance.
    if type(value) is not int or not 0 <= value <= MAX_INTEGER:
        raise _wrong_type(path, "a count")
    return value


_KIND_NAMES: Final[dict[type, str]] = {str: "text", int: "an integer", bool: "true or false"}


def _wrong_type(path: str, wanted: str) -> InvalidRequest:
    return InvalidRequest(f"`{path}` must be {wanted}", code="wrong_type", field=f"$.{path}")
