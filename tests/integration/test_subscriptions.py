"""Following receipts over real sockets: nothing is missed, nothing comes twice, what is gone is said."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

import lifebus
from lifebus.subscription import Since
from lifebus_contract import InvalidRequest, Receipt, TransportError
from lifebus_supervisor.configuration.settings import RetentionSettings
from lifebus_supervisor.daemon.composition import Daemon
from support.integration.following import drain, emit, frame, ids, joined, lose_every, recorded, take
from support.patience import PATIENCE_S
from support.running import connected, running_bus

MINE = ("codex", "s1")
SCOPES = pytest.mark.parametrize("session", [None, MINE], ids=["whole ledger", "one session"])
ODD_SESSIONS = [
    "s",
    "s1",
    "s1/",
    "s1/x",
    "s%2F1",
    "%",
    "sé",
    "会议",
    "é" * 256,
    "s 1",
    "r/codex/s1/",
]


_KEEP_ALL = RetentionSettings(keep_days=0)
"""No receipt is too old: the tests below stamp them with times of long ago."""


def at(daemon: Daemon, epoch_s: int) -> None:
    """Let the broker stamp receipts with this time."""
    daemon.bus.router._clock = lambda: epoch_s


@SCOPES
@pytest.mark.parametrize("nth", [1, 2, 3])
async def test_a_subscriber_of_a_publisher_that_loses_messages_sees_the_whole_ledger(
    session: tuple[str, str] | None, nth: int
) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        lose_every(daemon.receipts, nth, beacons=nth > 1)
        follower = bus.receipts(session=session, since="start")
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(take(follower, 60 if session else 120))
            for _ in range(20):
                await emit(bus, "s1", "s2", "s1", "s2", "s1", "s2")
        assert ids(reading.result()) == ids(await recorded(daemon, session))


@SCOPES
async def test_the_loss_of_the_last_receipt_is_noticed_without_another_one(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(session=session, since="start")
        await emit(bus, "s1")
        await take(follower, 1)
        lose_every(daemon.receipts, 1)
        (last,) = await emit(bus, "s1")
        assert ids(await take(follower, 1)) == ids(last.receipts)


@SCOPES
async def test_a_subscriber_that_was_cut_off_catches_up(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(session=session, since="start")
        await emit(bus, "s1", "s1")
        await take(follower, 2)
        assert follower._feed is not None
        address = f"ipc://{daemon.settings.runtime_dir / 'receipts.ipc'}"
        follower._feed._socket.disconnect(address)
        missed = await emit(bus, "s1", "s1", "s1")
        follower._feed._socket.connect(address)
        assert ids(await take(follower, 3)) == ids([one.receipts[0] for one in missed])


@SCOPES
@pytest.mark.parametrize("since", [None, "start"])
async def test_joins_in_the_middle_of_a_burst_miss_nothing_and_double_nothing(
    session: tuple[str, str] | None, since: Since
) -> None:
    async with running_bus() as daemon, connected(daemon, "emitter") as emitter, connected(daemon) as bus:
        over = asyncio.Event()

        async def burst() -> None:
            while not over.is_set():
                await emit(emitter, *["s1", "s2"] * 5)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(burst())
            joined = [await join(bus, session, since) for _ in range(25)]
            over.set()
        everything = ids(await recorded(daemon, session))
        for seen in joined:
            first = everything.index(seen[0])
            assert seen == everything[first : first + len(seen)]
            assert since is None or first == 0


async def join(bus: lifebus.Bus, session: tuple[str, str] | None, since: Since) -> list[str]:
    follower = bus.receipts(session=session, since=since)
    try:
        return ids(await take(follower, 15))
    finally:
        await follower.aclose()


async def test_a_reader_that_is_slower_than_its_queue_gets_everything_from_the_ledger(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus.subscription._MAX_READY", 8)
    monkeypatch.setattr("lifebus._internal.view._MAX_HELD", 16)
    async with running_bus() as daemon, connected(daemon) as bus:
        follower = bus.receipts(since="start")
        await emit(bus, "s1")
        seen = await take(follower, 1)
        for _ in range(30):
            await emit(bus, *["s1"] * 10)
        assert len(follower._ready) <= 8 + 10
        seen += await take(follower, 300)
        assert ids(seen) == ids(await recorded(daemon))


@SCOPES
async def test_pruned_history_is_one_gap_and_then_what_is_left(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, *["s1"] * 10)
        await daemon.bus.ledger.prune(6, b"{}")
        seen = await drain(bus.receipts(session=session, since="start", until_head=True, gaps="yield"))
        assert seen[0] == lifebus.Gap(epoch=daemon.bus.ledger.epoch, after=0, until=6, reason="pruned", state_at=6)
        assert ids(seen[1:]) == ids(await recorded(daemon))
        assert [item.sequence for item in seen[1:] if isinstance(item, Receipt)] == [7, 8, 9, 10]


async def test_a_follower_of_a_session_gets_gaps_only_for_what_was_dropped_of_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        mine = await emit(bus, "s1", "s2", "s1", "s2", "s2", "s2")
        epoch = daemon.bus.ledger.epoch
        await daemon.bus.ledger.prune(5, b"{}")
        await emit(bus, "s1")
        complete = await drain(bus.receipts(session=MINE, since=lifebus.Position(epoch, 3), until_head=True))
        assert [item.sequence for item in complete if isinstance(item, Receipt)] == [3]
        assert len(complete) == 1, "positions 4 and 5 were not of this session"
        before = lifebus.Position(epoch, 2)
        lacking = await drain(bus.receipts(session=MINE, since=before, until_head=True, gaps="yield"))
        assert lacking[0] == lifebus.Gap(epoch=epoch, after=2, until=5, reason="pruned", state_at=5)
        now = bus.receipts(session=MINE)
        await now.join()
        await emit(bus, "s1")
        assert [item.sequence for item in await take(now, 1) if isinstance(item, Receipt)] == [4]
        assert mine[2].positions == (3,)


async def test_a_cursor_taken_at_a_gap_leads_to_what_follows_it() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, *["s1"] * 5)
        await daemon.bus.ledger.prune(3, b"{}")
        follower = bus.receipts(since="start", gaps="yield")
        assert ids(await take(follower, 1)) == ["pruned"]
        rest = await drain(bus.receipts(since=follower.cursor, until_head=True))
        assert [item.sequence for item in rest if isinstance(item, Receipt)] == [4, 5]


@SCOPES
async def test_following_can_start_at_a_cursor_a_position_the_start_or_now(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        first = await emit(bus, "s1", "s2", "s1", "s2")
        epoch, middle = daemon.bus.ledger.epoch, first[1].positions[0]
        starts: list[tuple[Since, int]] = [("start", 0), (0, 0), (middle, 2), (lifebus.Position(epoch, middle), 2)]
        followers = [(bus.receipts(session=session, since=since), after) for since, after in starts]
        now = bus.receipts(session=session)
        async with asyncio.TaskGroup() as tasks:
            waiting = tasks.create_task(take(now, 1))
            await joined(now)
            (newest,) = await emit(bus, "s1")
        assert ids(waiting.result()) == ids(newest.receipts)
        everything = [one.receipts[0] for one in [*first, newest]]
        for follower, after in followers:
            wanted = [one for one in everything[after:] if session is None or one.harness_session_id == "s1"]
            assert ids(await take(follower, len(wanted))) == ids(wanted)


@pytest.mark.parametrize(("since", "expected"), [(0, [1, 2, 3, 4]), (200, [3, 4]), (201, [4]), (301, [])])
@SCOPES
async def test_following_can_start_at_a_time(session: tuple[str, str] | None, since: int, expected: list[int]) -> None:
    async with running_bus(retention=_KEEP_ALL) as daemon, connected(daemon) as bus:
        for epoch_s in (100, 100, 200, 300):
            at(daemon, epoch_s)
            await emit(bus, "s1")
        seen = await drain(bus.receipts(session=session, since=datetime.fromtimestamp(since, UTC), until_head=True))
        assert [item.sequence for item in seen if isinstance(item, Receipt)] == expected


async def test_a_time_before_the_oldest_receipt_kept_begins_with_a_gap() -> None:
    async with running_bus(retention=_KEEP_ALL) as daemon, connected(daemon) as bus:
        for epoch_s in (100, 200, 300):
            at(daemon, epoch_s)
            await emit(bus, "s1")
        await daemon.bus.ledger.prune(1, b"{}")
        early = await drain(bus.receipts(since=datetime.fromtimestamp(50, UTC), until_head=True, gaps="yield"))
        late = await drain(bus.receipts(since=datetime.fromtimestamp(300, UTC), until_head=True))
        assert [item.reason if isinstance(item, lifebus.Gap) else item.sequence for item in early] == ["pruned", 2, 3]
        assert [item.sequence for item in late if isinstance(item, Receipt)] == [3]


@pytest.mark.parametrize("backend", ["sqlite", "memory"])
async def test_a_session_is_followed_alone_whatever_characters_its_id_has(backend: str) -> None:
    async with running_bus(backend=backend) as daemon, connected(daemon) as bus:
        followers = {name: bus.receipts(session=("codex", name)) for name in ODD_SESSIONS}
        async with asyncio.TaskGroup() as tasks:
            reading = {name: tasks.create_task(take(one, 4)) for name, one in followers.items()}
            await joined(*followers.values())
            for _ in range(4):
                await emit(bus, *ODD_SESSIONS)
                await bus.emit([frame(name, adapter="claude") for name in ODD_SESSIONS])
        for name, task in reading.items():
            assert ids(task.result()) == ids(await recorded(daemon, ("codex", name)))


async def test_a_session_with_the_longest_id_is_served_live_and_not_only_by_beacons() -> None:
    name = "é" * 256
    async with running_bus(beacon_ms=60_000) as daemon, connected(daemon) as bus:
        follower = bus.receipts(session=("codex", name), since="start")
        await emit(bus, name)
        await take(follower, 1)
        await emit(bus, name)
        await take(follower, 1)


async def test_only_receipts_that_the_user_wants_are_yielded() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, *["s1"] * 6)
        seen = await drain(bus.receipts(since="start", where=lambda one: (one.sequence or 0) % 3 == 0, until_head=True))
        assert [item.sequence for item in seen if isinstance(item, Receipt)] == [3, 6]


@SCOPES
async def test_following_until_the_head_ends_although_receipts_keep_coming(session: tuple[str, str] | None) -> None:
    async with running_bus() as daemon, connected(daemon, "emitter") as emitter, connected(daemon) as bus:
        await emit(emitter, *["s1", "s2"] * 300)
        head = daemon.bus.ledger.head
        follower = bus.receipts(session=session, since="start", until_head=True)
        async with asyncio.TaskGroup() as tasks:
            reading = tasks.create_task(drain(follower))
            while not reading.done():
                await emit(emitter, "s1", "s2")
        seen = ids(reading.result())
        assert seen == ids(await recorded(daemon, session))[: len(seen)]
        assert len(seen) >= (head if session is None else head // 2)
        with pytest.raises(StopAsyncIteration):
            await anext(follower)


async def test_an_empty_ledger_ends_at_once_until_the_head() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        assert await drain(bus.receipts(since="start", until_head=True)) == []
        assert await drain(bus.receipts(session=MINE, since="start", until_head=True)) == []


async def test_two_subscriptions_of_one_connection_do_not_disturb_each_other() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        one, other = bus.receipts(session=MINE, since="start"), bus.receipts(since="start")
        async with asyncio.TaskGroup() as tasks:
            mine = tasks.create_task(take(one, 40))
            whole = tasks.create_task(take(other, 80))
            for _ in range(40):
                await emit(bus, "s1", "s2")
        assert ids(mine.result()) == ids(await recorded(daemon, MINE))
        assert ids(whole.result()) == ids(await recorded(daemon))


async def test_a_waiting_subscriber_learns_that_its_connection_was_closed() -> None:
    async with running_bus() as daemon, asyncio.timeout(PATIENCE_S):
        async with connected(daemon) as bus:
            follower = bus.receipts(since="start")
            waiting = asyncio.ensure_future(anext(follower))
            await joined(follower)
        with pytest.raises(TransportError, match="connection"):
            await waiting


@pytest.mark.parametrize("since", [1_795_000_000.5, "24h", -1, "-1", True, timedelta(days=1), "", b"start"])
async def test_what_is_no_place_is_refused_and_never_taken_for_a_position(since: Any) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with pytest.raises(InvalidRequest, match="no place to start from"):
            bus.receipts(since=since)


async def test_a_position_that_is_not_there_yet_is_refused() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emit(bus, "s1")
        assert await drain(bus.receipts(since=1, until_head=True)) == []
        with pytest.raises(InvalidRequest, match="a time is a datetime"):
            await anext(bus.receipts(since=1_795_000_000))
