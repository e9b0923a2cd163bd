"""How a page logs in: one link, once; a cookie that opens nothing without the page's key; reading without writing."""

import json
import time
from itertools import count
from pathlib import Path

import anyio
import pytest

from lifebus.cli.bus.dashboard import make_link
from lifebus_contract import LifebusError
from lifebus_transports.http.access.page_logins import (
    CODE_MS,
    KEY_HEADER,
    SESSION_MS,
    PageLogins,
    PageScope,
    make_code,
)
from support.running import short_directory
from support.transports.dashboards import log_in
from support.transports.gateway import running_gateway

TOKEN = "t" * 43


class Clock:
    """Milliseconds that a test sets."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000

    def __call__(self) -> int:
        return self.now


class EntropySource:
    """Random bytes that are never the same twice."""

    def __init__(self) -> None:
        self._numbers = count()

    def __call__(self, size: int) -> bytes:
        return next(self._numbers).to_bytes(size, "big")


def test_a_code_works_once_and_soon_and_for_its_own_gateway_alone() -> None:
    clock, random = Clock(), EntropySource()
    logins = PageLogins(TOKEN, clock, random)
    code = make_code(TOKEN, PageScope.READ, clock.now, random)
    for wrong in (make_code("u" * 43, PageScope.READ, clock.now, random), code[:-1], code + "x", "", ".", "\ud800"):
        assert logins.login(wrong) is None
    # What somebody changed does not fit its signature any more.
    assert logins.login(code.replace("read", "write")) is None
    assert logins.login(code) is not None
    assert logins.login(code) is None
    late = make_code(TOKEN, PageScope.READ, clock.now, random)
    clock.now += CODE_MS + 1
    assert logins.login(late) is None
    # A gateway that was started since does not know which codes were used before.
    earlier = make_code(TOKEN, PageScope.READ, clock.now - 1, random)
    assert PageLogins(TOKEN, clock, random).login(earlier) is None
    assert logins.login(make_code(TOKEN, PageScope.READ, clock.now + 1, random)) is None


def test_a_session_needs_its_key_outlives_the_gateway_and_ends() -> None:
    clock, random = Clock(), EntropySource()
    logins = PageLogins(TOKEN, clock, random)
    sessions = [logins.login(make_code(TOKEN, scope, clock.now, random)) for scope in PageScope]
    (read, write) = [one for one in sessions if one is not None]
    assert logins.scope_of(read.cookie, read.key) is PageScope.READ
    assert PageLogins(TOKEN, clock, random).scope_of(write.cookie, write.key) is PageScope.WRITE
    assert PageLogins("u" * 43, clock, random).scope_of(write.cookie, write.key) is None
    for cookie, key in ((read.cookie, write.key), (read.cookie, ""), ("", read.key), (read.key, read.cookie)):
        assert logins.scope_of(cookie, key) is None
    # A code is no cookie, although both are signed with the token.
    code = make_code(TOKEN, PageScope.WRITE, clock.now, random)
    assert logins.scope_of(code, write.key) is None
    clock.now += SESSION_MS
    assert logins.scope_of(read.cookie, read.key) is None


async def test_a_page_that_reads_may_not_write_and_one_that_writes_may() -> None:
    async with running_gateway() as (daemon, address), address.client({}) as client:
        answer = await log_in(client, daemon.settings.runtime_dir)
        cookie = answer.headers["set-cookie"]
        assert "; HttpOnly; SameSite=Strict; Path=/api" in cookie
        assert "Secure" not in cookie  # browsers send it over plain HTTP to this machine alone
        assert answer.json()["scope"] == "read"
        assert (await client.get("/api/receipts")).status_code == 200
        assert (await client.get("/api/agents/extensions")).status_code == 200
        assert (await client.post("/api/tickets", json={})).status_code == 201
        for path in ("/api/orchestrator/jobs/none/cancel", "/api/agents/extensions/reload"):
            refused = await client.post(path, json={})
            assert (refused.status_code, refused.json()["code"]) == (403, "read_only"), path
        await log_in(client, daemon.settings.runtime_dir, write=True)
        assert (await client.post("/api/orchestrator/jobs/none/cancel", json={})).json()["code"] == "no_job"
        assert (await client.post("/api/logout", json={})).status_code == 200
        assert (await client.get("/api/receipts")).status_code == 401


async def test_neither_the_cookie_nor_the_key_is_enough_and_other_origins_get_nothing() -> None:
    async with running_gateway() as (daemon, address), address.client({}) as client:
        key = (await log_in(client, daemon.settings.runtime_dir)).json()["key"]
        own = f"http://localhost:{address.port}"
        assert (await client.get("/api/status", headers={"Origin": own})).status_code == 200
        assert (await client.get("/api/status", headers={"Origin": "http://localhost:1"})).status_code == 403
        assert (await client.get("/api/status", headers={"Sec-Fetch-Site": "same-site"})).status_code == 403
        client.headers[KEY_HEADER] = "x"
        assert (await client.get("/api/status")).status_code == 401
        del client.headers[KEY_HEADER]
        assert (await client.get("/api/status")).status_code == 401
        async with address.client({KEY_HEADER: key}) as other:
            assert (await other.get("/api/status")).status_code == 401


async def test_a_page_stays_logged_in_over_a_restart_and_finds_the_gateway_at_its_port() -> None:
    with short_directory() as home:
        async with running_gateway(home) as (daemon, address), address.client({}) as client:
            await log_in(client, daemon.settings.runtime_dir)
            cookies, key = client.cookies, client.headers[KEY_HEADER]
        async with running_gateway(home) as (_, again):
            assert again.url == address.url
            async with address.client({KEY_HEADER: key}, cookies=cookies) as client:
                assert (await client.get("/api/status")).status_code == 200


async def test_a_link_is_taken_by_its_own_page_alone_once_and_unchanged() -> None:
    async with running_gateway() as (daemon, address), address.client({}) as client:
        code = make_link(daemon.settings.runtime_dir).url.partition("#login=")[2]

        async def denied(given: str, status: int, **headers: str) -> None:
            kind = {"Content-Type": "application/json"}
            answer = await client.post("/api/login", json={"code": given}, headers={**kind, **headers})
            assert (answer.status_code, "set-cookie" in answer.headers) == (status, False), (given, headers)

        own = f"http://localhost:{address.port}"
        for origin in ("http://localhost:1", "null", own.replace("http:", "https:"), f"{own}.evil.example"):
            await denied(code, 403, Origin=origin)
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"):
            await denied(code, 415, **{"Content-Type": kind})
        # None of that has used the code up; what somebody made of it opens nothing.
        scope, made, rest = code.split(".", 2)
        for forged in (f"write.{made}.{rest}", f"{scope}.{int(made) + 1}.{rest}", f"{code}x", code[:-2], f"..{rest}"):
            await denied(forged, 401)
        assert (await client.post("/api/login", json={"code": code})).status_code == 200
        await denied(code, 401)


async def test_a_page_that_reads_acts_by_no_way_round() -> None:
    async with running_gateway() as (daemon, address), address.client({}) as client:
        key = (await log_in(client, daemon.settings.runtime_dir)).json()["key"]
        for path in ("/api/questions/q/answer", "/api/flows/r/abort", "/api/consumers/c/reset"):
            refused = await client.post(path, json={"action": "retry", "responder": "x"})
            assert (refused.status_code, refused.json()["code"]) == (403, "read_only"), path
        # The scope is signed: a cookie that says more is none.
        (name, cookie) = next(iter(client.cookies.items()))
        raised = {"Cookie": f"{name}={cookie.replace('read', 'write', 1)}"}
        async with address.client({KEY_HEADER: key, **raised}) as other:
            assert (await other.post("/api/consumers/c/reset", json={})).status_code == 401
        for headers in ({"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            assert (await client.post("/api/tickets", json={}, headers=headers)).status_code == 403
        # A key in an address is no key, a page's session is no token, and a cookie alone opens nothing.
        assert (await client.get(f"/api/status?token={key}")).status_code == 400
        assert (await client.get("/api/status", headers={"Authorization": f"Bearer {key}"})).status_code == 401
        del client.headers[KEY_HEADER]
        for path in ("/api/status", "/api/events"):
            assert (await client.get(path)).status_code == 401, path
        assert (await client.post("/api/tickets", json={})).status_code == 401


async def test_another_token_ends_every_session_and_every_link() -> None:
    with short_directory() as home:
        async with running_gateway(home) as (daemon, address), address.client({}) as client:
            key = (await log_in(client, daemon.settings.runtime_dir, write=True)).json()["key"]
            cookies = client.cookies
            code = make_link(daemon.settings.runtime_dir).url.partition("#login=")[2]
            found = json.loads((daemon.settings.runtime_dir / "gateway.json").read_bytes())
        await anyio.Path(found["tokenFile"]).unlink()
        async with running_gateway(home) as (_, address), address.client({KEY_HEADER: key}, cookies=cookies) as client:
            assert (await client.get("/api/status")).status_code == 401
            assert (await client.post("/api/login", json={"code": code})).status_code == 401


async def test_what_stands_in_the_file_of_the_last_port_is_only_a_wish() -> None:
    with short_directory() as home:
        (home / "state").mkdir(mode=0o700)
        for text in ("99999", "x", "", "\x00"):
            (home / "state/gateway.port").write_text(text)
            async with running_gateway(home) as (_, address), address.client() as client:
                assert (await client.get("/api/health")).status_code == 200
        # Somebody else has the port meanwhile.
        async with running_gateway(home) as (_, first):
            with short_directory() as other:
                (other / "state").mkdir(mode=0o700)
                (other / "state/gateway.port").write_text(str(first.port))
                async with running_gateway(other) as (_, second):
                    assert second.port != first.port


def test_a_link_is_for_a_gateway_that_runs(tmp_path: Path) -> None:
    with pytest.raises(LifebusError) as caught:
        make_link(tmp_path)
    assert caught.value.code == "no_gateway"


async def test_a_link_says_until_when_it_works() -> None:
    async with running_gateway() as (daemon, address):
        link = make_link(daemon.settings.runtime_dir)
        assert link.url.startswith(f"{address.url}/#login=")
        assert link.scope == "read"
        assert 0 < link.expires_at_ms - time.time() * 1000 <= CODE_MS
