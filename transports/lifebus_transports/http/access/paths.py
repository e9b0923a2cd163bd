"""The path of a request as routes are found by: part for part, so that an id may hold any character.  Pure."""

import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

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
