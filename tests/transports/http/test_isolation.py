"""Whose sessions they are: every route and stream of the gateway, for each kind of session."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import anyio
import httpx
import pytest
from msgspec import Struct, structs

import lifebus
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.http.application import EVENTS, STREAM
from lifebus_transports.http.operations.table import OPERATIONS
from lifebus_transports.messages.steering import AwaitOrder, OrderReport, SteeringState
from support.adapters.app_server_recordings import notice, read_messages
from support.integration.observing import Observer, as_sent, signal
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected
from support.transcripts.boxes import entry
from support.transports.gateway import Address, emit, next_frame, running_gateway

ENTRY = {"messageId": "m9", "turnId": "t1", "role": "system", "type": "note", "content": "x", "status": "complete"}
KINDS: Final = ("user", "system", "deleted", "unknown")
"""The sessions, each named as what it is."""


class Scene(Struct):
    """A gateway, a client of it, and the broker behind."""

    daemon: Daemon
    address: Address
    client: httpx.AsyncClient
    bus: lifebus.Bus
    happened: list[str]


Door = Callable[[Scene, str], Awaitable[str]]


def said(answer: httpx.Response) -> str:
    """What an answer comes to: its status, and the code of a refusal."""
    return " ".join(filter(None, (str(answer.status_code), answer.json().get("code", ""))))


async def show(at: Scene, kind: str) -> str:
    return said(await at.client.get(f"/api/sessions/{kind}"))


async def upsert(at: Scene, kind: str) -> str:
    return said(await at.client.post(f"/api/sessions/{kind}/transcript/upsert", json=ENTRY))


async def suggest(at: Scene, kind: str) -> str:
    return said(await at.client.post(f"/api/sessions/{kind}/suggested-request/jobs", json={}))


async def suggest_and_wait(at: Scene, kind: str) -> str:
    return said(await at.client.post(f"/api/sessions/{kind}/suggested-request", json={"draft": "d"}))


async def upsert_suggestion(at: Scene, kind: str) -> str:
    stands = {"requestKey": "k", "status": "complete", "suggestion": "do"}
    return said(await at.client.post(f"/api/sessions/{kind}/suggested-request/upsert", json=stands))


async def decide(at: Scene, kind: str) -> str:
    """A decision about an approval that the app-server of such a session waits for."""
    steering = sessions_of(at.daemon).steering
    wait = AwaitOrder(client_id="o", adapter_id="codex", origin="o", wait_ms=0)
    await steering.next_order(wait)

    async def observe() -> None:
        for state in (SteeringState.PENDING, SteeringState.DONE):
            order = await steering.next_order(structs.replace(wait, wait_ms=30_000))
            assert order is not None
            number = order.number
            steering.report(OrderReport(client_id="o", origin="o", number=number, state=state, thread=kind, turn="u"))

    found = "nothing"
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(observe)
        found = said(await at.client.post("/api/approvals/u:0/decision", json={"decision": "accept"}))
        tasks.cancel_scope.cancel()
    return found


async def close(at: Scene, kind: str) -> str:
    return said(await at.client.post(f"/api/sessions/{kind}/close", json={"adapterId": "codex"}))


async def forget(at: Scene, kind: str) -> str:
    return said(await at.client.post(f"/api/sessions/{kind}/forget", json={"adapterId": "codex"}))


async def sessions(at: Scene, kind: str) -> str:
    """Whether it is in the list, in that with the workers' own, and found by its name."""
    found: list[str] = []
    for query in ({}, {"includeSystemOwned": "true"}, {"adapter": "codex", "session": kind}):
        data = (await at.client.get("/api/sessions", params=query)).json()["data"]
        found.append("yes" if kind in [one["sessionId"] for one in data] else "no")
    return " ".join(found)


async def transcripts(at: Scene, kind: str) -> str:
    """Whether its transcript is in the list, and in that with the workers' own."""
    found: list[str] = []
    for query in ({}, {"includeSystemOwned": "true"}):
        data = (await at.client.get("/api/transcripts", params=query)).json()["data"]
        found.append("yes" if kind in [one["sessionId"] for one in data] else "no")
    return " ".join(found)


async def receipts(at: Scene, kind: str) -> str:
    items = (await at.client.get("/api/receipts", params={"adapter": "codex", "session": kind})).json()["items"]
    return "facts" if items else "none"


async def signals(at: Scene, kind: str) -> str:
    """What there is of its app-server, and of the transcript's events."""
    found: list[str] = []
    for adapter, thread in (("codex", kind), ("lifebus", f"transcript/{kind}")):
        page = (await at.client.get(f"/api/signals/{adapter}", params={"thread": thread})).json()
        found.append("deleted" if page["deleted"] else "some" if page["items"] else "none")
    return " ".join(found)


async def threads(at: Scene, kind: str) -> str:
    tips = (await at.client.get("/api/signals/codex/threads")).json()["data"]
    kept = [one["head"] - one["floor"] for one in tips if one["thread"] == kind]
    return "none" if not kept else "kept" if kept[0] else "dropped"


async def socket(at: Scene, kind: str) -> str:
    query = f"?threadId={kind}"
    async with at.address.socket(query) as connection:
        begin = await next_frame(connection)
    await happen(at, kind)
    async with at.address.socket(f"{query}&lastEventId={begin['id']}") as connection:
        return await told_by(lambda: next_frame(connection))


async def events(at: Scene, kind: str) -> str:
    query = f"?threadId={kind}"
    async with at.address.events(query) as frames:
        begin = await anext(frames)
    await happen(at, kind)
    async with at.address.events(query, begin["id"]) as frames:
        return await told_by(lambda: anext(frames))


async def happen(at: Scene, kind: str) -> None:
    """Have its app-server say something, and its transcript change."""
    await Observer(at.bus, origin=f"happens-{kind}-{len(at.happened)}").observe(signal(kind))
    at.happened.append(kind)
    entry_of = ENTRY | {"messageId": f"m{len(at.happened)}", "content": kind}
    await at.client.post(f"/api/sessions/{kind}/transcript/upsert", json=entry_of)


async def told_by(take: Callable[[], Awaitable[Any]]) -> str:
    """What a stream tells of, up to where its topics were when it began."""
    ready = (await take())["payload"]
    assert ready["resume"] == "complete"
    left = sum(one["head"] - one["after"] for one in ready["topics"])
    with anyio.fail_after(PATIENCE_S):
        found = [(await take())["type"] for _ in range(left)]
    return " ".join(sorted(found)) or "nothing"


DELTA, UPDATED = "app_server.item.agent_message.delta", "transcript_updated"
BOTH = f"{DELTA} {UPDATED}"
DOORS: Final[dict[str, tuple[Door, tuple[str, str, str, str]]]] = {
    "session": (show, ("200", "200", "410 session_deleted", "404 no_session")),
    "upsertEntry": (upsert, ("200", "200", "410 session_deleted", "404 no_session")),
    "suggestRequest": (
        suggest,
        ("409 job_conflict", "403 system_session", "410 session_deleted", "404 no_session"),
    ),
    "suggestRequestAndWait": (
        suggest_and_wait,
        ("409 job_conflict", "403 system_session", "410 session_deleted", "404 no_session"),
    ),
    "upsertSuggestion": (upsert_suggestion, ("200", "403 system_session", "410 session_deleted", "404 no_session")),
    "decideApproval": (decide, ("200", "403 system_session", "410 session_deleted", "200")),
    "sessions": (sessions, ("yes yes yes", "no yes yes", "no no no", "no no no")),
    "transcripts": (transcripts, ("yes yes", "no yes", "no no", "no no")),
    "receipts": (receipts, ("facts", "facts", "facts", "none")),
    "signals": (signals, ("some some", "none some", "deleted deleted", "none none")),
    "threads": (threads, ("kept", "none", "dropped", "none")),
    STREAM: (socket, (BOTH, UPDATED, "nothing", BOTH)),
    EVENTS: (events, (BOTH, UPDATED, "nothing", BOTH)),
    "closeSession": (close, ("200", "403 system_session", "410 session_deleted", "404 no_session")),
    "forgetSession": (forget, ("200", "403 system_session", "410 session_deleted", "404 no_session")),
}
"""What each route that may tell of a session, and each stream, answers for each kind (docs/gateway.md, "Sessions")."""

OF_NO_SESSION: Final = {
    "health": "the broker",
    "status": "the broker and its harnesses",
    "login": "a page",
    "logout": "a page",
    "giveTicket": "whoever follows",
    "metrics": "the broker and its harnesses, as numbers",
    "openapi": "the gateway",
    "asyncapi": "the gateway",
    "job": "a job, which stays when its session is deleted",
    "cancelJob": "a job",
    "jobs": "a project",
    "allJobs": "the jobs",
    "questions": "questions to people, which stay when a session is deleted",
    "answerQuestion": "a question",
    "runs": "runs of flows",
    "run": "a run of a flow, which stays when its sessions are deleted",
    "abortRun": "a run of a flow",
    "consumers": "the named consumers",
    "clients": "the callback clients",
    "capabilities": "the adapters' manifests",
    "deadLetters": "receipts that a consumer was given before",
    "resetConsumer": "a named consumer",
    "ledger": "the ledger, as numbers",
    "checkLedger": "the ledger's chain",
    "doctor": "this machine",
    "hooks": "the harnesses' settings on this machine",
    "extensions": "the extensions",
    "reloadExtensions": "the extensions",
}
"""The other routes, and what each is about."""


def test_every_route_and_stream_has_its_row() -> None:
    routes = [operation.name for operation in OPERATIONS] + [EVENTS, STREAM]
    assert sorted(routes) == sorted([*DOORS, *OF_NO_SESSION])
    assert len(set(routes)) == len(routes)


async def make_sessions(bus: lifebus.Bus, daemon: Daemon) -> None:
    observer = Observer(bus)
    for kind in ("user", "system", "deleted"):
        await emit(bus, kind)
    await sessions_of(daemon).transcripts.marks.mark_system("system", 1)
    for kind in ("user", "deleted"):
        await observer.observe(signal(kind))
    for kind in ("user", "system", "deleted"):
        await bus.transcripts.upsert(kind, entry())
    await observer.observe(*as_sent(read_messages(notice("thread/deleted", threadId="deleted"))))


@pytest.mark.parametrize("restarted", [False, True], ids=["at once", "after a restart"])
async def test_each_route_and_stream_keeps_to_whose_session_it_is(restarted: bool, tmp_path: Path) -> None:
    if restarted:
        async with running_gateway(tmp_path, whole=True) as (daemon, _), connected(daemon) as bus:
            await make_sessions(bus, daemon)
    found: dict[str, tuple[str, ...]] = {}
    async with (
        running_gateway(tmp_path, whole=True) as (daemon, address),
        connected(daemon) as bus,
        address.client() as client,
    ):
        if not restarted:
            await make_sessions(bus, daemon)
        at = Scene(daemon, address, client, bus, [])
        for name, (door, _) in DOORS.items():
            found[name] = tuple([await door(at, kind) for kind in KINDS])
    assert found == {name: expected for name, (_, expected) in DOORS.items()}
