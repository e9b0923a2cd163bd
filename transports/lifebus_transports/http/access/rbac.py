"""Who may do what with extensions: the three modes of roles, as one decision.  Pure."""

import hmac
import math
from typing import Any, Final, Literal, TypeGuard

import jwt
from msgspec import Struct

from lifebus_transports.http.access.checks import AccessRefusal, Headers

ROLES: Final = ("member", "admin", "owner", "system")
MAY_LIST: Final = ROLES
MAY_RELOAD: Final = ("admin", "owner", "system")

_LEEWAY_S: Final = 30
_LONGEST_S: Final = 24 * 3_600
_SECRET_BYTES: Final = 32


class Rbac(Struct, frozen=True, kw_only=True):
    """A mode with what it compares; a secret is None where its file cannot be read."""

    mode: Literal["disabled", "header", "jwt"] = "disabled"
    header_secret: str | None = None
    jwt_secret: str | None = None
    jwt_algorithm: str = "HS256"
    jwt_issuer: str = ""
    jwt_audience: str = ""
    jwt_role_claim: str = "role"
    jwt_actor_claim: str = "sub"


class RoleActor(Struct, frozen=True):
    """Who calls, as it is audited."""

    role: str
    actor: str | None


class Denied(AccessRefusal, frozen=True):
    """Why a caller may not; `required` and `role` where the role is known and does not suffice."""

    required: tuple[str, ...] = ()
    role: str = ""


def decide(
    rbac: Rbac, headers: Headers, required: tuple[str, ...], *, is_loopback: bool, now: float
) -> RoleActor | Denied:
    """Return who calls, or why the call is denied; `is_loopback` is of the listener, never of the peer's address."""
    match rbac.mode:
        case "disabled":
            found = _disabled(is_loopback=is_loopback)
        case "header":
            found = _by_header(rbac, headers)
        case "jwt":
            found = _by_jwt(rbac, headers, now)
    if isinstance(found, Denied) or found.role in required:
        return found
    return Denied(403, "insufficient_role", f"the role {found.role} must not do this", required, found.role)


def _disabled(*, is_loopback: bool) -> RoleActor | Denied:
    if not is_loopback:
        return Denied(403, "rbac_disabled_remote_forbidden", "without roles, extensions are for this machine alone")
    return RoleActor("admin", "local-disabled-rbac")


def _by_header(rbac: Rbac, headers: Headers) -> RoleActor | Denied:
    if not is_secret(rbac.header_secret):
        return _misconfigured()
    token = _first(headers, "x-codex-rbac-token")
    if not token:
        return Denied(401, "missing_header_token", "`x-codex-rbac-token` is missing")
    # Other values of the same header could be what somebody in between reads.
    if sum(name == "x-codex-rbac-token" for name, _ in headers) > 1 or not hmac.compare_digest(
        token.encode("utf-8", "surrogatepass"), (rbac.header_secret or "").encode()
    ):
        return Denied(401, "invalid_header_token", "`x-codex-rbac-token` is wrong")
    role = _first(headers, "x-codex-role")
    if not role:
        return Denied(401, "missing_role", "`x-codex-role` is missing")
    if role not in ROLES or sum(name == "x-codex-role" for name, _ in headers) > 1:
        return Denied(400, "invalid_role", f"`x-codex-role` is one of {', '.join(ROLES)}")
    return RoleActor(role, _first(headers, "x-codex-actor") or None)


def _by_jwt(rbac: Rbac, headers: Headers, now: float) -> RoleActor | Denied:
    if not is_secret(rbac.jwt_secret):
        return _misconfigured()
    given = _first(headers, "authorization")
    if given is None:
        return Denied(401, "missing_bearer_token", "`Authorization` is missing")
    scheme, _, token = given.partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        return Denied(401, "invalid_authorization_header", "`Authorization` is `Bearer` and a token")
    claims = _claims(rbac, token.strip(), now)
    if claims is None:
        return Denied(401, "invalid_bearer_token", "the token is not valid")
    role, actor = claims.get(rbac.jwt_role_claim), claims.get(rbac.jwt_actor_claim)
    if not isinstance(role, str) or role not in ROLES:
        return Denied(403, "invalid_role_claim", f"`{rbac.jwt_role_claim}` is one of {', '.join(ROLES)}")
    return RoleActor(role, actor if isinstance(actor, str) and actor else None)


def _claims(rbac: Rbac, token: str, now: float) -> dict[str, Any] | None:
    """Return the claims of a token that is signed with our key and holds now, None for any other."""
    try:
        # What a token says of keys and algorithms is never followed: ours are the settings'.
        header = jwt.get_unverified_header(token)
        if header.get("alg") != rbac.jwt_algorithm or {"crit", "jku", "x5u", "jwk"} & header.keys():
            return None
        claims: dict[str, Any] = jwt.decode(  # pyright: ignore[reportUnknownMemberType]  a type that is not installed
            token,
            rbac.jwt_secret or "",
            algorithms=[rbac.jwt_algorithm],
            # The times are compared here, by the clock that is passed in; audience and issuer exactly.
            options={
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "verify_aud": False,
                "verify_iss": False,
            },
        )
    except (jwt.PyJWTError, ValueError, TypeError, RecursionError):
        return None
    return claims if _holds(rbac, claims, now) else None


def _holds(rbac: Rbac, claims: dict[str, Any], now: float) -> bool:
    issued, expires, begins = claims.get("iat"), claims.get("exp"), claims.get("nbf", 0)
    if not (_is_time(issued) and _is_time(expires) and _is_time(begins)):
        return False
    audience: Any = claims.get("aud")
    audiences: tuple[Any, ...] = tuple(audience) if isinstance(audience, list) else (audience,)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return (
        issued <= now + _LEEWAY_S
        and begins <= now + _LEEWAY_S
        and now < expires + _LEEWAY_S
        and 0 < expires - issued <= _LONGEST_S
        and (not rbac.jwt_issuer or claims.get("iss") == rbac.jwt_issuer)
        and (not rbac.jwt_audience or rbac.jwt_audience in audiences)
    )


def _is_time(value: Any) -> TypeGuard[float]:
    # `True` is a number for Python; an infinite one would hold for ever.
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _misconfigured() -> Denied:
    return Denied(500, "rbac_misconfigured", "the secret of this mode is not set, or its file cannot be read")


def is_secret(secret: str | None) -> bool:
    """Whether a secret is there, and long enough."""
    return secret is not None and len(secret.encode()) >= _SECRET_BYTES


def _first(headers: Headers, wanted: str) -> str | None:
    return next((value.strip() for name, value in headers if name == wanted), None)
