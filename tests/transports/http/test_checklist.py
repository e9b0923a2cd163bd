"""The checklist for HTTP on loopback: what a page in a browser, another program or a careless user may try."""

import json
import os
import stat
from contextlib import suppress
from pathlib import Path

import anyio
import httpx
import pytest

from lifebus_contract import LifebusError
from lifebus_transports.http import connections
from lifebus_transports.http.access import tokens
from lifebus_transports.http.access.failures import Failures
from lifebus_transports.http.access.tickets import TICKET_S, Tickets
from lifebus_transports.http.settings import GatewaySettings
from support.patience import PATIENCE_S
from support.transports.gateway import Address, next_frame, running_gateway

PANEL = "https://panel.example"


async def statuses(address: Address, headers: dict[str, str]) -> tuple[int, int]:
    """What a request gets, and what an upgrade gets, with the token and these headers."""
    async with address.client(address.bearer | headers) as client:
        plain = await client.get("/api/health")
    return plain.status_code, await upgrade(address, headers)


async def test_only_hosts_that_name_this_machine_and_port_are_served() -> None:
    async with running_gateway(hosts="other.example:1, box.example:8443") as (_, address):
        port = address.port
        good = ("127.0.0.1:{}", "[::1]:{}", "localhost:{}", "LOCALHOST:{}", "box.example:8443")
        bad = (
            "127.0.0.1",
            "localhost",
            "localhost:1",
            "evil.example:{}",
            "localhost.evil.example:{}",
            "127.0.0.1.evil.example:{}",
            "127.0.0.1:{}.evil.example",
            "0.0.0.0:{}",
            "box.example",
            "user@localhost:{}",
        )
        for host in good:
            async with address.client({**address.bearer, "Host": host.format(port)}) as client:
                assert (await client.get("/api/health")).status_code == 200, host
        for host in bad:
            async with address.client({**address.bearer, "Host": host.format(port)}) as client:
                answer = await client.post("/api/tickets", content=b"{" * 100)
                assert (answer.status_code, answer.json()["code"]) == (403, "host_refused"), host
        assert await upgrade(address, {"Host": "evil.example"}) == 403
        assert await upgrade(address, {"Host": f"localhost:{port}"}) == 101


async def upgrade(address: Address, headers: dict[str, str], target: str = "/api/stream") -> int:
    """The status that an upgrade gets."""
    wanted = {"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13"}
    return await status_of(address, f"GET {target}", wanted | {"Sec-WebSocket-Key": "A" * 22 + "=="} | headers)


async def status_of(address: Address, target: str, headers: dict[str, str], body: bytes = b"") -> int:
    """The status that a plain connection gets."""
    sent = {"Host": f"localhost:{address.port}", "Authorization": f"Bearer {address.token}"} | headers
    lines = [f"{target} HTTP/1.1", *(f"{name}: {value}" for name, value in sent.items()), "", ""]
    async with await anyio.connect_tcp("127.0.0.1", address.port) as stream:
        await stream.send("\r\n".join(lines).encode() + body)
        with anyio.fail_after(PATIENCE_S):
            return int((await stream.receive()).split(b" ", 2)[1])


async def test_an_origin_is_refused_unless_it_is_listed_as_a_whole() -> None:
    async with running_gateway(origins=PANEL) as (_, address):
        others = (f"https://localhost:{address.port}", f"http://127.0.0.1:{address.port}", "http://localhost:1")
        bad = ("null", "https://evil.example", f"{PANEL}.evil.example", f"{PANEL}:1", f"{PANEL}/", "", *others)
        for origin in bad:
            assert await statuses(address, {"Origin": origin}) == (403, 403), origin
        # A page of its own, at the host that the request names.
        own = {"Origin": f"http://localhost:{address.port}", "Host": f"localhost:{address.port}"}
        assert await statuses(address, own) == (200, 101)
        assert await statuses(address, {"Origin": PANEL}) == (200, 101)
        assert await statuses(address, {}) == (200, 101)


async def test_what_a_browser_sends_for_another_site_is_refused() -> None:
    async with running_gateway(origins=PANEL) as (_, address):
        for site in ("cross-site", "same-site", "Cross-Site"):
            assert await statuses(address, {"Sec-Fetch-Site": site}) == (403, 403)
        for headers in ({"Sec-Fetch-Site": "none"}, {"Sec-Fetch-Site": "cross-site", "Origin": PANEL}):
            assert await statuses(address, headers) == (200, 101)


async def test_a_token_comes_in_the_header_alone() -> None:
    async with running_gateway() as (_, address):
        token = address.token
        async with address.client({}) as client:
            for name in ("token", "access_token", "q", "ticket", "Authorization"):
                answer = await client.get("/api/health", params={name: token})
                assert (answer.status_code, answer.json()["code"]) == (400, "token_in_query")
            for headers in ({}, {"Cookie": f"token={token}"}, {"Authorization": f"Basic {token}"}, {"X-Token": token}):
                answer = await client.get("/api/health", headers=headers)
                assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
                assert "set-cookie" not in answer.headers
        async with address.client() as client:
            answer = await client.get("/api/health", headers={"Authorization": f"bearer  {token}"})
            assert answer.status_code == 200
            twice = [("Authorization", f"Bearer {token}"), ("Authorization", "Bearer x")]
            async with httpx.AsyncClient() as other:
                answer = await other.get(f"{address.url}/api/health", headers=twice)
            assert (answer.status_code, answer.json()["code"]) == (400, "repeated_header")


@pytest.mark.parametrize("kind", ["socket", "events"])
async def test_a_ticket_opens_one_stream_and_nothing_else(kind: str) -> None:
    async with running_gateway() as (_, address), address.client() as client:
        ticket = (await client.post("/api/tickets", json={})).json()["ticket"]
        async with address.client({}) as stranger:
            # It is for streams: here it is not even looked at.
            assert (await stranger.get("/api/receipts", params={"ticket": ticket})).status_code == 401
        for expected in (200, 401):
            assert await open_by(kind, address, ticket) == expected


async def open_by(kind: str, address: Address, ticket: str) -> int:
    query = f"?ticket={ticket}"
    if kind == "events":
        async with address.client({}) as client, client.stream("GET", f"/api/events{query}") as answer:
            return answer.status_code
    status = await upgrade(address, {"Authorization": ""}, f"/api/stream{query}")
    return 200 if status == 101 else status


def test_a_ticket_ends_by_itself_and_only_so_many_are_open() -> None:
    now = 0.0
    numbers = iter(range(10_000))
    tickets = Tickets(lambda: now, lambda size: next(numbers).to_bytes(size, "big"))
    late, good = tickets.give(), tickets.give()
    now = TICKET_S - 0.1
    assert tickets.use(good)
    assert not tickets.use(good)
    now = TICKET_S
    assert not tickets.use(late)
    first, *_, last = [tickets.give() for _ in range(5_000)]
    assert not tickets.use(first)
    assert tickets.use(last)


async def test_no_answer_lets_another_origin_in() -> None:
    async with running_gateway(origins=PANEL) as (_, address), address.client() as client:
        for origin in (PANEL, "https://evil.example"):
            asked = {"Origin": origin, "Access-Control-Request-Method": "POST"}
            preflight = await client.options("/api/tickets", headers=asked)
            assert preflight.status_code == 405
            for answer in (preflight, await client.get("/api/health", headers={"Origin": origin})):
                assert [name for name in answer.headers if name.startswith("access-control")] == []
                assert answer.headers["x-content-type-options"] == "nosniff"
                assert answer.headers["cache-control"] == "no-store"
                assert answer.headers["content-security-policy"].startswith("default-src 'none'")


async def test_a_write_that_a_form_could_send_is_refused() -> None:
    async with running_gateway() as (_, address), address.client() as client:
        for kind in ("application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain", ""):
            answer = await client.post("/api/tickets", content=b"{}", headers={"Content-Type": kind})
            assert (answer.status_code, answer.json().get("code")) == (415, "unsupported_media_type")
        packed = {"Content-Type": "application/json", "Content-Encoding": "gzip"}
        assert (await client.post("/api/tickets", content=b"{}", headers=packed)).status_code == 415
        plain = {"Content-Type": "application/json; charset=utf-8"}
        assert (await client.post("/api/tickets", content=b"{}", headers=plain)).status_code == 201


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "box.example", "127.evil.example"])
def test_what_others_can_reach_needs_a_certificate_and_names(host: str) -> None:
    with pytest.raises(ValueError, match="reached from other machines"):
        GatewaySettings(enabled=True, host=host)
    with pytest.raises(ValueError, match="reached from other machines"):
        GatewaySettings(enabled=True, host=host, tls_cert="/c", tls_key="/k")
    assert not GatewaySettings(host=host, tls_cert="/c", tls_key="/k", hosts="box:1").is_loopback


async def test_both_loopback_addresses_are_served_and_no_other() -> None:
    async with running_gateway() as (_, address):
        for name in ("127.0.0.1", "[::1]"):
            async with httpx.AsyncClient(headers=address.bearer) as client:
                assert (await client.get(f"http://{name}:{address.port}/api/health")).status_code == 200
        listening = {line.split()[1] for file in ("tcp", "tcp6") for line in sockets(file)}
        suffix = f":{address.port:04X}"
        assert {one for one in listening if one.endswith(suffix)} == {
            f"0100007F{suffix}",
            f"00000000000000000000000001000000{suffix}",
        }


def sockets(file: str) -> list[str]:
    """The sockets of this machine that listen, as the kernel lists them."""
    lines = Path(f"/proc/self/net/{file}").read_text().splitlines()[1:]
    return [line for line in lines if line.split()[3] == "0A"]


def test_a_token_is_256_random_bits_in_a_file_of_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "token"
    token = tokens.take_token(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert len(token) == 43  # 32 bytes
    assert tokens.take_token(path) == token
    assert tokens.take_token(tmp_path / "other") != token
    assert sorted(one.name for one in tmp_path.iterdir()) == ["other", "token"]
    assert tokens.is_same(token, token)
    assert not tokens.is_same(token[:-1] + "é", token)


@pytest.mark.parametrize("fault", ["mode", "short", "link", "directory", "fifo", "lines"])
def test_a_token_file_that_others_may_have_written_or_read_is_refused(tmp_path: Path, fault: str) -> None:
    path = tmp_path / "token"
    path.write_text("x" * 43)
    path.chmod(0o644 if fault == "mode" else 0o600)
    if fault == "short":
        path.write_text("x" * 31)
    elif fault == "lines":
        path.write_text("x" * 40 + "\n" + "x" * 40)
    elif fault != "mode":
        path.unlink()
        if fault == "link":
            (tmp_path / "real").write_text("x" * 43)
            path.symlink_to(tmp_path / "real")
        elif fault == "directory":
            path.mkdir()
        else:
            os.mkfifo(path, 0o600)
    with pytest.raises(LifebusError) as refused:
        tokens.take_token(path)
    assert refused.value.code == "gateway_secret"


def test_failures_are_answered_ever_later_and_forgiven_after_a_quiet_minute() -> None:
    now = 0.0
    failures = Failures(lambda: now)
    assert [failures.fail() for _ in range(7)] == [0, 0, 0, 0, 0, 1.0, 1.0]
    now = 1.5
    assert [failures.fail() for _ in range(6)][-1] == 2.0
    now = 200.0
    assert [failures.fail() for _ in range(6)][-1] == 1.0


async def test_a_right_token_is_served_while_strangers_guess() -> None:
    async with running_gateway() as (_, address), address.client({}) as stranger, address.client() as client:
        with anyio.fail_after(PATIENCE_S):
            answer = await stranger.get("/api/health")
            while answer.status_code != 429:
                answers = [httpx.Response(0)] * 0
                async with anyio.create_task_group() as tasks:
                    for _ in range(20):
                        tasks.start_soon(guess, stranger, answers)
                answer = answers[-1]
                assert {one.status_code for one in answers} <= {401, 429}
        assert int(answer.headers["retry-after"]) >= 1  # longer each time, where the guesses take more than a second
        assert (await client.get("/api/health")).status_code == 200


async def guess(client: httpx.AsyncClient, answers: list[httpx.Response]) -> None:
    answers.append(await client.get("/api/health", headers={"Authorization": "Bearer guess"}))


async def test_a_connection_that_does_not_say_what_it_wants_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_S", 0.05)
    async with running_gateway() as (_, address), await anyio.connect_tcp("127.0.0.1", address.port) as stream:
        with suppress(anyio.BrokenResourceError):  # on a slow machine it is ended already
            await stream.send(b"GET /api/health HTTP/1.1\r\nHost: local")
        with anyio.fail_after(PATIENCE_S), pytest.raises((anyio.EndOfStream, anyio.BrokenResourceError)):
            await stream.receive()


async def test_headers_bodies_and_connections_are_bounded() -> None:
    async with running_gateway(max_connections=2) as (_, address):
        async with address.client() as client:
            assert (await client.get("/api/health", headers={"X": "x" * 20_000})).status_code == 431
            long = {"Content-Type": "application/json", "Content-Length": "1048577"}
            assert await status_of(address, "POST /api/tickets", long) == 413
            piecewise = {"Content-Type": "application/json", "Transfer-Encoding": "chunked"}
            body = b"10001\r\n" + b" " * 65_537 + b"\r\n"
            assert await status_of(address, "POST /api/tickets", piecewise, body * 16) == 413
        async with address.socket() as first, address.socket() as second:
            for one in (first, second):
                assert (await next_frame(one))["type"] == "ready"
            with pytest.raises((httpx.TransportError, OSError)):
                async with address.client() as client:
                    await client.get("/api/health")


async def test_the_log_names_requests_and_none_of_their_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    async with running_gateway() as (_, address), address.client() as client:
        ticket = (await client.post("/api/tickets", json={})).json()["ticket"]
        assert await open_by("events", address, ticket) == 200
        assert await open_by("socket", address, ticket) == 401
        async with address.client({}) as stranger:
            await stranger.get("/api/health", params={"token": address.token}, headers={"X-Codex-Rbac-Token": "s3cret"})
    written = capsys.readouterr()
    text = written.out + written.err
    assert text.count("gateway_request") == 4
    assert "/api/tickets" in text
    for secret in (address.token, ticket, "s3cret"):
        assert secret not in text


async def test_the_address_is_in_a_private_file_while_the_gateway_listens() -> None:
    async with running_gateway() as (daemon, address):
        path = daemon.settings.runtime_dir / "gateway.json"
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert json.loads(path.read_text())["url"] == address.url
        assert address.token not in path.read_text()
    assert not path.exists()
