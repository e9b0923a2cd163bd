"""Callers of one tick share a message behind the first, and none of them suffers from a neighbour."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import structs

import lifebus
from lifebus_broker.ledger.refusals import BUSY
from lifebus_contract import (
    BrokerBusy,
    CallbackRequest,
    DeadlineExceeded,
    Emission,
    InvalidRequest,
    LifebusError,
    RetryClass,
    TransportError,
)
from lifebus_contract.fields import MAX_MESSAGE_BYTES
from lifebus_supervisor.daemon.composition import Daemon
from support.bus_box import payload
from support.integration.following import emit, frame, recorded
from support.patience import PATIENCE_S
from support.running import connected, running_bus


@contextmanager
def messages(daemon: Daemon) -> Iterator[list[int]]:
    """Count the messages that arrive at the request door inside the block."""
    counters = daemon.requests.counters
    before, found = counters.requests, [0]
    yield found
    found[0] = counters.requests - before


def with_metadata(value: Any) -> CallbackRequest:
    return structs.replace(frame(), metadata={"x": value})


IMPOSSIBLE: dict[str, Emission] = {
    "oversized": Emission(request=frame(), payloads=(payload(body="x" * MAX_MESSAGE_BYTES),)),
    "empty adapter id": Emission(request=structs.replace(frame(), adapter_id="")),
    "no MessagePack": Emission(request=with_metadata(object())),
    "lone surrogate": Emission(request=with_metadata("\ud800")),
    "integer out of range": Emission(request=with_metadata(2**60)),
}


async def test_the_first_caller_waits_for_nobody_and_those_behind_it_share_messages_of_64() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with messages(daemon) as sent:
            results = await asyncio.gather(*(bus.emit(frame()) for _ in range(1 + 3 * 64)))
        assert sent == [4]
        assert [one.receipts[0].sequence for one in results] == list(range(1, 194))


async def test_one_list_is_recorded_in_its_order_in_as_few_messages() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with messages(daemon) as sent:
            results = await emit(bus, *["s1"] * 130)
        assert sent == [3]
        assert [one.receipts[0].sequence for one in results] == list(range(1, 131))


async def test_an_empty_list_asks_nobody() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with messages(daemon) as sent:
            assert await bus.emit([]) == []
        assert sent == [0]


async def test_messages_are_cut_where_they_would_be_too_large() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        large = [Emission(request=frame(), payloads=(payload(body="x" * 6_000),)) for _ in range(64)]
        with messages(daemon) as sent:
            results = await bus.emit(large)
        assert 2 <= sent[0] <= 4
        assert [one.receipts[0].sequence for one in results] == list(range(1, 65))


@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_an_impossible_emission_is_refused_alone(name: str) -> None:
    bad = IMPOSSIBLE[name]
    async with running_bus() as daemon, connected(daemon) as bus:
        good = [bus.emit(frame()) for _ in range(20)]
        results = await asyncio.gather(*good[:10], bus.emit(bad), *good[10:], return_exceptions=True)
        assert [type(one) for one in results] == [lifebus.Emitted] * 10 + [InvalidRequest] + [lifebus.Emitted] * 10
        assert len(await recorded(daemon)) == 20
        assert not bus._connection._pending


@pytest.mark.parametrize("name", IMPOSSIBLE)
async def test_an_impossible_emission_in_a_list_is_a_refusal_in_its_place(name: str) -> None:
    bad = IMPOSSIBLE[name]
    async with running_bus() as daemon, connected(daemon) as bus:
        results = await bus.emit([frame(), bad, frame()])
        assert [isinstance(one.refusal, InvalidRequest) for one in results] == [False, True, False]
        assert len(await recorded(daemon)) == 2


async def test_callers_that_left_before_the_message_went_out_are_not_in_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        stay, leave = (asyncio.ensure_future(bus.emit(frame())) for _ in range(2))
        await asyncio.sleep(0)
        leave.cancel()
        assert (await stay).receipts[0].sequence == 1
        assert len(await recorded(daemon)) <= 2


async def test_a_busy_broker_is_asked_again_even_without_a_key() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        append, refusals = daemon.bus.ledger.append, [3]

        def full(receipts: Any, done: Any) -> Any:
            if refusals[0]:
                refusals[0] -= 1
                return BUSY
            return append(receipts, done)

        daemon.bus.ledger.append = full  # type: ignore[method-assign]  # a full ledger is the point
        results = await bus.emit([frame(idempotency_key=None), frame(idempotency_key=None)])
        assert [one.receipts[0].sequence for one in results] == [1, 2]


async def test_a_broker_that_stays_busy_is_named_when_the_time_is_over() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        daemon.api.stopping = True
        bus.timeout = 0.2
        with pytest.raises((BrokerBusy, DeadlineExceeded)) as caught:  # the last try may still be unanswered
            await bus.emit(frame())
        assert caught.value.retry_class is RetryClass.SAFE_RETRY
        daemon.api.stopping = False
        bus.timeout = PATIENCE_S
        assert not (await bus.emit(frame())).replayed


async def test_too_many_open_questions_are_refused_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus._internal.connection._MAX_PENDING", 2)
    async with running_bus() as daemon, connected(daemon) as bus:
        results = await asyncio.gather(*(bus.status() for _ in range(5)), return_exceptions=True)
        assert sum(isinstance(one, BrokerBusy) for one in results) == 3
        assert (await bus.status()).pid


async def test_callers_learn_when_their_connection_is_closed_and_nothing_is_left_behind() -> None:
    async with running_bus() as daemon:
        async with connected(daemon) as bus:
            daemon.requests.close()
            waiting = [asyncio.ensure_future(bus.emit(frame(idempotency_key=key))) for key in (None, None, "k1")]
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        results = await asyncio.wait_for(asyncio.gather(*waiting, return_exceptions=True), PATIENCE_S)
        assert [type(one) for one in results] == [TransportError] * 3
        with pytest.raises(LifebusError, match="closed"):
            await bus.emit(frame())
