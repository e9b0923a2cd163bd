"""The gate: every request passes it before anything of its body is read."""

import time
from collections.abc import Awaitable, Callable
from typing import Final
from urllib.parse import parse_qs

import structlog
from msgspec import Struct
from starlette.routing import compile_path
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lifebus_transports.http.access.checks import (
    HOST_REFUSED,
    AccessRefusal,
    Allowed,
    Headers,
    bearer_of,
    check_page_request,
    check_request,
    cookie_of,
)
from lifebus_transports.http.access.failures import Failures
from lifebus_transports.http.access.page_logins import KEY_HEADER, PageLogins, PageScope
from lifebus_transports.http.access.paths import canonical_path, is_page
from lifebus_transports.http.access.rbac import Rbac, RoleActor, decide
from lifebus_transports.http.access.tickets import Tickets
from lifebus_transports.http.access.tokens import is_same
from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.http.operations.errors import refuse_access
from lifebus_transports.http.operations.operation import Gate, Operation
from lifebus_transports.http.requests import MAX_BODY, headers_of, respond

_log = structlog.get_logger("lifebus.gateway")
_HEADERS: Final = (
    (b"cache-control", b"no-store"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
_POLICY: Final = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")
_PAGE_RULES: Final = (
    b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    b"form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_PAGE_POLICY: Final = (b"content-security-policy", _PAGE_RULES)
_MAX_HEADERS: Final = 16_384
_NO_PATH: Final = "?"
_WRITES: Final = frozenset({"POST", "PUT", "PATCH", "DELETE"})
_READS: Final = frozenset({"GET", "HEAD"})


class Identity(Struct, frozen=True, kw_only=True):
    """What the gate compares with; `rbac` is asked at each request for a role, because secrets may be changed."""

    token: str
    allowed: Allowed
    is_loopback: bool
    rbac: Callable[[], Rbac]
    tickets: Tickets
    logins: PageLogins


WriteDenial = Callable[[AccessRefusal, Scope], Awaitable[None]]
"""Writes down that somebody was denied what asks for a role."""


class GatewayGate:
    """Refuses what must not be served, and writes the access log: method, path and status, never a header or query."""

    def __init__(
        self,
        app: ASGIApp,
        identity: Identity,
        operations: tuple[Operation, ...],
        *,
        streams: frozenset[str],
        counters: GatewayCounters,
        denied: WriteDenial,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._app = app
        self._identity = identity
        self._tickets = identity.tickets
        self._streams = streams
        self._counters = counters
        self._clock = clock
        self._failures = Failures(clock)
        self._denied = denied
        # Strangers must not fill the ledger: of many denials in a row a few are written down, all are in the log.
        self._audited = Failures(clock)
        self._operations = [(compile_path(operation.path)[0], operation) for operation in operations]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or say why not."""
        if scope["type"] not in {"http", "websocket"}:
            return
        began = self._clock()
        self._counters.requests += 1
        path = canonical_path(scope["raw_path"])
        # Whatever finds a route looks at this: the gate, the routes, and the log.
        scope = {**scope, "path": path or _NO_PATH}
        status = 0

        async def noted(message: Message) -> None:
            nonlocal status
            if message["type"] in {"http.response.start", "websocket.http.response.start"}:
                status = message["status"]
                policy = _PAGE_POLICY if is_page(scope["path"]) else _POLICY
                message = {**message, "headers": [*message.get("headers", ()), *_HEADERS, policy]}
            elif message["type"] == "websocket.accept":
                status = 101
            await send(message)

        try:
            refusal = self._refusal(scope)
            if refusal is None:
                await self._app(scope, receive, noted)
            else:
                self._counters.refused += 1
                operation = self._operation(scope)
                is_for_roles = operation is not None and operation.gate is Gate.ROLE
                if is_for_roles and scope.get("method") in _WRITES and self._audited.fail() <= 0:
                    await self._denied(refusal, scope)
                await _refuse(refusal, scope, receive, noted)
        finally:
            _log.info(
                "gateway_request",
                method=scope.get("method", "WEBSOCKET"),
                path=scope["path"][:256],
                status=status,
                duration_ms=round((self._clock() - began) * 1000),
            )

    def _refusal(self, scope: Scope) -> AccessRefusal | None:
        """Return why a request is refused; who it is from goes into its scope."""
        headers = headers_of(scope)
        # The parser bounds headers that come in pieces; here, those that came in one.
        if sum(len(name) + len(value) for name, value in headers) > _MAX_HEADERS:
            return AccessRefusal(431, "headers_too_large", f"headers are limited to {_MAX_HEADERS} bytes")
        if is_page(scope["path"]) and scope.get("method") in _READS:
            return check_page_request(headers, self._identity.allowed)
        query = scope["query_string"].decode("latin-1")
        found = check_request(headers, query, self._identity.allowed, self._identity.token)
        if scope.get("method") == "OPTIONS" and (found is None or found.code != HOST_REFUSED):
            # A preflight asks whether another origin may: there is no way in which it may.
            return AccessRefusal(405, "method_not_allowed", "there is no such method here")
        if found is None:
            found = self._identify(scope, headers, query)
        if found is None and scope["path"] == _NO_PATH:
            found = AccessRefusal(400, "invalid_request", "the address is no percent-encoded UTF-8")
        return found or _check_body(scope, headers)

    def _identify(self, scope: Scope, headers: Headers, query: str) -> AccessRefusal | None:
        operation = self._operation(scope)
        if operation is not None and operation.gate is Gate.OPEN:
            return None
        if operation is not None and operation.gate is Gate.ROLE:
            rbac = self._identity.rbac()
            found = decide(rbac, headers, operation.roles, is_loopback=self._identity.is_loopback, now=time.time())
            if not isinstance(found, RoleActor):
                return self._slowed(found) if found.status == 401 else found  # noqa: PLR2004
            scope["lifebus.actor"] = found
            # In the other modes the secret or the signature was the proof.
            if rbac.mode != "disabled":
                return None
        return self._prove(scope, headers, query, operation)

    def _prove(self, scope: Scope, headers: Headers, query: str, operation: Operation | None) -> AccessRefusal | None:
        """Return why a request has neither the token, nor a ticket, nor the session of a page, None where it has."""
        token = bearer_of(headers)
        if token is not None and is_same(token, self._identity.token):
            return None
        if token is None and scope["path"] in self._streams and self._tickets.use(_ticket_of(query)):
            return None
        page = None if token is not None or operation is None else self._page_scope(headers)
        if page is not None and operation is not None:
            if page is PageScope.WRITE or operation.is_for_readers:
                return None
            return AccessRefusal(403, "read_only", "this page may only read; `lifebus dashboard --write` opens another")
        return self._slowed(AccessRefusal(401, "unauthorized", "the gateway's token is needed as a bearer"))

    def _page_scope(self, headers: Headers) -> PageScope | None:
        """Return what the page that sent a request may do, None where it is no page that is logged in."""
        logins = self._identity.logins
        cookie = cookie_of(headers, logins.cookie_name)
        key = next((value for name, value in headers if name == KEY_HEADER), None)
        return None if cookie is None or key is None else logins.scope_of(cookie, key)

    def _operation(self, scope: Scope) -> Operation | None:
        """Return the route that a request is for, None where it is for a stream or for nothing."""
        method = "GET" if scope.get("method") == "HEAD" else scope.get("method")
        for pattern, operation in self._operations:
            if operation.method == method and pattern.match(scope["path"]):
                return operation
        return None

    def _slowed(self, refusal: AccessRefusal) -> AccessRefusal:
        if self._failures.fail() > 0:
            return AccessRefusal(429, "too_many_failures", "too many requests without a valid token; wait")
        return refusal


def _check_body(scope: Scope, headers: Headers) -> AccessRefusal | None:
    """Return why a body is not read at all: a type that forms can send, an encoding, a length."""
    if scope.get("method") not in _WRITES:
        return None
    values = dict(headers)
    # A form of another page can send any simple type, and this one only after a preflight that we never answer.
    if values.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
        return AccessRefusal(415, "unsupported_media_type", "`Content-Type` is application/json")
    if values.get("content-encoding", "identity").strip().lower() != "identity":
        return AccessRefusal(415, "unsupported_encoding", "a body is not compressed")
    length = values.get("content-length", "")
    if length.isdecimal() and int(length) > MAX_BODY:
        return AccessRefusal(413, "too_large", f"a body is limited to {MAX_BODY} bytes")
    return None


def _ticket_of(query: str) -> str:
    return (parse_qs(query).get("ticket") or [""])[0]


async def _refuse(refusal: AccessRefusal, scope: Scope, receive: Receive, send: Send) -> None:
    response = respond(refuse_access(refusal))
    if refusal.status in {401, 429}:
        response.headers["WWW-Authenticate" if refusal.status == 401 else "Retry-After"] = (  # noqa: PLR2004
            "Bearer" if refusal.status == 401 else "1"  # noqa: PLR2004
        )
    if scope["type"] == "http":
        # Nothing of the body was read: the connection ends, so that what follows is not taken for a request.
        if scope["method"] in _WRITES:
            response.headers["Connection"] = "close"
        await response(scope, receive, send)
        return
    await send(
        {"type": "websocket.http.response.start", "status": response.status_code, "headers": response.raw_headers}
    )
    await send({"type": "websocket.http.response.body", "body": bytes(response.body)})
