"""Questions on their way to people: what is due when, and by which channel."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio
import anyio.to_thread
import pytest

from lifebus_broker.ledger.refusals import DISK_FULL
from lifebus_contract.questions import AnswerAction, Notification
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault
from lifebus_supervisor.runtime.inbox.deliveries import QuestionDeliveries
from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from lifebus_supervisor.runtime.inbox.reminders import ReminderPlan
from support.inbox.delivering import MINUTE_MS, Clock, Recording, delivering, until
from support.inbox.questions import AT_MS, answer, inbox_of, ledger_in, question
from support.patience import PATIENCE_S


async def test_a_channel_that_hangs_or_breaks_holds_up_no_other(tmp_path: Path) -> None:
    clock = Clock()
    hanging, broken, fine = Recording(), Recording(), Recording()
    hanging.hanging = True
    broken.deliver = lambda _: 1 / 0  # type: ignore[assignment, method-assign, return-value]
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        channels: dict[str, Any] = {
            "slow": (hanging, {"timeout_ms": 120_000}),
            "broken": (broken, {}),
            "fine": (fine, {}),
        }
        async with delivering(inbox, clock, **channels):
            for number in range(20):
                await inbox.ask(question(f"q_{number}"))
            await until(inbox, "q_19", lambda info: "fine" in {one.channel for one in info.notifications})
            info = await until(inbox, "q_19", lambda info: len(info.notifications) == 2)
    assert [message.question.question_id for message in fine.messages] == [f"q_{number}" for number in range(20)]
    assert {one.channel: one.fault for one in info.notifications} == {
        "broken": "the channel failed: ZeroDivisionError",
        "fine": None,
    }
    assert hanging.tries == 1


async def test_a_try_that_takes_too_long_has_failed(tmp_path: Path) -> None:
    clock, hanging = Clock(), Recording()
    hanging.hanging = True
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, slow=(hanging, {"timeout_ms": 100})):
            await inbox.ask(question())
            info = await until(inbox, "q_1", lambda info: bool(info.notifications))
    assert info.notifications == (Notification(channel="slow", tries=1, fault="it took longer than 0.1 s"),)


async def test_what_was_not_delivered_before_a_crash_is_delivered_after_it_and_nothing_twice(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    async with ledger_in(tmp_path) as ledger:
        await (await inbox_of(ledger, clock)).ask(question("q_1"))
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, screen=channel):
            await until(inbox, "q_1", lambda info: bool(info.notifications))
            await inbox.ask(question("q_2"))
            await until(inbox, "q_2", lambda info: bool(info.notifications))
        again = await inbox_of(ledger, clock)
        async with delivering(again, clock, screen=channel):
            await anyio.wait_all_tasks_blocked()
    assert [message.question.question_id for message in channel.messages] == ["q_1", "q_2"]


async def test_a_channel_that_is_new_gets_the_open_questions(tmp_path: Path) -> None:
    clock, old, new = Clock(), Recording(), Recording(takes_end=True)
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, old=old):
            await inbox.ask(question("q_1"))
            await inbox.ask(question("q_2"))
            await until(inbox, "q_2", lambda info: bool(info.notifications))
        await inbox.answer("q_1", answer())
        again = await inbox_of(ledger, clock)
        async with delivering(again, clock, old=old, new=new):
            await until(again, "q_2", lambda info: len(info.notifications) == 2)
    assert [message.question.question_id for message in new.messages] == ["q_2"]


async def test_an_answered_question_is_not_delivered_any_more(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    channel.fault = DeliveryFault("away")
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, screen=channel) as deliveries:
            await inbox.ask(question())
            await channel.tried(1)
            await inbox.answer("q_1", answer())
            channel.fault = None
            clock.now_ms += 3_600_000
            deliveries.wake()
            await anyio.wait_all_tasks_blocked()
            assert inbox.failing_count == 0
    assert channel.messages == []


async def test_people_are_reminded_until_somebody_answers_and_never_is_anything_decided(tmp_path: Path) -> None:
    clock, channel, quiet = Clock(), Recording(), Recording()
    plan = ReminderPlan(first_ms=60 * MINUTE_MS, longest_ms=240 * MINUTE_MS, zone=ZoneInfo("UTC"))
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        channels: dict[str, Any] = {"screen": (channel, {}), "quiet": (quiet, {"remind": False})}
        async with delivering(inbox, clock, plan, **channels) as deliveries:
            await inbox.ask(question())
            await channel.tried(1)
            for number, pause_min in enumerate((60, 120, 240, 240), 1):
                clock.now_ms += pause_min * MINUTE_MS - 1
                deliveries.wake()
                await anyio.wait_all_tasks_blocked()
                assert inbox.require("q_1").reminders == number - 1, "too early"
                clock.now_ms += 1
                deliveries.wake()
                await channel.tried(number + 1)
            clock.now_ms += 365 * 1_440 * MINUTE_MS
            deliveries.wake()
            await channel.tried(6)
            info = inbox.require("q_1")
            assert (info.is_open, info.reminders) == (True, 5), "one reminder, however long nobody looked"
            await inbox.answer("q_1", answer(AnswerAction.ABORT))
            clock.now_ms += 365 * 1_440 * MINUTE_MS
            deliveries.wake()
            await anyio.wait_all_tasks_blocked()
    assert channel.tries == 6
    assert quiet.tries == 1
    assert [message.reminder for message in channel.messages] == [0, 1, 2, 3, 4, 5]
    assert len({message.delivery_id for message in channel.messages}) == 6


async def test_nobody_is_reminded_in_quiet_hours_and_a_restart_changes_nothing(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    zone = ZoneInfo("Europe/Vienna")
    # asked at 16:13:20 local time
    plan = ReminderPlan(
        first_ms=60 * MINUTE_MS, longest_ms=60 * MINUTE_MS, quiet=QuietHours.parse("17:00-07:30"), zone=zone
    )
    async with ledger_in(tmp_path) as ledger:
        async with delivering(inbox := await inbox_of(ledger, clock), clock, plan, screen=channel):
            await inbox.ask(question())
            # Recorded, and not only tried: what is not recorded at the restart is delivered again.
            await until(inbox, "q_1", lambda info: bool(info.notifications))
        morning_ms = AT_MS + (15 * 60 + 16) * MINUTE_MS + 40_000  # 07:30 local time
        for at_ms, tries in ((AT_MS + 60 * MINUTE_MS, 1), (morning_ms - 1, 1), (morning_ms, 2)):
            clock.now_ms = at_ms
            again = await inbox_of(ledger, clock)
            async with delivering(again, clock, plan, screen=channel):
                await anyio.wait_all_tasks_blocked()
                if tries == 2:
                    await channel.tried(2)
                assert channel.tries == tries


async def test_a_clock_that_is_set_back_two_days_puts_no_reminder_off(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    async with (
        ledger_in(tmp_path) as ledger,
        delivering(inbox := await inbox_of(ledger, clock), clock, HOURLY, screen=channel) as deliveries,
    ):
        await inbox.ask(question())
        await until(inbox, "q_1", lambda info: bool(info.notifications))
        clock.now_ms += 20 * MINUTE_MS
        deliveries.wake()  # it looks once a minute
        await anyio.wait_all_tasks_blocked()
        clock.now_ms -= TWO_DAYS_MS
        await reminded_after(40, clock, channel, deliveries)


async def test_a_clock_that_is_set_back_while_no_broker_runs_puts_no_reminder_off(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    async with ledger_in(tmp_path) as ledger:
        async with delivering(inbox := await inbox_of(ledger, clock), clock, HOURLY, screen=channel):
            await inbox.ask(question())
            await until(inbox, "q_1", lambda info: bool(info.notifications))
        clock.now_ms -= TWO_DAYS_MS
        async with delivering(await inbox_of(ledger, clock), clock, HOURLY, screen=channel) as deliveries:
            # Nobody knows any more how much of the pause is over: it counts from the start of the broker.
            await reminded_after(60, clock, channel, deliveries)


async def reminded_after(minutes: int, clock: Clock, channel: Recording, deliveries: QuestionDeliveries) -> None:
    """See that the next reminder comes after so long, and the one after it an hour later."""
    for pause_min, before in ((minutes, 1), (60, 2)):
        for passed_ms, tries in ((0, before), (pause_min * MINUTE_MS - 1, before), (1, before + 1)):
            clock.now_ms += passed_ms
            deliveries.wake()
            await anyio.wait_all_tasks_blocked()
            if tries > before:
                with anyio.move_on_after(PATIENCE_S):
                    await channel.tried(tries)
            assert channel.tries == tries
            await anyio.wait_all_tasks_blocked()


async def test_a_clock_that_is_set_back_delays_no_retry_also_while_other_channels_fail(tmp_path: Path) -> None:
    clock, channel, other = Clock(), Recording(), Recording()
    channel.fault = other.fault = DeliveryFault("away")
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, screen=channel):
            await inbox.ask(question())
            await until(inbox, "q_1", lambda info: bool(info.notifications))
        clock.now_ms -= TWO_DAYS_MS
        again = await inbox_of(ledger, clock)
        async with delivering(again, clock, screen=channel, other=other) as deliveries:
            # Each failure of the other channel is a record of the question.
            for _ in range(8):
                tries = other.tries
                clock.now_ms += 16 * MINUTE_MS
                deliveries.wake()
                await other.tried(tries + 1)
                await until(again, "q_1", lambda info, tries=tries: info.notifications[-1].tries > tries)  # type: ignore[misc]
            assert channel.tries > 1


async def test_a_machine_that_wakes_in_the_night_reminds_in_the_morning(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    # asked at 14:13:20; due an hour later, when the machine sleeps
    quiet = QuietHours.parse("22:00-07:30")
    plan = ReminderPlan(first_ms=60 * MINUTE_MS, longest_ms=60 * MINUTE_MS, quiet=quiet, zone=ZoneInfo("UTC"))
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, plan, screen=channel) as deliveries:
            await inbox.ask(question())
            await until(inbox, "q_1", lambda info: bool(info.notifications))
            midnight_ms = AT_MS - AT_MS % (1_440 * MINUTE_MS) + 1_440 * MINUTE_MS
            for at_ms, tries in ((midnight_ms, 1), (midnight_ms + 450 * MINUTE_MS - 1, 1)):
                clock.now_ms = at_ms
                deliveries.wake()
                await anyio.wait_all_tasks_blocked()
                assert (channel.tries, inbox.require("q_1").reminders) == (tries, 0)
            clock.now_ms += 1
            deliveries.wake()
            await channel.tried(2)
    assert inbox.require("q_1").reminders == 1


async def test_two_days_forward_are_one_reminder(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    plan = ReminderPlan(first_ms=MINUTE_MS, longest_ms=MINUTE_MS, zone=ZoneInfo("UTC"))
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, plan, screen=channel) as deliveries:
            await inbox.ask(question())
            await until(inbox, "q_1", lambda info: bool(info.notifications))
            clock.now_ms += TWO_DAYS_MS
            deliveries.wake()
            await until(inbox, "q_1", lambda info: info.reminders > 0 and info.notifications[0].tries == 2)
            # Somebody sets it right again: the next reminder comes a minute later, and not in two days.
            clock.now_ms -= TWO_DAYS_MS
            deliveries.wake()
            await anyio.wait_all_tasks_blocked()
            assert inbox.require("q_1").reminders == 1
            clock.now_ms += MINUTE_MS
            deliveries.wake()
            await channel.tried(3)


async def test_a_thousand_open_questions_are_delivered_and_then_cost_no_timer_each(tmp_path: Path) -> None:
    clock, channel = Clock(), Recording()
    plan = ReminderPlan(first_ms=60 * MINUTE_MS, longest_ms=60 * MINUTE_MS)
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, plan, screen=channel):
            async with anyio.create_task_group() as tasks:
                for number in range(1_000):
                    tasks.start_soon(inbox.ask, question(f"q_{number}"))
            await channel.tried(1_000)
            await anyio.wait_all_tasks_blocked()
            timers = [one for one in _loop_timers() if not one.cancelled()]
            # One for the earliest reminder; the other is the test's own time limit.
            assert len(timers) <= 3


HOURLY = ReminderPlan(first_ms=60 * MINUTE_MS, longest_ms=60 * MINUTE_MS, zone=ZoneInfo("UTC"))
TWO_DAYS_MS = 2 * 1_440 * MINUTE_MS


def _loop_timers() -> list[Any]:
    return [*asyncio.get_running_loop()._scheduled]  # type: ignore[attr-defined]


async def test_a_journal_that_takes_nothing_for_a_while_makes_no_flood_of_messages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, channel = Clock(), Recording()
    async with ledger_in(tmp_path) as ledger:
        inbox = await inbox_of(ledger, clock)
        async with delivering(inbox, clock, screen=channel):
            journal: Any = ledger.journal
            monkeypatch.setattr(journal, "append", _refusing(journal.append))
            await inbox.ask(question())
            await channel.tried(1)
            await anyio.wait_all_tasks_blocked()
            assert channel.tries == 1


def _refusing(append: Callable[..., Any]) -> Callable[..., Any]:
    """Take what asks, and refuse what notes a delivery."""

    def refuse(records: Any, done: Any) -> Any:
        return DISK_FULL if b'"delivered"' in records[0].body else append(records, done)

    return refuse
