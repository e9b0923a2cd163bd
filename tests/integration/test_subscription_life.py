"""A subscription's life: broker restarts, other histories, leaving early, cancellation, being forgotten."""

import asyncio
import gc
import shutil
import weakref
from contextlib import AsyncExitStack

import pytest

import lifebus
from lifebus_contract import DeadlineExceeded, Receipt
from support.integration.following import drain, emit, ids, joined, recorded, take, until
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory

MINE = ("codex", "s1")
SCOPES = pytest.mark.parametrize("session", [None, MINE], ids=["whole ledger", "one session"])


@SCOPES
async def test_a_follower_lives_through_a_broker_restart(session: tuple[str, str] | None) -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                follower = bus.receipts(session=session, since="start")
                await emit(bus, "s1", "s2")
                seen = await take(follower, 1)
            async with running_bus(directory=directory) as daemon:
                await emit(bus, "s1", "s2", "s1")
                wanted = ids(await recorded(daemon, session))
                seen += await take(follower, len(wanted) - 1)
                assert ids(seen) == wanted


@SCOPES
async def test_a_cursor_goes_on_after_a_restart_with_nothing_missed_or_doubled(
    session: tuple[str, str] | None,
) -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emit(bus, *["s1", "s2"] * 5)
            follower = bus.receipts(session=session, since="start")
            seen = await take(follower, 3)
            cursor = follower.cursor
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emit(bus, "s1", "s2")
            seen += await drain(bus.receipts(session=session, since=cursor, until_head=True))
            assert ids(seen) == ids(await recorded(daemon, session))


async def test_a_subscription_that_saw_nothing_yet_has_a_cursor_to_go_on_from() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1")
        follower = bus.receipts()
        waiting = asyncio.ensure_future(anext(follower))
        await joined(follower)
        waiting.cancel()
        (missed,) = await emit(bus, "s1")
        assert ids(await drain(bus.receipts(since=follower.cursor, until_head=True))) == ids(missed.receipts)


@SCOPES
async def test_another_history_in_the_same_place_is_a_gap_and_then_its_receipts(
    session: tuple[str, str] | None,
) -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                old = daemon.bus.ledger.epoch
                bus = await clients.enter_async_context(connected(daemon))
                follower = bus.receipts(session=session, since="start", gaps="yield")
                await emit(bus, *["s1"] * 5)
                await take(follower, 5)
            shutil.rmtree(directory / "state")
            async with running_bus(directory=directory) as daemon:
                await emit(bus, "s1", "s1")
                gone = lifebus.Gap(epoch=old, after=5, until=None, reason="epoch_changed", state_at=0)
                assert await take(follower, 1) == [gone]
                place = follower.cursor
                assert ids(await take(follower, 2)) == ids(await recorded(daemon))
                later = await drain(bus.receipts(session=session, since=place, until_head=True))
                assert ids(later) == ids(await recorded(daemon))


@SCOPES
@pytest.mark.parametrize("until_head", [True, False])
async def test_a_cursor_of_another_history_is_a_gap_however_far_it_had_come(
    session: tuple[str, str] | None, until_head: bool
) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1", "s1")
        stale = lifebus.Position("ab" * 16, 1_000)
        follower = bus.receipts(session=session, since=stale, until_head=until_head, gaps="yield")
        assert ids(await take(follower, 3)) == ["epoch_changed", *ids(await recorded(daemon))]


async def test_a_memory_broker_that_replaces_a_durable_one_makes_one_gap_and_loses_nothing() -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                follower = bus.receipts(session=MINE, since="start", gaps="yield")
                await emit(bus, "s1", "s1")
                await take(follower, 2)
            async with running_bus(directory=directory, backend="memory") as daemon:
                await emit(bus, *["s2", "s1"] * 3)
                seen = await take(follower, 4)
                assert ids(seen) == ["epoch_changed", *ids(await recorded(daemon, MINE))]


async def test_leaving_early_and_going_on_continues_where_it_stopped() -> None:
    async with running_bus() as daemon, connected(daemon) as bus, asyncio.timeout(PATIENCE_S):
        await emit(bus, *["s1"] * 6)
        follower = bus.receipts(since="start")
        seen: list[Receipt] = []
        async for item in follower:
            seen.append(item)
            if len(seen) == 3:
                break
        elsewhere = await drain(bus.receipts(since=follower.cursor, until_head=True))
        seen += await take(follower, 3)
        assert ids(seen) == ids(await recorded(daemon))
        assert elsewhere == seen[3:]


async def test_a_closed_subscription_ends_and_holds_no_socket() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1", "s1")
        follower = bus.receipts(since="start")
        await take(follower, 1)
        await follower.aclose()
        await follower.aclose()
        assert not bus._connection.closing
        assert await drain(follower) == []


async def test_a_subscription_that_was_never_started_can_be_closed() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts()
        await follower.aclose()
        assert await drain(follower) == []


async def test_closing_wakes_who_waits() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(since="start")
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(drain(follower))
            await joined(follower)
            await follower.aclose()
        assert waiting.result() == []


async def test_a_forgotten_subscription_frees_its_socket() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(since="start")
        await emit(bus, "s1")
        await take(follower, 1)
        gone = weakref.ref(follower)
        del follower
        gc.collect()
        assert gone() is None
        await until(lambda: not bus._connection.closing)


async def test_sockets_of_open_subscriptions_end_with_their_connection() -> None:
    async with running_bus() as daemon:
        for _ in range(
            20
        ):  # file numbers are used again: a reader left on the loop would swallow the next one's wake-ups
            async with connected(daemon) as bus:
                follower = bus.receipts(since="start")
                await emit(bus, "s1")
                await take(follower, 1)
            assert follower._feed is not None
            assert follower._feed.closed


async def test_a_join_that_was_cancelled_can_be_tried_again() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1", "s1")
        for turns in range(40):
            follower = bus.receipts(since="start")
            first = asyncio.ensure_future(anext(follower))
            for _ in range(turns):
                await asyncio.sleep(0)
            first.cancel()
            got = await asyncio.gather(first, return_exceptions=True)
            rest = await take(follower, 1 if isinstance(got[0], Receipt) else 2)
            assert [item.sequence for item in [*got, *rest] if isinstance(item, Receipt)] == [1, 2]
            await follower.aclose()
        assert not bus._connection._pending
        assert not bus._connection.closing


async def test_a_join_without_a_broker_fails_in_time_and_can_be_tried_again() -> None:
    with short_directory() as directory:
        async with AsyncExitStack() as clients:
            async with running_bus(directory=directory) as daemon:
                bus = await clients.enter_async_context(connected(daemon))
                await emit(bus, "s1")
            bus.timeout = 0.1
            follower = bus.receipts(since="start")
            with pytest.raises(DeadlineExceeded):
                await anext(follower)
            async with running_bus(directory=directory) as daemon:
                follower._timeout = PATIENCE_S
                assert ids(await take(follower, 1)) == ids(await recorded(daemon))
