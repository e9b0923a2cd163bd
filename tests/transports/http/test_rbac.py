"""Roles: what is compared in each mode, in which order, and what stands in every answer."""

from pathlib import Path
from typing import Any

import jwt
import pytest

from lifebus_transports.http.access.rbac import MAY_LIST, MAY_RELOAD, ROLES, Denied, Rbac, RoleActor, decide
from support.parts import sessions_of
from support.transports.gateway import running_gateway

NOW = 1_800_000_000.0
SECRET = "s" * 32
OTHER = "o" * 32
CLAIMS: dict[str, Any] = {"role": "admin", "sub": "me", "iat": NOW, "exp": NOW + 3_600}

HEADER = Rbac(mode="header", header_secret=SECRET)
JWT = Rbac(mode="jwt", jwt_secret=SECRET)
TOKEN = "x-codex-rbac-token"
ROLE = "x-codex-role"


def asked(
    rbac: Rbac, *headers: tuple[str, str], required: tuple[str, ...] = MAY_RELOAD, is_loopback: bool = True
) -> RoleActor | Denied:
    return decide(rbac, list(headers), required, is_loopback=is_loopback, now=NOW)


def code(found: RoleActor | Denied) -> tuple[int, str]:
    assert isinstance(found, Denied)
    return found.status, found.code


def bearer(claims: dict[str, Any], key: str = SECRET, algorithm: str = "HS256", **header: Any) -> tuple[str, str]:
    return "authorization", "Bearer " + jwt.encode(claims, key, algorithm=algorithm, headers=header or None)


def test_without_roles_the_listener_decides_and_never_what_a_caller_says() -> None:
    assert asked(Rbac()) == RoleActor("admin", "local-disabled-rbac")
    spoofed = (("x-forwarded-for", "127.0.0.1"), ("host", "localhost"))
    assert code(asked(Rbac(), *spoofed, is_loopback=False)) == (403, "rbac_disabled_remote_forbidden")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], (401, "missing_header_token")),
        ([(TOKEN, " ")], (401, "missing_header_token")),
        ([(ROLE, "admin")], (401, "missing_header_token")),
        ([(TOKEN, OTHER), (ROLE, "admin")], (401, "invalid_header_token")),
        ([(TOKEN, SECRET[:-1])], (401, "invalid_header_token")),
        ([(TOKEN, SECRET), (TOKEN, SECRET), (ROLE, "admin")], (401, "invalid_header_token")),
        ([(TOKEN, SECRET)], (401, "missing_role")),
        ([(TOKEN, SECRET), (ROLE, "")], (401, "missing_role")),
        ([(TOKEN, SECRET), (ROLE, "Admin")], (400, "invalid_role")),
        ([(TOKEN, SECRET), (ROLE, "root")], (400, "invalid_role")),
        ([(TOKEN, SECRET), (ROLE, "admin"), (ROLE, "owner")], (400, "invalid_role")),
        ([(TOKEN, SECRET), (ROLE, "member")], (403, "insufficient_role")),
    ],
)
def test_the_shared_token_comes_before_the_role(headers: list[tuple[str, str]], expected: tuple[int, str]) -> None:
    assert code(asked(HEADER, *headers)) == expected


def test_a_role_is_one_of_four_and_each_route_names_those_that_suffice() -> None:
    for role in ROLES:
        listed = asked(HEADER, (TOKEN, SECRET), (ROLE, f" {role} "), ("x-codex-actor", "me"), required=MAY_LIST)
        assert listed == RoleActor(role, "me")
    assert asked(HEADER, (TOKEN, SECRET), (ROLE, "owner"), ("x-codex-actor", " ")) == RoleActor("owner", None)
    denied = asked(HEADER, (TOKEN, SECRET), (ROLE, "member"))
    assert isinstance(denied, Denied)
    assert (denied.required, denied.role) == (("admin", "owner", "system"), "member")


@pytest.mark.parametrize("rbac", [Rbac(mode="header"), Rbac(mode="jwt"), Rbac(mode="jwt", jwt_secret="short")])
def test_a_mode_without_its_secret_lets_nobody_in(rbac: Rbac) -> None:
    assert code(asked(rbac, (TOKEN, ""), (ROLE, "admin"), bearer(CLAIMS))) == (500, "rbac_misconfigured")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], (401, "missing_bearer_token")),
        ([("authorization", "Bearer")], (401, "invalid_authorization_header")),
        ([("authorization", "Bearer  ")], (401, "invalid_authorization_header")),
        ([("authorization", "Basic eDp5")], (401, "invalid_authorization_header")),
        ([("authorization", "Bearer x.y.z")], (401, "invalid_bearer_token")),
        ([bearer(CLAIMS | {"role": None})], (403, "invalid_role_claim")),
        ([bearer(CLAIMS | {"role": ["admin"]})], (403, "invalid_role_claim")),
        ([bearer(CLAIMS | {"role": "ADMIN"})], (403, "invalid_role_claim")),
        ([bearer(CLAIMS | {"role": "member"})], (403, "insufficient_role")),
    ],
)
def test_a_token_is_read_before_its_role(headers: list[tuple[str, str]], expected: tuple[int, str]) -> None:
    assert code(asked(JWT, *headers)) == expected


def test_the_algorithm_is_the_one_of_the_settings_also_where_the_key_is_right() -> None:
    # Long enough for each of them, so that it is the algorithm alone that is refused.
    key = SECRET * 2
    for chosen in ("HS256", "HS512"):
        rbac = Rbac(mode="jwt", jwt_secret=key, jwt_algorithm=chosen)
        for algorithm in ("HS256", "HS384", "HS512"):
            is_let_in = isinstance(asked(rbac, bearer(CLAIMS, key, algorithm)), RoleActor)
            assert is_let_in is (algorithm == chosen)


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


BAD_TOKENS = {
    "another key": bearer(CLAIMS, OTHER),
    "another algorithm of the same key": bearer(CLAIMS, SECRET * 2, "HS512"),
    "no signature": ("authorization", "Bearer " + jwt.encode(CLAIMS, None, algorithm="none")),
    "a critical extension": bearer(CLAIMS, crit=["exp"]),
    "a key by address": bearer(CLAIMS, jku="https://evil.example/keys"),
    "an embedded key": bearer(CLAIMS, jwk={"kty": "oct", "k": "AAAA"}),
    "a certificate by address": bearer(CLAIMS, x5u="https://evil.example"),
    "expired": bearer(CLAIMS | {"iat": NOW - 200, "exp": NOW - 31}),
    "not yet": bearer(CLAIMS | {"nbf": NOW + 31}),
    "from the future": bearer(CLAIMS | {"iat": NOW + 31}),
    "without an end": bearer(without("exp")),
    "without a beginning": bearer(without("iat")),
    "for longer than a day": bearer(CLAIMS | {"exp": NOW + 86_401}),
    "ends before it begins": bearer(CLAIMS | {"iat": NOW + 20, "exp": NOW + 10}),
    "a time that is a text": bearer(CLAIMS | {"exp": str(NOW + 60)}),
    "a time that is true": bearer(CLAIMS | {"nbf": True}),
    "an endless time": bearer(CLAIMS | {"exp": float("inf")}),
    "two tokens": ("authorization", bearer(CLAIMS)[1] + " x"),
    "claims that are a list": ("authorization", "Bearer " + jwt.api_jws.encode(b"[]", SECRET, "HS256")),
}


@pytest.mark.parametrize("fault", BAD_TOKENS)
def test_a_token_that_is_not_ours_now_and_whole_is_refused(fault: str) -> None:
    assert code(asked(JWT, BAD_TOKENS[fault])) == (401, "invalid_bearer_token")


def test_a_good_token_says_who_calls() -> None:
    assert asked(JWT, bearer(CLAIMS)) == RoleActor("admin", "me")
    # Clocks differ a little.
    assert asked(JWT, bearer(CLAIMS | {"iat": NOW + 29})) == RoleActor("admin", "me")
    assert asked(JWT, bearer(CLAIMS | {"iat": NOW - 60, "exp": NOW - 29})) == RoleActor("admin", "me")
    assert asked(JWT, ("authorization", bearer(without("sub"))[1].replace("Bearer", "bearer"))) == RoleActor(
        "admin", None
    )
    named = Rbac(mode="jwt", jwt_secret=SECRET, jwt_role_claim="r", jwt_actor_claim="a")
    assert asked(named, bearer(CLAIMS | {"r": "owner", "a": "you"})) == RoleActor("owner", "you")


@pytest.mark.parametrize(
    ("claims", "is_good"),
    [
        ({"iss": "i", "aud": "a"}, True),
        ({"iss": "i", "aud": ["x", "a"]}, True),
        ({"iss": "i"}, False),
        ({"aud": "a"}, False),
        ({"iss": "i.evil", "aud": "a"}, False),
        ({"iss": "i", "aud": "aa"}, False),
    ],
)
def test_issuer_and_audience_are_compared_as_a_whole(claims: dict[str, Any], is_good: bool) -> None:
    rbac = Rbac(mode="jwt", jwt_secret=SECRET, jwt_issuer="i", jwt_audience="a")
    assert isinstance(asked(rbac, bearer(CLAIMS | claims)), RoleActor) is is_good


async def test_extensions_are_listed_and_reloaded_by_those_whose_role_suffices(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    gateway = running_gateway(whole=True, rbac_mode="header", rbac_header_secret_file=str(secret))
    path = "/api/agents/extensions"
    async with gateway as (daemon, address), address.client({TOKEN: SECRET, ROLE: "member"}) as member:
        found = await member.get(path)
        assert (found.status_code, found.json()["modules"]) == (200, [])
        refused = await member.post(f"{path}/reload", json={})
        assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_role")
        async with address.client({TOKEN: SECRET, ROLE: "owner"}) as owner:
            done = await owner.post(f"{path}/reload", json={})
            assert (done.status_code, done.json()["status"]) == (200, "ok")
        # Whoever was denied a reload stands in the audit, by the role that is proven; who listed does not.
        async with address.client({TOKEN: "wrong" * 10, "User-Agent": "agent/1"}) as stranger:
            for method, where in (("GET", path), ("POST", f"{path}/reload")):
                assert (await stranger.request(method, where)).status_code == 401
        records, _ = await sessions_of(daemon).extensions.audit.read(0, 64)
        denied = [one for one in records if one.result == "forbidden"]
        assert [(one.actor_role, one.error_summary) for one in denied] == [
            ("member", "insufficient_role"),
            ("unknown", "invalid_header_token"),
        ]
        assert denied[1].origin["userAgent"] == "agent/1"
        # The gateway's own token is no role, and a secret that others may read is none at all.
        async with address.client() as client:
            assert (await client.get(path)).json()["code"] == "missing_header_token"
            secret.chmod(0o644)
            assert ((await client.get(path)).status_code) == 500
