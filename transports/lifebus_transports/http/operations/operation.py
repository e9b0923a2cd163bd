"""What a route is: its place, what it takes and answers, and what serves it.  Pure."""

from collections.abc import Awaitable, Callable, Mapping
from enum import StrEnum
from typing import Any, Final, Literal

from msgspec import Struct

from lifebus_transports.http.access.rbac import RoleActor
from lifebus_transports.http.ports import Calls, GatewayPeer

OK: Final = "ok"

JSON: Final = "application/json"
"""The media type of all answers but those of operations that name another."""


class Gate(StrEnum):
    """What a caller has to show."""

    TOKEN = "token"  # noqa: S105  a word, not a secret
    """The gateway's bearer token."""
    ROLE = "role"
    """What the mode of roles asks for; where roles are disabled, the token."""
    OPEN = "open"
    """Nothing: the route itself looks at what the caller has."""


class PageNeeds(StrEnum):
    """What the session of a page needs for a route, where it shows that in place of the token."""

    BY_METHOD = "by_method"
    """What reads needs `READ`, everything else `WRITE`."""
    READ = "read"
    """A session that may read."""
    WRITE = "write"
    """A session that may do what people do."""


class NoFields(Struct, frozen=True, forbid_unknown_fields=True):
    """No parameters at all."""


class Operation(Struct, frozen=True, kw_only=True):
    """One route.

    `answers` maps status codes to the types of their bodies, those of refusals too; `media` is the media type of a 200,
    whose body is text where that is not JSON; `roles` may call it where its gate
    is `ROLE`.  `path` names parameters in braces, which are the fields of `place`; `query` and `body` are read into
    those types, and what does not fit is refused; with `body_last`, not before what is wrong with the place.
    """

    name: str
    method: Literal["GET", "POST", "DELETE"]
    path: str
    summary: str
    tag: str
    place: type[Struct] = NoFields
    query: type[Struct] = NoFields
    body: type[Struct] | None = None
    body_last: bool = False
    answers: Mapping[int, Any]
    gate: Gate = Gate.TOKEN
    media: str = JSON
    roles: tuple[str, ...] = ()
    page: PageNeeds = PageNeeds.BY_METHOD

    @property
    def is_for_readers(self) -> bool:
        """Whether the session of a page that may only read is enough."""
        return self.page is PageNeeds.READ or (self.page is PageNeeds.BY_METHOD and self.method == "GET")


class RouteRequest(Struct, frozen=True, kw_only=True):
    """One request: what it says in the types of its operation, and who sent it."""

    calls: Calls
    peer: GatewayPeer
    place: Any
    query: Any
    body: Any
    body_fault: Exception | None = None
    actor: RoleActor
    origin: dict[str, str]
    """Where it came from, as an audit keeps it: `ip` and `userAgent`, each where it is known."""

    def require_body(self) -> Any:
        """Return the body of an operation whose body comes last.

        Raises:
            HttpRefusal: it does not fit.
        """
        if self.body_fault is not None:
            raise self.body_fault
        return self.body


class RouteReply(Struct, frozen=True):
    """An answer with a status of its own, and headers of its own where it has some."""

    status: int
    body: Any
    headers: tuple[tuple[str, str], ...] = ()


Serve = Callable[[RouteRequest], Awaitable[Any]]
"""Returns the body of a 200, or a `Reply`.

Raises:
    LifebusError: becomes the refusal that `errors` has for it.
"""

Served = Mapping[str, Serve]
"""What serves each operation of a family, by its name."""
