"""When two requests for an action are the same: by type, scope and payload, whatever the order of keys.  Pure."""

import json
import math
from hashlib import sha256
from typing import Any, Final, cast

from lifebus_contract.extensions import ActionScope

MAX_KEY: Final = 300
"""Most characters of an idempotency key."""

_DEEPEST: Final = 64
_EXACT: Final = 2.0**53


def canonical_json(value: Any) -> str:
    """Return a JSON value as text that is the same for equal values: keys sorted, nothing between them.

    A whole number is written without a fraction, however it came.

    Raises:
        ValueError: it is no JSON, or nested too deeply.
    """
    text = json.dumps(_plain(value, 0), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text.encode()  # a lone surrogate is no text, and raises UnicodeEncodeError, which is a ValueError
    return text


def signature_of(action_type: str, scope: ActionScope, canonical: str) -> str:
    """Return what makes a request the one that it is: its type, its scope and its payload as canonical JSON."""
    parts = (action_type, scope.project_id, scope.source_session_id, scope.turn_id)
    # Escaped, so that a colon within an id does not look like the one behind it.
    return ":".join([*(_escaped(part or "") for part in parts), canonical])


def signature_digest(signature: str) -> str:
    """Return the digest of a signature as hex digits."""
    return sha256(signature.encode()).hexdigest()


def fallback_key(scope: ActionScope, job_kind: str, digest: str) -> str:
    """Return the idempotency key of an intent whose worker gave none; `digest` is the one of its signature."""
    ids = (scope.project_id or "", scope.source_session_id or "", scope.turn_id or "", job_kind)
    key = ":".join(["agent-intent", *ids, digest])
    # Long ids leave no room; the digest of it all tells as much apart.
    return key if len(key) <= MAX_KEY else f"agent-intent:{sha256(key.encode()).hexdigest()}"


def _escaped(part: str) -> str:
    return part.replace("\\", "\\\\").replace(":", "\\:")


def _plain(value: Any, depth: int) -> Any:
    if depth > _DEEPEST:
        raise ValueError(f"it is nested more than {_DEEPEST} deep")
    if isinstance(value, dict):
        items = cast("dict[object, Any]", value).items()
        if not all(isinstance(key, str) for key, _ in items):
            raise ValueError("a key is no text")
        return {key: _plain(one, depth + 1) for key, one in items}
    if isinstance(value, list | tuple):
        return [_plain(one, depth + 1) for one in cast("list[Any]", value)]
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("a number is infinite or none")
        return int(value) if value.is_integer() and abs(value) <= _EXACT else value
    if value is None or isinstance(value, str | int):  # a truth value is an int
        return value
    raise ValueError(f"a {type(value).__name__} is no JSON")
