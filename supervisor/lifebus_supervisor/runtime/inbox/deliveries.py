"""Brings questions to people: one worker a channel, and one that sees to reminders.

What is due follows from the records of each question and the configured channels alone, so that nothing has to be
remembered beside them: after a crash between a delivery and its record the same message goes out once more, under the
same id.  A channel that fails or hangs holds up itself only.
"""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import structlog
from msgspec import Struct

from lifebus_contract import LifebusError
from lifebus_supervisor.runtime.due.due_queue import DueQueue
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault, QuestionChannel
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, message_for
from lifebus_supervisor.runtime.inbox.records import (
    InboxRecord,
    NotificationDelivered,
    NotificationFailed,
    QuestionReminded,
    QuestionState,
)
from lifebus_supervisor.runtime.inbox.reminders import ReminderPlan, after_quiet_ms, reminder_due_ms
from lifebus_supervisor.runtime.inbox.retries import PAUSE, ChannelPlan, due_delivery
from lifebus_supervisor.runtime.rules.retry_pause import pause_ms

_UNWRITTEN_S: Final = 5.0
"""How long a worker rests when the journal takes nothing."""

_MAX_FAULT: Final = 500

_log = structlog.get_logger("lifebus.inbox")


class ConfiguredChannel(Struct, frozen=True, kw_only=True):
    """A channel with what the configuration says of it; one try takes at most `timeout_s`."""

    plan: ChannelPlan
    channel: QuestionChannel
    timeout_s: float


class QuestionDeliveries:
    """Delivers what is due.

    `clock` returns wall-clock milliseconds, `random` a number from 0 to 1; `link` the signed address at which a
    question can be answered, None where there is none.
    """

    def __init__(
        self,
        inbox: Inbox,
        channels: Sequence[ConfiguredChannel],
        reminders: ReminderPlan,
        clock: Callable[[], int],
        *,
        random: Callable[[], float],
        link: Callable[[QuestionState], str | None] = lambda _: None,
    ) -> None:
        self._inbox, self._reminders, self._clock = inbox, reminders, clock
        self._workers = [_ChannelWorker(inbox, one, clock, random, link) for one in channels]
        self._reminds = any(one.plan.reminds for one in channels)
        self._due = DueQueue(clock)
        self._settled = anyio.Event()

    async def run(self) -> None:
        """Deliver until cancelled."""
        self._inbox.observe(self.refresh)
        for state in self._inbox.states():
            self.refresh(state.question.question_id)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._forget)
            if self._reminds:
                tasks.start_soon(self._remind)
            for worker in self._workers:
                tasks.start_soon(worker.run)

    def refresh(self, question_id: str) -> None:
        """Look at a question again; what has become of it may make something due."""
        state = self._inbox.state(question_id)
        if state is None:
            return
        for worker in self._workers:
            worker.refresh(state)
        self._order_reminder(question_id, state)
        if not state.is_open:
            self._settled.set()

    def _order_reminder(self, question_id: str, state: QuestionState) -> None:
        now_ms = self._clock()
        since_ms = min(state.occasion_at_ms, now_ms)
        at_ms = reminder_due_ms(state, self._reminders, since_ms) if self._reminds else None
        if at_ms is not None and state.occasion_at_ms > now_ms:
            # The clock was set back: the pause counts from now on, and once, whatever else is recorded meanwhile.
            self._due.put_at_latest(question_id, at_ms)
        else:
            self._due.put(question_id, at_ms)

    def wake(self) -> None:
        """Look at the clock again."""
        self._due.wake()
        for worker in self._workers:
            worker.due.wake()

    async def _remind(self) -> None:
        while True:
            name = await self._due.take()
            state = self._inbox.state(name)
            if state is None or not state.is_open:
                continue
            now_ms = self._clock()
            later_ms = after_quiet_ms(now_ms, self._reminders.quiet, self._reminders.zone)
            if later_ms > now_ms:  # a machine that slept wakes in the night, or a clock was set
                self._due.put(name, later_ms)
                continue
            # One reminder however many were missed while no broker ran: the next is counted from now.
            if not await _note(self._inbox, name, QuestionReminded(self._clock())):
                self._due.put(name, self._clock())

    async def _forget(self) -> None:
        """Drop the oldest settled questions whenever one was settled."""
        while True:
            self._settled = anyio.Event()
            try:
                await self._inbox.forget_oldest()
            except LifebusError as fault:
                _log.warning("settled_not_forgotten", detail=fault.detail)
            await self._settled.wait()


class _ChannelWorker:
    """Delivers by one channel, one message at a time."""

    def __init__(
        self,
        inbox: Inbox,
        configured: ConfiguredChannel,
        clock: Callable[[], int],
        random: Callable[[], float],
        link: Callable[[QuestionState], str | None],
    ) -> None:
        self._inbox, self._configured, self._clock, self._random = inbox, configured, clock, random
        self._link, self._plan = link, configured.plan
        self.due = DueQueue(clock)
        self._at_work: str | None = None

    def refresh(self, state: QuestionState) -> None:
        """Take in how a question stands now."""
        name = state.question.question_id
        found = due_delivery(state, self._plan)
        # What is being delivered right now is looked at again when that is over.
        if name == self._at_work:
            return
        if found is None:
            self.due.put(name, None)
            return
        latest_ms = self._clock() + (2 * PAUSE.longest_ms if found.is_retry else 0)
        if found.at_ms > latest_ms:  # the clock was set back: a pause lasts no longer for that
            self.due.put_at_latest(name, latest_ms)
        else:
            self.due.put(name, found.at_ms)

    async def run(self) -> None:
        """Deliver what is due, until cancelled."""
        while True:
            name = await self.due.take()
            self._at_work = name
            try:
                state = self._inbox.state(name)
                found = None if state is None else due_delivery(state, self._plan)
                if state is not None and found is not None:
                    message = message_for(state, self._plan.name, found.occasion, self._link(state))
                    await _note(self._inbox, name, await self._try(message, found.occasion))
            finally:
                self._at_work = None
            if (state := self._inbox.state(name)) is not None:
                self.refresh(state)

    async def _try(self, message: QuestionMessage, occasion: int) -> NotificationDelivered | NotificationFailed:
        """Try once; return what came of it."""
        name, question = self._plan.name, message.question.question_id
        try:
            with anyio.fail_after(self._configured.timeout_s):
                await self._configured.channel.deliver(message)
        except TimeoutError:
            fault = DeliveryFault(f"it took longer than {self._configured.timeout_s:g} s")
        except DeliveryFault as found:
            fault = found
        except Exception as found:  # noqa: BLE001  a defect of one channel must not end the others
            _log.exception("channel_failed", channel=name, question_id=question)
            fault = DeliveryFault(f"the channel failed: {type(found).__name__}")
        else:
            _log.info("question_delivered", channel=name, question_id=question, delivery_id=message.delivery_id)
            return NotificationDelivered(name, occasion, self._clock())
        known = message.state.channels.get(name)
        plain = pause_ms(PAUSE, known.failures if known is not None else 0, self._random())
        pause = max(plain, min(fault.retry_after_ms, PAUSE.longest_ms))
        _log.warning("question_not_delivered", channel=name, question_id=question, fault=fault.detail, retry_ms=pause)
        return NotificationFailed(name, self._clock() + pause, fault.detail[:_MAX_FAULT])


async def _note(inbox: Inbox, name: str, record: InboxRecord) -> bool:
    """Record; say whether that was possible.  Where it was not, rest, because the same is due again at once."""
    try:
        await inbox.note(name, record)
    except LifebusError as fault:
        _log.warning("delivery_not_recorded", question_id=name, detail=fault.detail)
        await anyio.sleep(_UNWRITTEN_S)
        return False
    return True
