"""The path of a request as routes are found by: part for part, so that an id may hold any character.  Pure."""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

PAGE: Final = "/"
"""The address of the dashboard; where in it somebody is stands behind a `#`, which no server gets."""

FILE: Final = "/dashboard/{name:path}"
"""The address of its modules, its style and its picture."""

_STRAY_PERCENT: Final = re.compile(rb"%(?![0-9A-Fa-f]{2})")


def canonical_path(raw: bytes) -> str | None:
    """Return a path with its parts encoded in one way: what is encoded in a part stays in that part.

    None where a percent sign leads no two digits, or a part is no UTF-8: two ids would be read as the same.
    """
    if _STRAY_PERCENT.search(raw):
        return None
    try:
        # A server that decodes first takes an id with a slash for two parts, and one with a line break for none.
        return "/".join(quote(unquote_to_bytes(part).decode(), safe="") for part in raw.split(b"/"))
    except UnicodeDecodeError:
        return None


def is_page(path: str) -> bool:
    """Whether an address is one of the dashboard's files, which are the same for everybody."""
    return path == PAGE or path.startswith("/dashboard/")
