"""What harnesses refuse about one hook handler, as far as all that have command hooks agree."""

from collections.abc import Mapping
from typing import Any


def wrong_type(handler: Mapping[str, Any], known: Mapping[str, str]) -> str | None:
    """Return a fault unless the handler is of a known type and has that type's text; `known` maps one to the other."""
    kind = handler.get("type")
    if not isinstance(kind, str) or kind not in known:
        return f"type: must be one of {', '.join(known)}"
    return missing_text(handler, known[kind])


def missing_text(handler: Mapping[str, Any], key: str) -> str | None:
    """Return a fault unless there is text under a key."""
    value = handler.get(key)
    return None if isinstance(value, str) and value else f"{key}: must be text"


def bad_timeout(handler: Mapping[str, Any], *, most: float | None = None) -> str | None:
    """Return a fault if there is a timeout that is not a positive number, or over `most`."""
    value = handler.get("timeout")
    if value is None:
        return None
    # A bool is an int to isinstance.
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        return "timeout: must be a positive number"
    return f"timeout: at most {most:g}" if most is not None and value > most else None
