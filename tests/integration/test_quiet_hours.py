"""`lifebus notify` in quiet hours, beside a real broker and with a clock of the test's own."""

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from functools import partial

import anyio
import anyio.lowlevel
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream

import lifebus
from lifebus.cli.tools import notify_loop
from lifebus.cli.tools.notify_loop import Notifier
from lifebus.cli.tools.notify_rules import KINDS, NoticeMessage, NoticePlan
from lifebus_supervisor.runtime.inbox.quiet_hours import QuietHours
from support.patience import PATIENCE_S
from support.running import connected, running_bus

HOUR = timedelta(hours=1)


def hours_around_now() -> QuietHours:
    """From an hour ago until an hour from now."""
    now = datetime.now().astimezone()
    return QuietHours.parse(f"{now - HOUR:%H:%M}-{now + HOUR:%H:%M}")


@asynccontextmanager
async def notifying(bus: lifebus.Bus, *, drops: bool) -> AsyncGenerator[MemoryObjectReceiveStream[NoticeMessage]]:
    """A notifier in quiet hours; what it sends can be received."""
    sent, received = anyio.create_memory_object_stream[NoticeMessage](16)
    hours, ready = hours_around_now(), anyio.Event()
    plan = NoticePlan(
        kinds=frozenset(KINDS),
        max_age_ms=10**9,
        is_quiet=lambda at_ms: hours.hold(at_ms, None),
        drops_quiet=drops,
    )
    notifier = Notifier(bus, "n", plan, sent.send, accepts=lambda *_: True, group_s=0.0)
    async with sent, received, anyio.create_task_group() as tasks:
        tasks.start_soon(partial(notifier.run, ready.set))
        await ready.wait()
        yield received
        tasks.cancel_scope.cancel()


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many milliseconds the tool's clock is ahead, in one item."""
    ahead = [0]
    monkeypatch.setattr(notify_loop, "_GLANCE_S", 0.01)
    monkeypatch.setattr(notify_loop, "_now_ms", lambda: time.time_ns() // 1_000_000 + ahead[0])
    return ahead


async def end_sessions(bus: lifebus.Bus, *names: str) -> None:
    events = [(what, name) for name in names for what in ("session.started", "session.ended")]
    await bus.emit([lifebus.make_request(what, "codex", session=name) for what, name in events])


async def test_what_happens_in_quiet_hours_is_summed_up_when_they_are_over(later: list[int]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus, notifying(bus, drops=False) as received:
        await end_sessions(bus, "s1", "s2")
        # It has the time to take what is recorded, and leaves it where it is.
        for _ in range(50):
            assert [one.lag for one in await bus.cursors.standing()] == [4]
        over_ms = time.time_ns() // 1_000_000 + 7_200_000
        later[0] = 7_200_000
        messages: list[NoticeMessage] = []
        with anyio.fail_after(PATIENCE_S):
            while sum(message.summed.get("ends", 0) + len(message.notices) for message in messages) < 2:
                messages.append(await received.receive())
    assert all(message.sent_at_ms >= over_ms for message in messages)
    assert [notice for message in messages for notice in message.notices] == []


async def test_what_happens_in_quiet_hours_is_left_out_where_that_is_asked(later: list[int]) -> None:
    async with running_bus() as daemon, connected(daemon) as bus, notifying(bus, drops=True) as received:
        await end_sessions(bus, "s1", "s2")
        later[0] = 7_200_000
        with anyio.fail_after(PATIENCE_S):
            while (await bus.cursors.standing())[0].lag:
                await anyio.lowlevel.checkpoint()
        assert received.statistics().current_buffer_used == 0
