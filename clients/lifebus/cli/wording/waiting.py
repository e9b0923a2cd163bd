"""Who waits for a person, in words."""

import time

from lifebus.cli.terminal import clean, time_text
from lifebus.cli.wording.durations import duration_text

TYPE_CHECKING = False  # `lifebus status` prints them before `typing` would be loaded
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any


def waiting_text(waits: "Sequence[Mapping[str, Any]]") -> str:
    """Return for what a session waits, and for how long: ``permission (Bash) 3m``; of several the oldest, and how many.

    `waits` are the plain values of `Wait`.  An empty text says that it waits for nobody.
    """
    if not waits:
        return ""
    first = waits[0]
    kind = f" ({clean(first['kind'])})" if first.get("kind") else ""
    more = f", and {len(waits) - 1} more" if len(waits) > 1 else ""
    # A clock may be set back: then it has waited for no time.
    age = duration_text(max(0, int(time.time()) - first["since_ms"] // 1000))
    return f"{clean(first['waiting_for'])}{kind} {age}{more}"


def since_text(wait: "Mapping[str, Any]") -> str:
    """Return since when a session waits, in local time."""
    return time_text(wait["since_ms"])
