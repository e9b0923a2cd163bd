"""Named consumers: what they ask for, where they begin, and their care: reset, evict, lost history, small journals."""

from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus import ConsumerSettings, LifecycleEvent
from lifebus_broker.consumers import journal as consumer_journal
from lifebus_broker.consumers.journal import record_stream
from lifebus_broker.ledger.sqlite.format import set_meta
from lifebus_broker.ledger.sqlite.schema import executor, open_writer
from lifebus_contract import InvalidRequest, StateConflict
from support.integration.consuming import emitted, nothing_comes, places, standing, take, take_gap
from support.patience import PATIENCE_S
from support.running import connected, running_bus, short_directory, until_answered


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (ConsumerSettings(sessions=(("codex", "s1"),)), [2, 4, 6]),
        (ConsumerSettings(sessions=(("codex", "s1"), ("claude", "s0"))), [2, 4, 6, 7]),
        (ConsumerSettings(adapters=("claude",)), [7, 8]),
        (ConsumerSettings(adapters=("claude", "gemini")), [7, 8]),
        (ConsumerSettings(events=(LifecycleEvent.SESSION_ENDED,)), [9]),
        (ConsumerSettings(events=(LifecycleEvent.SESSION_ENDED, LifecycleEvent.SESSION_ENDING)), [9]),
        (ConsumerSettings(adapters=("claude",), sessions=(("codex", "s1"),)), []),
    ],
    ids=str,
)
async def test_a_filter_lets_through_what_it_names(wanted: ConsumerSettings, expected: list[int]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 6, sessions=2)
        await emitted(bus, 2, sessions=2, adapter="claude")
        await bus.emit(lifebus.make_request("session.ended", "codex", session="s9"))
        async with bus.consume("n", wanted, since="start") as deliveries:
            assert [one.position for one in await take(deliveries, len(expected))] == expected
            await nothing_comes(deliveries)
            with anyio.fail_after(PATIENCE_S):  # the fetch may still be read for
                await until_answered(lambda: standing(bus), lambda info: info.scanned == 9)


async def test_a_name_keeps_its_filter_and_takes_other_limits() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 3)
        async with bus.consume("n", ConsumerSettings(max_in_flight=1), since="start") as deliveries:
            await take(deliveries, 1)
        with pytest.raises(StateConflict, match=r"another filter: none, .*; pass the same filter or none") as refused:
            async with bus.consume("n", ConsumerSettings(adapters=("codex",))):
                pass
        assert "evict" not in refused.value.detail
        async with bus.consume("n", ConsumerSettings(max_in_flight=2)) as deliveries:
            assert [one.position for one in await take(deliveries, 2)] == [1, 2]
            await nothing_comes(deliveries)


async def test_a_known_name_without_settings_keeps_its_filter_and_its_limits() -> None:
    own = ConsumerSettings(adapters=("claude",), events=("session.started",), max_in_flight=2, retry_ms=7)  # type: ignore[arg-type]  # as users write it
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 2)
        await emitted(bus, 4, adapter="claude")
        async with bus.consume("n", own, since="start") as deliveries:
            await deliveries.ack(await take(deliveries, 1))
        kept = (await standing(bus)).settings
        async with bus.consume("n") as deliveries:
            assert [one.position for one in await take(deliveries, 2)] == [4, 5]
            await nothing_comes(deliveries)
            assert (await standing(bus)).settings == kept
        for given in (ConsumerSettings(max_in_flight=1), ConsumerSettings(adapters=("claude",), events=own.events)):
            async with bus.consume("n", given) as deliveries:
                assert (await take(deliveries, 1))[0].position == 4
                limits = (given.max_in_flight, given.retry_ms)
                assert (await standing(bus)).settings.filter == kept.filter
                assert ((await standing(bus)).settings.max_in_flight, (await standing(bus)).settings.retry_ms) == limits
        expected = "another filter: adapters claude; events session.started; pass the same filter or none"
        with pytest.raises(StateConflict, match=expected) as refused:
            async with bus.consume("n", ConsumerSettings(adapters=("claude",))):
                pass
        assert (refused.value.code, "evict" in refused.value.detail) == ("other_filter", False)


@pytest.mark.parametrize(
    ("since", "expected"),
    [
        ("start", [1, 2, 3, 4]),
        (None, [4]),
        (2, [3, 4]),
        (99, [4]),
        (datetime(2020, 1, 1, tzinfo=UTC), [1, 2, 3, 4]),
        (datetime(2999, 1, 1, tzinfo=UTC), [4]),
    ],
    ids=str,
)
async def test_a_new_name_begins_where_it_is_told_to(since: datetime | int | str | None, expected: list[int]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 3)
        async with bus.consume("n", since=since) as deliveries:
            await emitted(bus, 1)
            assert [one.position for one in await take(deliveries, len(expected))] == expected


async def test_a_reset_begins_again_where_it_is_told_to() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 5)
        async with bus.consume("n", since="start") as deliveries:
            await deliveries.ack(await take(deliveries, 4))
            assert (await bus.cursors.reset("n", 2)).position == 2
            await emitted(bus, 1)
            again = [one.position for one in await take(deliveries, 5)]
            assert again == [5, 3, 4, 5, 6], "what had come already, then from there on"
        assert (await bus.cursors.reset("n")).lag == 0
        with pytest.raises(InvalidRequest, match="there is no consumer"):
            await bus.cursors.reset("other")


async def test_an_evicted_name_is_forgotten_and_its_consumer_told() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 2)
            async with bus.consume("n", since="start") as deliveries:
                (delivery, _) = await take(deliveries, 2)
                await bus.cursors.evict("n")
                with pytest.raises(StateConflict, match="evicted"):
                    await delivery.ack()
            assert await bus.cursors.standing() == []
            async with bus.consume("n", since="start") as deliveries:
                assert places(await take(deliveries, 2)) == [(1, 1), (2, 1)]
            await bus.cursors.evict("n")
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            assert await bus.cursors.standing() == []
            with pytest.raises(InvalidRequest, match="there is no consumer"):
                await bus.cursors.dead_letters("n")


async def test_pruned_history_is_told_before_it_is_skipped() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 6)
        async with bus.consume("n", since="start") as deliveries:
            await deliveries.ack((await take(deliveries, 6))[:1])
        await daemon.bus.ledger.prune(4, b"{}")
        assert (await standing(bus)).lost
        for _ in range(2):
            async with bus.consume("n", gaps="yield") as deliveries:
                gap = await take_gap(deliveries)
                assert (gap.after, gap.until, gap.reason) == (1, 4, "pruned")
        async with bus.consume("n", gaps="yield") as deliveries:
            await take_gap(deliveries)
            assert [one.position for one in await take(deliveries, 2)] == [5, 6]
        assert not (await standing(bus)).lost


@pytest.mark.parametrize(
    ("settings", "loses"),
    [
        (ConsumerSettings(sessions=(("codex", "s0"),)), True),
        (ConsumerSettings(sessions=(("codex", "s1"), ("codex", "s2"))), False),
        (ConsumerSettings(adapters=("claude",)), False),
        (ConsumerSettings(adapters=("codex", "claude")), True),
    ],
    ids=["its session", "other sessions", "another adapter", "its adapter"],
)
async def test_a_consumer_is_told_only_of_what_was_dropped_and_for_it(settings: ConsumerSettings, loses: bool) -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await emitted(bus, 4)
        async with bus.consume("n", settings, since="start"):
            pass
        await daemon.bus.ledger.prune(3, b"{}")
        assert await daemon.consumers.skip_pruned() == ["n"] * loses
        assert (await standing(bus)).lost == loses
        await bus.emit(
            [lifebus.make_request("session.started", one[0], session=one[1]) for one in settings.sessions]
            or [lifebus.make_request("session.started", settings.adapters[-1], session="s9")]
        )
        async with bus.consume("n", settings, gaps="yield") as deliveries:
            if loses:
                assert (await take_gap(deliveries)).until == 3
            assert [one.position for one in await take(deliveries, 1)] == [4 if loses else 5]


async def test_another_history_is_told_before_it_is_followed() -> None:
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 3)
            async with bus.consume("n", since="start") as deliveries:
                await deliveries.ack(await take(deliveries, 2))
        forge_epoch(daemon.settings.ledger_path)
        async with (
            running_bus(directory=directory) as daemon,
            connected(daemon) as bus,
            bus.consume("n", gaps="yield") as deliveries,
        ):
            gap = await take_gap(deliveries)
            assert (gap.after, gap.until, gap.reason, gap.epoch) == (2, None, "epoch_changed", "f" * 32)
            assert places(await take(deliveries, 3)) == [(1, 1), (2, 1), (3, 1)]


def forge_epoch(path: Path) -> None:
    """Make the file another history, as a restored one is."""
    with closing(open_writer(path)) as connection:
        set_meta(executor(connection), epoch="f" * 32)


async def test_the_journal_of_a_busy_consumer_stays_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(consumer_journal, "CHECKPOINT_RECORDS", 8)
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            await emitted(bus, 60)
            async with bus.consume("n", since="start") as deliveries:
                for _ in range(60):
                    (delivery,) = await take(deliveries, 1)
                    await delivery.ack()
            (stream,) = await daemon.bus.ledger.journal.streams(record_stream("n"))
            assert stream.head - stream.floor <= 10
            assert stream.head > 60
        async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
            assert (await standing(bus)).position == 60
