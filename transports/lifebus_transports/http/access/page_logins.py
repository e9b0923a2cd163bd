"""Logins of pages: a code that works once, a session in a cookie, and the key that the page shows beside it.

Whoever can read the gateway's token can make a code; the gateway itself needs no list of them.  A cookie belongs to a
host and not to its port, so that other programs of this machine get it too: alone it opens nothing.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable
from enum import StrEnum
from typing import Final

from msgspec import Struct

CODE_MS: Final = 600_000
"""How long a code works, once."""

SESSION_MS: Final = 14 * 86_400_000
"""How long a session of a page lasts."""

KEY_HEADER: Final = "x-lifebus-page"
"""The header with the key of a page; a page of another origin cannot send it."""

_MAX_USED: Final = 4_096


class PageScope(StrEnum):
    """What a page may do."""

    READ = "read"
    """Read, and open streams."""
    WRITE = "write"
    """Answer, cancel and the like as well."""


class PageSession(Struct, frozen=True):
    """A session of a page: its cookie, the key that belongs to it, and what it may do."""

    cookie: str
    key: str
    scope: PageScope


class PageLogins:
    """Takes codes, each once, and reads cookies; `clock` is in milliseconds since 1970.

    Sessions are signed, not kept: they outlive a restart of the broker, and end with the token that signed them.
    """

    def __init__(self, token: str, clock: Callable[[], int], entropy: Callable[[int], bytes]) -> None:
        self._token = token
        self._clock = clock
        self._entropy = entropy
        # Codes of an earlier broker may have been used there.
        self._since = clock()
        self._used: dict[str, int] = {}
        self.cookie_name = f"lifebus_{_sign(token, 'name', '')[:8]}"

    def login(self, code: str) -> PageSession | None:
        """Return a session for a code, None where the code is wrong, too old, or was used before."""
        now = self._clock()
        found = _read(self._token, "code", code)
        if found is None or not max(self._since, now - CODE_MS) <= found[1] <= now:
            return None
        self._used = {one: made for one, made in self._used.items() if made > now - CODE_MS}
        if code in self._used or len(self._used) >= _MAX_USED:
            return None
        self._used[code] = found[1]
        cookie = _write(self._token, "session", found[0], now, self._entropy)
        return PageSession(cookie, self._key_of(cookie), found[0])

    def scope_of(self, cookie: str, key: str) -> PageScope | None:
        """Return what the page with a cookie and a key may do, None where one of them is wrong."""
        found = _read(self._token, "session", cookie)
        now = self._clock()
        if found is None or not found[1] <= now < found[1] + SESSION_MS:
            return None
        return found[0] if hmac.compare_digest(_plain(self._key_of(cookie)), _plain(key)) else None

    def _key_of(self, cookie: str) -> str:
        return _sign(self._token, "key", cookie)


def make_code(token: str, scope: PageScope, now_ms: int, entropy: Callable[[int], bytes]) -> str:
    """Return a code for one login at the gateway that has this token."""
    return _write(token, "code", scope, now_ms, entropy)


def link_of(url: str, code: str) -> str:
    """Return the link that logs a page in; the code stands where browsers send it to nobody."""
    return f"{url}/#login={code}"


def _write(token: str, purpose: str, scope: PageScope, now_ms: int, entropy: Callable[[int], bytes]) -> str:
    text = f"{scope.value}.{now_ms}.{_text(entropy(16))}"
    return f"{text}.{_sign(token, purpose, text)}"


def _read(token: str, purpose: str, given: str) -> tuple[PageScope, int] | None:
    """Return the scope and the time of what was signed, None where it was not signed with this token."""
    text, _, signature = given.rpartition(".")
    if not hmac.compare_digest(_plain(_sign(token, purpose, text)), _plain(signature)):
        return None
    scope, made_ms, *_ = text.split(".")
    return PageScope(scope), int(made_ms)


def _sign(token: str, purpose: str, text: str) -> str:
    return _text(hmac.digest(token.encode(), f"lifebus page {purpose}\0{text}".encode(), hashlib.sha256))


def _plain(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()
