"""Dispatches to workers: every one is answered once, by the one who was asked, or fails with the reason."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec
import pytest

from lifebus_contract import (
    CallbackResponse,
    DeadlineExceeded,
    DispatchEnvelope,
    FailureClass,
    LifebusError,
    TransportError,
)
from lifebus_supervisor.api.dispatches import Dispatches, WorkerInvoker
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.workers import Dispatch, Response
from support.broker_process import until
from support.golden import golden
from support.supervisor.peers import FakeCall, FakePeer

ENVELOPE = msgspec.convert(golden("dispatch"), DispatchEnvelope)
OK = CallbackResponse.ok()
FAILED = CallbackResponse.failed(FailureClass.TIMEOUT)


class Asking:
    """Dispatches to fake peers; `outcomes` holds what became of each, by its place in line."""

    def __init__(self, *peers: str) -> None:
        self.peers = [FakePeer(peer) for peer in peers]
        self.dispatches = Dispatches()
        self.outcomes: dict[int, object] = {}

    async def ask(self, place: int) -> None:
        try:
            self.outcomes[place] = await WorkerInvoker(self.dispatches, self.peers[place], "w", 500).invoke(
                ENVELOPE, {}
            )
        except LifebusError as fault:
            self.outcomes[place] = (fault.failure_class.value, fault.code)

    def answer(self, peer: str, place: int, response: Response) -> None:
        """Have a connection answer the question at that place in line."""
        number = self.peers[place].sent[0][0]
        self.dispatches.resolve(FakeCall(FakePeer(peer), number), response)


@asynccontextmanager
async def asking(*peers: str) -> AsyncIterator[Asking]:
    """Ask each peer once; all of them have an outcome at the end of the block."""
    found = Asking(*peers)
    async with anyio.create_task_group() as tasks:
        for place in range(len(peers)):
            tasks.start_soon(found.ask, place)
        await until(lambda: all(peer.sent for peer in found.peers))
        yield found
    assert found.dispatches._waiting == {}


async def test_a_response_finds_its_question_among_several() -> None:
    async with asking("a", "a") as found:
        found.answer("a", 1, Response(response=FAILED))
        found.answer("a", 0, Response(response=OK))
    assert found.outcomes == {0: OK, 1: FAILED}
    assert found.peers[0].sent[0][1:] == ("dispatch", Dispatch(client_id="w", envelope=ENVELOPE, deadline_ms=500))


async def test_only_the_connection_that_was_asked_may_answer_and_only_once() -> None:
    async with asking("a", "b") as found:
        found.answer("a", 1, Response(response=FAILED))
        found.answer("b", 0, Response(response=FAILED))
        found.dispatches.resolve(FakeCall(FakePeer("a"), 999), Response(response=FAILED))
        assert found.outcomes == {}
        for place, peer in enumerate(("a", "b")):
            found.answer(peer, place, Response(response=OK))
            found.answer(peer, place, Response(response=FAILED))
    assert found.outcomes == {0: OK, 1: OK}
    found.answer("a", 0, Response(response=FAILED))


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (Response(refusal=RefusalInfo.of(TransportError("x", code="crashed"))), ("transport_error", "crashed")),
        (Response(refusal=RefusalInfo.of(DeadlineExceeded("x", code="slow"))), ("timeout", "slow")),
        (Response(), ("transport_error", "bad_answer")),
    ],
)
async def test_a_worker_that_does_not_answer_well_fails_its_dispatch_with_the_reason(
    answer: Response, expected: tuple[str, str]
) -> None:
    async with asking("a") as found:
        found.answer("a", 0, answer)
    assert found.outcomes == {0: expected}


async def test_a_worker_that_goes_away_fails_what_it_owes_and_nothing_of_others() -> None:
    async with asking("a", "b", "a") as found:
        found.dispatches.fail("a")
        found.answer("b", 1, Response(response=OK))
    gone = ("transport_error", "worker_gone")
    assert found.outcomes == {0: gone, 1: OK, 2: gone}


async def test_a_worker_that_is_not_connected_fails_at_once() -> None:
    found = Asking("a")
    found.peers[0].gone = True
    await found.ask(0)
    assert found.outcomes == {0: ("transport_error", "worker_gone")}
    assert found.dispatches._waiting == {}


async def test_a_question_that_is_given_up_is_forgotten_and_its_late_answer_dropped() -> None:
    found = Asking("a")
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(found.ask, 0)
        await until(lambda: bool(found.peers[0].sent))
        tasks.cancel_scope.cancel()
    found.answer("a", 0, Response(response=OK))
    assert (found.outcomes, found.dispatches._waiting) == ({}, {})
