"""From a method of the app-server to the name of its signal (docs/app-server.md, "Signals")."""

import re
from functools import lru_cache
from typing import Final

_UNKNOWN: Final = "unknown"
_ODD: Final = re.compile(r"[^A-Za-z0-9]+")
_ACRONYM: Final = re.compile(r"([A-Z]+)([A-Z][a-z])")
_HUMP: Final = re.compile(r"([a-z0-9])([A-Z])")
_RUN: Final = re.compile(r"_+")


@lru_cache(maxsize=1_024)
def event_type(method: str, *, request: bool) -> str:
    """Return the name of a signal: ``app_server.turn.started``, with ``request.`` in it for what the server asks."""
    return f"app_server.{'request.' if request else ''}{normalize(method)}"


def normalize(method: str) -> str:
    """Return a method with dots for slashes and each segment in snake case.

    An empty segment is ``unknown``; one without a letter or digit is left out.
    """
    words = [_snake(segment) for segment in method.split("/")]
    return ".".join(word for word in words if word) or _UNKNOWN


def _snake(segment: str) -> str:
    text = segment.strip()
    if not text:
        return _UNKNOWN
    # Acronyms first: `HTTPServer` is `http_server` and not `h_t_t_p_server`.
    spaced = _HUMP.sub(r"\1_\2", _ACRONYM.sub(r"\1_\2", _ODD.sub("_", text)))
    return _RUN.sub("_", spaced).strip("_").lower()
