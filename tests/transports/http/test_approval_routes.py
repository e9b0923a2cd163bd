"""The route by which a person decides what an app-server waits for, before an observer that says what a test says."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx
import pytest

from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.steering import AwaitOrder, OrderReport, SteeringOrder, SteeringState
from support.parts import sessions_of
from support.transports.gateway import running_gateway
from support.transports.schemas import fits

PATH = "/api/approvals/{approvalId}/decision"
DECIDE = "/api/approvals/u1:0/decision"
FOUND, DONE = SteeringState.PENDING, SteeringState.DONE


async def observe(daemon: Daemon, states: list[SteeringState], orders: list[SteeringOrder], thread: str) -> None:
    """Report each order with the next of some states, as the observer of an app-server."""
    wait = AwaitOrder(client_id="o", adapter_id="codex", origin="o", wait_ms=30_000)
    for state in states:
        order = await sessions_of(daemon).steering.next_order(wait)
        assert order is not None
        orders.append(order)
        report = OrderReport(client_id="o", origin="o", number=order.number, state=state, thread=thread, turn="u1")
        sessions_of(daemon).steering.report(report)


@asynccontextmanager
async def decided(
    *states: SteeringState, thread: str = "t1"
) -> AsyncGenerator[tuple[Daemon, httpx.AsyncClient, list[SteeringOrder]]]:
    """A gateway before an app-server whose observer reports so."""
    orders: list[SteeringOrder] = []
    async with (
        running_gateway(whole=True) as (daemon, address),
        address.client() as client,
        anyio.create_task_group() as tasks,
    ):
        # Before it is asked: an observer that never waited is not there.
        await sessions_of(daemon).steering.next_order(
            AwaitOrder(client_id="o", adapter_id="codex", origin="o", wait_ms=0)
        )
        tasks.start_soon(observe, daemon, list(states), orders, thread)
        yield daemon, client, orders
        tasks.cancel_scope.cancel()


async def test_a_person_decides_and_whoever_it_was_is_said() -> None:
    async with decided(FOUND, DONE) as (_, client, orders):
        body = {"decision": "accept", "scope": "session", "responder": "ann", "more": 1}
        answer = await client.post(DECIDE, json=body)
        assert fits(answer, "post", PATH) == {"status": "ok", "approvalId": "u1:0", "threadId": "t1"}
        found, told = orders
        assert (found.kind, found.approval_id) == ("approval", "u1:0")
        assert (told.kind, told.decision, told.for_session, told.by) == ("decide", "accept", True, "person:ann")


async def test_who_does_not_say_it_is_whoever_has_the_token() -> None:
    async with decided(FOUND, DONE) as (_, client, orders):
        assert (await client.post(DECIDE, json={"decision": "cancel"})).status_code == 200
        assert (orders[1].by, orders[1].for_session) == ("person:gateway", False)


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ((SteeringState.ABSENT,), (404, "not_found", "no_approval")),
        ((SteeringState.LATE,), (409, "reconciled", "already_resolved")),
        ((FOUND, SteeringState.LATE), (409, "reconciled", "already_resolved")),
        ((FOUND, SteeringState.UNREACHABLE), (503, "error", "app_server_unreachable")),
        ((FOUND, SteeringState.UNKNOWN), (504, "error", "outcome_unknown")),
    ],
)
async def test_every_other_outcome_has_its_answer(
    states: tuple[SteeringState, ...], expected: tuple[int, str, str]
) -> None:
    async with decided(*states) as (_, client, _):
        answer = await client.post(DECIDE, json={"decision": "decline"})
        assert answer.json()["status"] == expected[1]
        body = fits(answer, "post", PATH)
        assert (answer.status_code, body["status"], body["code"]) == expected


async def test_an_approval_of_a_deleted_session_and_of_a_workers_is_not_decided() -> None:
    for session, expected in (("gone", (410, "session_deleted")), ("worker", (403, "system_session"))):
        async with decided(FOUND, thread=session) as (daemon, client, orders):
            await sessions_of(daemon).transcripts.store.marks.mark_deleted("gone", 1)
            await sessions_of(daemon).transcripts.store.marks.mark_system("worker", 1)
            answer = await client.post(DECIDE, json={"decision": "accept"})
            assert (answer.status_code, fits(answer, "post", PATH)["code"]) == expected
            assert [one.kind for one in orders] == ["approval"]


async def test_a_decision_is_read_before_its_approval_is_looked_for() -> None:
    wrong: list[dict[str, Any]] = [
        {},
        {"decision": "maybe"},
        {"decision": "accept", "scope": "always"},
        {"decision": "accept", "responder": ""},
        {"decision": "accept", "responder": "a\nb"},
        {"decision": "accept", "responder": "x" * 129},
    ]
    async with decided() as (_, client, orders):
        for body in wrong:
            answer = await client.post(DECIDE, json=body)
            assert (answer.status_code, fits(answer, "post", PATH)["code"]) == (400, "invalid_request"), body
        assert orders == []
    async with running_gateway(whole=True) as (_, address), address.client() as client:
        # Without any app-server nobody waits for anything.
        assert (await client.post(DECIDE, json={"decision": "accept"})).status_code == 404
