"""What every request has to say of itself before its body is read: host, origin, and how it carries its token.  Pure.

A page in the user's browser reaches loopback as every local process does.  What it cannot do is choose the headers
`Host`, `Origin` and `Sec-Fetch-Site`, or read the token's file (docs/gateway.md, "Who is let in").
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from msgspec import Struct

# Names under which programs put secrets into an address, where histories, proxies and logs keep them
_SECRET_NAMES: Final = frozenset(
    {"access_token", "api_key", "apikey", "auth", "authorization", "bearer", "jwt", "key", "password", "token"}
)
_FOREIGN_SITES: Final = frozenset({"cross-site", "same-site"})  # another port of localhost is the same site
HOST_REFUSED: Final = "host_refused"
"""`Host` names no address of this gateway."""

_SINGLE: Final = ("authorization", "host", "origin", "sec-fetch-site")

Headers = list[tuple[str, str]]
"""Lower-case names with their values, in the order of the request."""


class AccessRefusal(Struct, frozen=True):
    """Why a request is not served: HTTP status, code, and a sentence without anything the request said."""

    status: int
    code: str
    message: str


class Allowed(Struct, frozen=True):
    """The hosts and origins that a request may name, each as a whole, and the scheme of the gateway's own pages."""

    hosts: frozenset[str]
    origins: frozenset[str]
    scheme: str = "http"


def hosts_of(port: int, *, tls: bool, further: Iterable[str] = ()) -> frozenset[str]:
    """Return every value of `Host` that names this machine at a port."""
    names = ("127.0.0.1", "[::1]", "localhost")
    found = {f"{name}:{port}" for name in names}
    # Clients leave the port out where it is the usual one.
    if port == (443 if tls else 80):
        found |= set(names)
    return frozenset({name.lower() for name in (*found, *further)})


def check_request(headers: Headers, query: str, allowed: Allowed, token: str) -> AccessRefusal | None:
    """Return why a request is refused before anybody asks who sent it, None where it is not."""
    values = {name: [value for given, value in headers if given == name] for name in _SINGLE}
    # Two values of one header are read differently by different programs.
    if any(len(found) > 1 for found in values.values()):
        return AccessRefusal(400, "repeated_header", "a header that is compared came more than once")
    host, origin, site = (values[name][0] if values[name] else None for name in ("host", "origin", "sec-fetch-site"))
    # The name that a rebound page was loaded from stays in `Host`, whatever address it now resolves to.
    if host is None or host.lower() not in allowed.hosts:
        return AccessRefusal(403, HOST_REFUSED, "`Host` names no address of this gateway")
    if _has_secret(query, token):
        return AccessRefusal(400, "token_in_query", "a token in an address is kept by logs; send a header")
    # The host was checked: a page of this origin came from this gateway.
    trusted = origin in allowed.origins or origin == f"{allowed.scheme}://{host}"
    if site is not None and site.lower() in _FOREIGN_SITES and not trusted:
        return AccessRefusal(403, "site_refused", "a page of another site must not use this gateway")
    if origin is not None and not trusted:
        return AccessRefusal(403, "origin_refused", "this origin is not among the `origins` of the gateway")
    return None


def check_page_request(headers: Headers, allowed: Allowed) -> AccessRefusal | None:
    """Return why a file of the dashboard is not given out; links of other sites may lead to it, for it holds no data.

    What embeds it elsewhere is refused by the browser, because of its headers.
    """
    hosts = [value.lower() for name, value in headers if name == "host"]
    if len(hosts) != 1 or hosts[0] not in allowed.hosts:
        return AccessRefusal(403, HOST_REFUSED, "`Host` names no address of this gateway")
    return None


def cookie_of(headers: Headers, wanted: str) -> str | None:
    """Return the value of a cookie, None where there is none."""
    for name, value in headers:
        for pair in value.split(";") if name == "cookie" else ():
            key, _, found = pair.strip().partition("=")
            if key == wanted:
                return found
    return None


def bearer_of(headers: Headers) -> str | None:
    """Return the bearer token of a request, None where it has none."""
    for name, value in headers:
        if name == "authorization":
            scheme, _, token = value.strip().partition(" ")
            return token.strip() if scheme.lower() == "bearer" and token.strip() else None
    return None


def _has_secret(query: str, token: str) -> bool:
    pairs = parse_qsl(query, keep_blank_values=True, max_num_fields=None)
    return any(name.lower() in _SECRET_NAMES or (token and token in value) for name, value in pairs)
