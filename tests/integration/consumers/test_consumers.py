"""Named consumers: each receipt at least once, until it is acknowledged; no loss without a word (docs/consuming.md)."""

import asyncio
from contextlib import AsyncExitStack
from functools import partial

import pytest

import lifebus
from lifebus import ConsumerSettings, Deliveries, Delivery, consumer
from lifebus_contract import InvalidRequest, StateConflict
from lifebus_contract.codec import decode_receipt
from lifebus_contract.consumers import MAX_TRIES
from lifebus_supervisor.api import consumers
from lifebus_supervisor.daemon.composition import Daemon
from support.broker_process import broker_process
from support.integration.consuming import emitted, nothing_comes, places, standing, take
from support.integration.following import until
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered

QUICK = ConsumerSettings(retry_ms=1)


def vanish(daemon: Daemon, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the broker take every consumer for gone, as it does after three silent seconds."""
    with monkeypatch.context() as patched:
        patched.setattr(consumers, "LEASE_S", -1.0)
        daemon.consumers.sweep()


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
async def test_every_receipt_comes_once_in_order_to_who_acknowledges(backend: str) -> None:
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        await emitted(bus, 200)
        async with bus.consume("n", since="start") as deliveries:
            for place in range(1, 201):
                (delivery,) = await take(deliveries, 1)
                assert (delivery.position, delivery.attempt, delivery.cursor.position) == (place, 1, place)
                await delivery.ack()
            info = await standing(bus)
            assert (info.position, info.lag, info.open, info.attached) == (200, 0, 0, True)
            await emitted(bus, 1)
            assert places(await take(deliveries, 1)) == [(201, 1)]


@pytest.mark.parametrize(("soon_s", "asked"), [(PATIENCE_S, ["ack", "fetch"]), (0.0, ["ack"])])
async def test_only_who_asks_for_more_at_once_has_it_fetched_with_the_acknowledgement(
    monkeypatch: pytest.MonkeyPatch, soon_s: float, asked: list[str]
) -> None:
    monkeypatch.setattr(consumer, "_PROMPT_S", soon_s)
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 10)
        async with bus.consume("n", ConsumerSettings(max_in_flight=2), since="start") as deliveries:
            await deliveries.ack(await take(deliveries, 2))
            two = await take(deliveries, 2)
            sent: list[str] = []
            post = bus._connection.post

            def noting(verb: str, body: bytes) -> "asyncio.Future[bytes]":
                sent.extend([verb] if verb in {"ack", "fetch"} else [])
                return post(verb, body)

            monkeypatch.setattr(bus._connection, "post", noting)
            await deliveries.ack(two[:1])
            await deliveries.ack(two[1:])
            # The first leaves nothing to be read either: the fetch behind it waits, and the second adds none.
            assert sent == [*asked, "ack"]
            assert places(await take(deliveries, 2)) == [(5, 1), (6, 1)]
        assert (await standing(bus)).in_flight == 0


@pytest.mark.parametrize("most", [1, 64])
async def test_no_more_is_handed_out_than_may_be_in_flight(most: int) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 100)
        async with bus.consume("n", ConsumerSettings(max_in_flight=most), since="start") as deliveries:
            first = await take(deliveries, most)
            await nothing_comes(deliveries)
            assert (await standing(bus)).in_flight == most
            await first[0].ack()
            assert places(await take(deliveries, 1)) == [(most + 1, 1)]


async def test_acknowledgements_out_of_order_survive_a_restart_of_the_broker() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 10)
            async with bus.consume("n", since="start") as deliveries:
                got = await take(deliveries, 10)
                await deliveries.ack([got[8], got[1], got[2]])
                await got[4].ack()
                assert (await standing(bus)).position == 0
                await got[0].ack()
                assert (await standing(bus)).position == 3
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            assert (await standing(bus)).open == 5
            async with bus.consume("n") as deliveries:
                assert [one.position for one in await take(deliveries, 5)] == [4, 6, 7, 8, 10]
                await nothing_comes(deliveries)


async def test_everything_up_to_a_position_is_acknowledged_at_once() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 300)
        async with bus.consume("n", ConsumerSettings(max_in_flight=300), since="start") as deliveries:
            got = await take(deliveries, 300)
            await deliveries.ack(got)
            assert (await standing(bus)).position == 300


async def test_a_refused_receipt_comes_again_after_its_delay_and_others_go_on() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 3)
        async with bus.consume("n", ConsumerSettings(max_in_flight=2), since="start") as deliveries:
            one, two = await take(deliveries, 2)
            await one.nack(delay=0)
            await two.ack()
            assert places(await take(deliveries, 2)) == [(1, 2), (3, 1)]


async def test_what_is_not_acknowledged_in_time_comes_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 1)
        async with bus.consume("n", ConsumerSettings(ack_wait_ms=30, retry_ms=1), since="start") as deliveries:
            assert places(await take(deliveries, 3)) == [(1, 1), (1, 2), (1, 3)]


async def test_a_receipt_that_fails_twenty_times_is_a_dead_letter_with_its_content() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 2)
        async with bus.consume("n", QUICK, since="start") as deliveries:
            poison, good = await take(deliveries, 2)
            await good.ack()
            while poison.attempt < MAX_TRIES:
                await poison.nack(delay=0)
                (poison,) = await take(deliveries, 1)
            await poison.nack(delay=0)
            await emitted(bus, 1)
            assert places(await take(deliveries, 1)) == [(3, 1)]
        (dead_letter,) = await bus.cursors.dead_letters("n")
        assert (dead_letter.number, dead_letter.position, dead_letter.tries) == (1, 1, MAX_TRIES)
        assert dead_letter.receipt is not None
        assert decode_receipt(dead_letter.receipt) == poison.receipt
        assert ((await standing(bus)).dead, (await standing(bus)).position) == (1, 2)


async def test_a_receipt_that_kills_its_consumer_each_time_is_dead_after_twenty_tries_and_takes_no_other_along(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    attempts: list[int] = []
    done: list[int] = []
    with short_directory() as directory:
        for run in range(6):
            async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
                if run == 0:
                    await emitted(bus, 4)
                for _ in range(4):
                    if len(done) < 3:
                        await consume_until_killed(daemon, bus, attempts, done, monkeypatch)
        assert attempts == list(range(1, MAX_TRIES + 1))
        assert done == [1, 3, 4]


async def consume_until_killed(
    daemon: Daemon, bus: lifebus.Bus, attempts: list[int], done: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Consume until position 2, which kills, or until everything else is done."""
    async with bus.consume("n", QUICK, since="start") as deliveries:
        while len(done) < 3:
            (delivery,) = await take(deliveries, 1)
            if delivery.position == 2:
                attempts.append(delivery.attempt)
                vanish(daemon, monkeypatch)
                return
            await delivery.ack()
            done.append(delivery.position)
        assert [dead_letter.position for dead_letter in await bus.cursors.dead_letters("n")] == [2]


async def test_a_receipt_on_which_the_consumer_fails_each_time_is_dead_and_what_it_did_not_come_to_is_not() -> None:
    attempts: list[tuple[int, int]] = []
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 3)
        for _ in range(MAX_TRIES):
            with pytest.raises(ZeroDivisionError):
                await fail_on_the_first(bus, attempts)
        await emitted(bus, 1)
        async with bus.consume("n") as deliveries:
            assert places(await take(deliveries, 1)) == [(4, 1)]
        assert [attempt for position, attempt in attempts if position == 1] == list(range(1, MAX_TRIES + 1))
        assert [place for place in attempts if place[0] > 1] == [(2, 1), (3, 1)]
        assert [dead_letter.position for dead_letter in await bus.cursors.dead_letters("n")] == [1]


async def fail_on_the_first(bus: lifebus.Bus, attempts: list[tuple[int, int]]) -> None:
    """Consume as a program does that has a defect in what it does with the first receipt."""
    async with bus.consume("n", since="start") as deliveries:
        while True:
            (delivery,) = await take(deliveries, 1)
            attempts.append((delivery.position, delivery.attempt))
            if delivery.position == 1:
                raise ZeroDivisionError
            await delivery.ack()


async def test_two_names_are_two_consumers() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 4)
        async with bus.consume("a", since="start") as first, bus.consume("b", since="start") as second:
            await first.ack(await take(first, 4))
            assert places(await take(second, 4)) == [(1, 1), (2, 1), (3, 1), (4, 1)]
        assert [(one.cursor, one.position) for one in await bus.cursors.standing()] == [("a", 4), ("b", 0)]


async def test_a_newer_connection_takes_the_name_and_gets_what_the_older_one_held() -> None:
    async with running_bus() as daemon, connected(daemon, "old") as old, connected(daemon, "new") as new:
        await emitted(old, 2)
        async with old.consume("n", since="start") as first:
            (held, _) = await take(first, 2)
            async with new.consume("n") as second:
                assert places(await take(second, 2)) == [(1, 2), (2, 2)]
                with pytest.raises(StateConflict, match="another connection") as refused:
                    await held.ack()
                assert refused.value.code == "replaced"
                with pytest.raises(StateConflict, match="another connection"):
                    await anext(first)
                assert (await standing(new)).client_id == "old"


async def test_a_connection_that_is_silent_too_long_gives_back_what_it_held(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_bus() as daemon, connected(daemon, "old") as old, connected(daemon, "new") as new:
        await emitted(old, 1)
        async with old.consume("n", since="start") as first:
            await take(first, 1)
            vanish(daemon, monkeypatch)
            assert (await standing(new)).in_flight == 0
            async with new.consume("n") as second:
                (delivery,) = await take(second, 1)
                assert delivery.attempt == 2
                await delivery.ack()


async def test_who_was_silent_too_long_comes_back_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 1)
        async with bus.consume("n", since="start") as deliveries:
            (delivery,) = await take(deliveries, 1)
            vanish(daemon, monkeypatch)
            await delivery.ack()
            assert (await standing(bus)).position == 1


async def test_a_consumer_lives_through_a_restart_of_the_broker_and_acknowledges_to_the_new_one() -> None:
    seen: list[tuple[int, int]] = []
    restarted = asyncio.Event()

    async def consume(daemon: Daemon) -> None:
        async with connected(daemon) as bus, bus.consume("n", since="start") as deliveries:
            while len(seen) < 4:
                (delivery,) = await take(deliveries, 1)
                seen.append((delivery.position, delivery.attempt))
                if delivery.position == 2:
                    await restarted.wait()
                await delivery.ack()
            assert (await standing(bus)).position == 4

    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 2)
            consumer = asyncio.ensure_future(consume(daemon))
            await until(lambda: len(seen) == 2)
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            restarted.set()
            await emitted(bus, 2)
            await consumer
    assert seen == [(1, 1), (2, 1), (3, 1), (4, 1)]


async def test_what_waits_to_be_returned_when_the_broker_dies_comes_again_from_the_next_one_and_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "_REFRESH_S", 0.02)
    with short_directory() as directory:
        async with broker_process(directory) as broker, lifebus.connect("c", runtime_dir=broker.runtime_dir) as bus:
            await emitted(bus, 3)
            async with bus.consume("n", since="start") as deliveries:
                (first,) = await take(deliveries, 1)
                assert deliveries.ready == 2
                await broker.kill()
                async with broker_process(directory):
                    await first.ack()
                    again = await take(deliveries, 2)
                    assert places(again) == [(2, 2), (3, 2)]
                    await deliveries.ack(again)
                    assert (await standing(bus)).position == 3


async def test_what_a_broker_answered_before_it_died_is_not_returned_after_its_death(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(consumer, "_REFRESH_S", 0.02)
    async with AsyncExitStack() as opened:
        directory = opened.enter_context(short_directory())
        broker = await opened.enter_async_context(broker_process(directory))
        bus = await opened.enter_async_context(lifebus.connect("c", runtime_dir=broker.runtime_dir))
        deliveries = await opened.enter_async_context(bus.consume("n", since="start"))
        await nothing_comes(deliveries)  # a fetch waits at the broker
        await emitted(bus, 2)
        await until(lambda: deliveries.unseen == (1, 2))
        await broker.kill()
        await opened.enter_async_context(broker_process(directory))
        await until_answered(partial(standing, bus), lambda info: info.attached)
        assert places(await take(deliveries, 2)) == [(1, 2), (2, 2)]


async def test_what_was_settled_by_an_earlier_try_is_not_returned_once_more() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 3)
        async with bus.consume("n", QUICK, since="start") as deliveries:
            one, two, three = await take(deliveries, 3)
            for held in (one, two):
                await held.nack(delay=0)
            assert places(await take(deliveries, 1)) == [(1, 2)]
            assert deliveries.ready == 1
            await deliveries.ack([one, two])
            await nothing_comes(deliveries)  # its fetch stays at the broker, and is answered while nobody reads
            await three.nack(delay=0)
            await until(lambda: deliveries.unseen == (3,))
            await three.ack()
            await nothing_comes(deliveries)
            assert (await standing(bus)).open == 0


async def test_a_fetch_waits_for_what_comes_and_not_for_what_is_not_for_it() -> None:
    wanted = ConsumerSettings(adapters=("claude",))
    async with running_bus() as daemon, connected(daemon) as bus, bus.consume("n", wanted) as deliveries:
        waiting = asyncio.ensure_future(take(deliveries, 1))
        await emitted(bus, 5)
        assert not waiting.done()
        await emitted(bus, 1, adapter="claude")
        assert places(await waiting) == [(6, 1)]


async def test_what_a_block_raises_comes_out_as_it_is() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(ZeroDivisionError):
            async with bus.consume("n"):
                raise ZeroDivisionError
        deliveries: Deliveries[Delivery]
        async with bus.consume("n") as deliveries:
            pass
        with pytest.raises(StopAsyncIteration):
            await anext(deliveries)


async def test_a_connection_consumes_a_name_once_at_a_time() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        async with bus.consume("n"):
            with pytest.raises(InvalidRequest, match="already"):
                async with bus.consume("n"):
                    pass
            assert (await standing(bus)).attached
        async with bus.consume("n"):
            pass
