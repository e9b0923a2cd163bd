"""The routes by which a page logs in and out (docs/dashboard.md)."""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from lifebus_transports.http.access.page_logins import SESSION_MS, PageLogins, PageScope
from lifebus_transports.http.operations.errors import ErrorBody, refuse
from lifebus_transports.http.operations.operation import (
    OK,
    Gate,
    NoFields,
    Operation,
    PageNeeds,
    RouteReply,
    RouteRequest,
    Served,
)


class LoginBody(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The code of a login link."""

    code: Annotated[str, Meta(min_length=1, max_length=256)]


class LoggedIn(Struct, frozen=True, kw_only=True, rename="camel"):
    """The page is logged in: a cookie came with this answer, and `key` is sent beside it as `X-Lifebus-Page`."""

    status: Literal["ok"] = OK
    key: str
    scope: PageScope


class LoggedOut(Struct, frozen=True, kw_only=True):
    """The browser has no cookie of this gateway any more."""

    status: Literal["ok"] = OK


OPERATIONS = (
    Operation(
        name="login",
        method="POST",
        path="/api/login",
        summary="Logs a page in with the code of a link, which works once.",
        tag="pages",
        body=LoginBody,
        answers={200: LoggedIn, 401: ErrorBody},
        gate=Gate.OPEN,
    ),
    Operation(
        name="logout",
        method="POST",
        path="/api/logout",
        summary="Takes the cookie of a page away.",
        tag="pages",
        body=NoFields,
        answers={200: LoggedOut},
        page=PageNeeds.READ,
    ),
)


class LoginRoutes:
    """Serves them; over TLS the cookie is sent over TLS alone."""

    def __init__(self, logins: PageLogins, *, is_secure: bool) -> None:
        self._logins = logins
        self._flags = "; HttpOnly; SameSite=Strict; Path=/api" + ("; Secure" if is_secure else "")

    def served(self) -> Served:
        """Return what serves each operation."""
        return {"login": self._login, "logout": self._logout}

    async def _login(self, asked: RouteRequest) -> RouteReply:
        body: LoginBody = asked.body
        session = self._logins.login(body.code)
        if session is None:
            return refuse(401, "unauthorized", "the link was used before or is too old; `lifebus dashboard` makes one")
        cookie = self._cookie(session.cookie, SESSION_MS // 1_000)
        return RouteReply(200, LoggedIn(key=session.key, scope=session.scope), cookie)

    async def _logout(self, _: RouteRequest) -> RouteReply:
        return RouteReply(200, LoggedOut(), self._cookie("", 0))

    def _cookie(self, value: str, age_s: int) -> tuple[tuple[str, str], ...]:
        return (("set-cookie", f"{self._logins.cookie_name}={value}; Max-Age={age_s}{self._flags}"),)
