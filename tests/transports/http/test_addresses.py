"""Ids in addresses: every one that there can be is reached, encoded, and none is taken for another route or id."""

import json
from typing import Any, Final
from urllib.parse import quote

import anyio
import pytest

from lifebus_contract.jobs import NewJob
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.http.operations.operation import NoFields, Operation
from lifebus_transports.http.operations.table import OPERATIONS
from lifebus_transports.messages.steering import AwaitOrder, OrderReport, SteeringState
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected
from support.transports.gateway import Address, running_gateway

ENTRY: Final = {
    "messageId": "m",
    "turnId": "t",
    "role": "user",
    "type": "note",
    "content": "x",
    "status": "complete",
}
BODIES: Final[dict[str, Any]] = {
    "upsertEntry": ENTRY,
    "upsertSuggestion": {"requestKey": "k", "status": "complete", "suggestion": "do"},
    "decideApproval": {"decision": "accept"},
}
HOSTILE: Final = (
    "a/b",
    "/",
    "//a//",
    "a/transcript/upsert",
    "x/cancel",
    "..",
    ".",
    "a/../b",
    "%",
    "%2F",
    "100%25",
    'u1:"a/b"',
    "é",
    "日本語/🚌",
    "e\u0301",
    "a b+c",
    "?x=1&y",
    "#f",
    "a;b,c=d",
    "\\..\\",
    "<script>",
    "__proto__",
)
"""Ids that are printable: whoever makes them may choose them so."""

UNPRINTABLE: Final = ("a\nb", "a\n", "\x00", "\r\n\r\nGET /", "\u2028", "\x7f", "\ufeffa", "a\x1b[2J")
NO_ROUTE: Final = "there is no such route"


async def ask(address: Address, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    """Send a request as it is written here, which no client has made nicer; return its status and body."""
    data = b"" if body is None else json.dumps(body).encode()
    lines = [f"{method} {target} HTTP/1.1", f"Host: localhost:{address.port}", "Connection: close"]
    lines += [
        f"Authorization: Bearer {address.token}",
        "Content-Type: application/json",
        f"Content-Length: {len(data)}",
    ]
    answer = b""
    async with await anyio.connect_tcp("127.0.0.1", address.port) as stream:
        await stream.send("\r\n".join([*lines, "", ""]).encode() + data)
        with anyio.fail_after(PATIENCE_S):
            async for chunk in stream:
                answer += chunk
    head, _, rest = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(rest)


def part(text: str) -> str:
    """An id as a part of an address: dots, too, which are the place above where they stand alone."""
    return quote(text, safe="").replace(".", "%2E")


def address_of(operation: Operation, text: str) -> str:
    names = [field for field in operation.path.split("/") if field.startswith("{")]
    assert len(names) == 1
    return operation.path.replace(names[0], text)


WITH_AN_ID: Final = [operation for operation in OPERATIONS if operation.place is not NoFields]


def body_of(operation: Operation) -> Any:
    return BODIES.get(operation.name, {}) if operation.method == "POST" else None


async def test_every_route_takes_every_id_and_names_that_one() -> None:
    assert len(WITH_AN_ID) > 8
    async with running_gateway(whole=True) as (_, address):
        for operation in WITH_AN_ID:
            for text in (*HOSTILE, *UNPRINTABLE):
                status, body = await ask(
                    address, operation.method, address_of(operation, part(text)), body_of(operation)
                )
                at = (operation.name, text, status, body)
                assert status in {400, 403, *operation.answers}, at
                assert body.get("message") != NO_ROUTE, at
                assert status != 200 or text.isprintable() or operation.name in {"jobs", "signals", "threads"}, at
                for name in operation.place.__struct_encode_fields__:
                    assert body.get(name, text) == text, at


async def test_an_empty_id_is_no_route_and_what_cannot_be_read_is_said() -> None:
    async with running_gateway(whole=True) as (_, address):
        for operation in WITH_AN_ID:
            status, body = await ask(address, operation.method, address_of(operation, ""), body_of(operation))
            assert (status, body["message"]) == (404, NO_ROUTE), operation.name
            for wrong in ("%", "%2", "%zz", "a%g0", "%ff", "%c3", "%c3%28", "%ed%a0%80", "%c0%af"):
                status, body = await ask(address, operation.method, address_of(operation, wrong), body_of(operation))
                assert (status, body.get("code")) == (400, "invalid_request"), (operation.name, wrong)
                assert "percent-encoded" in body["message"]


@pytest.mark.parametrize(
    ("method", "target", "status"),
    [
        ("GET", "/api/health%0A", 404),
        ("GET", "/api%2Fhealth", 404),
        ("GET", "/api/agents/extensions%0A", 404),
        ("GET", "/api/agents%2Fextensions", 404),
        ("GET", "//api/health", 404),
        ("GET", "/api/health/", 404),
        ("GET", "/api/./health", 404),
        ("GET", "/api/x/%2E%2E/health", 404),
        ("GET", "/api%2Fevents", 404),
        ("GET", "/api/events%0A", 404),
        ("GET", "/api/%68ealth", 200),
        ("POST", "/api/sessions/x%2Ftranscript/upsert", 404),
        ("POST", "/api/sessions/x%2Ftranscript%2Fupsert", 405),
        ("POST", "/api/orchestrator/jobs/x%2Fcancel", 405),
        ("POST", "/api/approvals/a%2Fdecision", 404),
    ],
)
async def test_what_is_encoded_in_a_part_never_makes_another_route(method: str, target: str, status: int) -> None:
    async with running_gateway(whole=True) as (_, address):
        found, body = await ask(address, method, target, {} if method == "POST" else None)
        assert (found, body.get("message", NO_ROUTE)) == (status, NO_ROUTE)


async def test_roles_are_asked_for_however_a_route_is_written() -> None:
    async with running_gateway(whole=True) as (_, address):
        stranger = Address(address.url, "x" * 43)
        for target in ("/api/agents/extensions", "/api/%61gents/%65xtensions", "/api/agents/%65xtensions"):
            assert (await ask(stranger, "GET", target))[0] == 401
            assert (await ask(address, "GET", target))[0] == 200


async def test_each_session_is_the_one_that_was_named() -> None:
    async with running_gateway(whole=True) as (daemon, address), connected(daemon) as bus:
        for text in HOSTILE:
            status, body = await ask(address, "POST", f"/api/sessions/{part(text)}/transcript/upsert", ENTRY)
            assert (status, body["code"]) == (404, "no_session"), text
        for text in HOSTILE:
            await sessions_of(daemon).transcripts.marks.mark_system(text, 1)
            target = f"/api/sessions/{part(text)}"
            status, _ = await ask(address, "POST", f"{target}/transcript/upsert", ENTRY | {"content": text})
            assert status == 200
        for text in HOSTILE:
            status, body = await ask(address, "GET", f"/api/sessions/{part(text)}")
            assert (status, body["thread"]["id"]) == (200, text)
            assert [one["content"] for one in body["transcript"]] == [text]
            # Beside the gateway.
            assert [one.content for one in await bus.transcripts.entries(text)] == [text]


async def test_each_project_has_its_own_jobs() -> None:
    async with running_gateway(whole=True) as (daemon, address):
        for number, text in enumerate(HOSTILE):
            payload = {"argv": ["true"], "cwd": "/"}
            # It waits for ever, so that nothing runs.
            job = NewJob(type="command", project_id=text, payload=payload, job_id=f"j{number}", not_before_ms=2**52)
            await sessions_of(daemon).queue.enqueue(job)
        for number, text in enumerate(HOSTILE):
            status, body = await ask(address, "GET", f"/api/projects/{part(text)}/orchestrator/jobs")
            assert (status, [one["id"] for one in body["data"]]) == (200, [f"j{number}"])


async def test_each_approval_is_the_one_that_was_named() -> None:
    async with running_gateway(whole=True) as (daemon, address):
        for text in HOSTILE:
            assert await decided(daemon, address, text) == (200, text, text)


async def decided(daemon: Daemon, address: Address, text: str) -> tuple[int, str, str]:
    """Have an approval be decided; return the status, and the id as it is answered and as the app-server is asked."""
    steering, asked = sessions_of(daemon).steering, [""]
    wait = AwaitOrder(client_id="o", adapter_id="codex", origin="o", wait_ms=0)
    # Before it is asked: an observer that never waited is not there.
    await steering.next_order(wait)

    async def observe() -> None:
        for state in (SteeringState.PENDING, SteeringState.DONE):
            order = await steering.next_order(AwaitOrder(client_id="o", adapter_id="codex", origin="o", wait_ms=30_000))
            assert order is not None
            asked[0] = order.approval_id or asked[0]
            steering.report(
                OrderReport(client_id="o", origin="o", number=order.number, state=state, thread="t", turn="u")
            )

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observe)
        status, body = await ask(address, "POST", f"/api/approvals/{part(text)}/decision", {"decision": "accept"})
        tasks.cancel_scope.cancel()
    return status, body.get("approvalId", ""), asked[0]
