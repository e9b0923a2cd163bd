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
from lifebus_transports.messages.common import RefusalInfo
from lifebus_transports.messages.workers import Dispatch, Response
from lifebus_transports.zmq.requests import Caller
from lifebus_transports.zmq.workers import Dispatches, WorkerInvoker
from support.broker_process import until
from support.golden import golden

ENVELOPE = msgspec.convert(golden("dispatch"), DispatchEnvelope)
OK = CallbackResponse.ok()
FAILED = CallbackResponse.failed(FailureClass.TIMEOUT)


class FakeDoor:
    """Notes what is sent; sends nothing when it is `gone`."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, int, str, object]] = []
        self.gone = False

    def send(self, peer: bytes, correlation: int, verb: str, body: object) -> bool:
        if not self.gone:
            self.sent.append((peer, correlation, verb, body))
        return not self.gone


class Asking:
    """Dispatches over a fake door; `outcomes` holds what became of each, by its place in line."""

    def __init__(self) -> None:
        self.door = FakeDoor()
        self.dispatches = Dispatches(self.door)  # type: ignore[arg-type]
        self.outcomes: dict[int, object] = {}

    async def ask(self, place: int, peer: bytes) -> None:
        try:
            self.outcomes[place] = await WorkerInvoker(self.dispatches, peer, "w", 500).invoke(ENVELOPE, {})
        except LifebusError as fault:
            self.outcomes[place] = (fault.failure_class.value, fault.code)

    def answer(self, peer: bytes, place: int, response: Response) -> None:
        """Have a connection answer the question at that place in line."""
        self.dispatches.resolve(Caller(peer, self.door.sent[place][1]), response)


@asynccontextmanager
async def asking(*peers: bytes) -> AsyncIterator[Asking]:
    """Ask each peer once; all of them have an outcome at the end of the block."""
    found = Asking()
    async with anyio.create_task_group() as tasks:
        for place, peer in enumerate(peers):
            tasks.start_soon(found.ask, place, peer)
        await until(lambda: len(found.door.sent) == len(peers))
        yield found
    assert found.dispatches._waiting == {}


async def test_a_response_finds_its_question_among_several() -> None:
    async with asking(b"a", b"a") as found:
        found.answer(b"a", 1, Response(response=FAILED))
        found.answer(b"a", 0, Response(response=OK))
    assert found.outcomes == {0: OK, 1: FAILED}
    assert found.door.sent[0][2:] == ("dispatch", Dispatch(client_id="w", envelope=ENVELOPE, deadline_ms=500))


async def test_only_the_connection_that_was_asked_may_answer_and_only_once() -> None:
    async with asking(b"a", b"b") as found:
        found.answer(b"a", 1, Response(response=FAILED))
        found.answer(b"b", 0, Response(response=FAILED))
        found.dispatches.resolve(Caller(b"a", 999), Response(response=FAILED))
        assert found.outcomes == {}
        for place, peer in enumerate((b"a", b"b")):
            found.answer(peer, place, Response(response=OK))
            found.answer(peer, place, Response(response=FAILED))
    assert found.outcomes == {0: OK, 1: OK}
    found.answer(b"a", 0, Response(response=FAILED))


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
    async with asking(b"a") as found:
        found.answer(b"a", 0, answer)
    assert found.outcomes == {0: expected}


async def test_a_worker_that_goes_away_fails_what_it_owes_and_nothing_of_others() -> None:
    async with asking(b"a", b"b", b"a") as found:
        found.dispatches.fail(b"a")
        found.answer(b"b", 1, Response(response=OK))
    gone = ("transport_error", "worker_gone")
    assert found.outcomes == {0: gone, 1: OK, 2: gone}


async def test_a_worker_that_is_not_connected_fails_at_once() -> None:
    found = Asking()
    found.door.gone = True
    await found.ask(0, b"a")
    assert found.outcomes == {0: ("transport_error", "worker_gone")}
    assert found.dispatches._waiting == {}


async def test_a_question_that_is_given_up_is_forgotten_and_its_late_answer_dropped() -> None:
    found = Asking()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(found.ask, 0, b"a")
        await until(lambda: bool(found.door.sent))
        tasks.cancel_scope.cancel()
    found.answer(b"a", 0, Response(response=OK))
    assert (found.outcomes, found.dispatches._waiting) == ({}, {})
