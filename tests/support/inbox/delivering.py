"""What delivers questions, for tests: a clock that the test moves, channels that keep what they get, a real webhook."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread

from lifebus_contract.questions import QuestionInfo
from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault, QuestionChannel
from lifebus_supervisor.runtime.inbox.channels.webhook import WebhookChannel
from lifebus_supervisor.runtime.inbox.composing import configured
from lifebus_supervisor.runtime.inbox.deliveries import QuestionDeliveries
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage
from lifebus_supervisor.runtime.inbox.reminders import ReminderPlan
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from support.inbox.http_receiver import Post, Receiver
from support.inbox.questions import AT_MS
from support.patience import PATIENCE_S

SECRET = "a secret of more than twenty-four characters"
"""What the webhook signs with."""

MINUTE_MS = 60_000
"""A minute."""


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now_ms = AT_MS

    def __call__(self) -> int:
        return self.now_ms


class Recording:
    """A channel that keeps its messages, and fails while `fault` is set; it can be made to hang."""

    def __init__(self, *, takes_end: bool = False) -> None:
        self.takes_end = takes_end
        self.messages: list[QuestionMessage] = []
        self.fault: DeliveryFault | None = None
        self.tries = 0
        self.hanging = False
        self._changed = anyio.Event()

    async def deliver(self, message: QuestionMessage) -> None:
        self.tries += 1
        self._changed.set()
        self._changed = anyio.Event()
        if self.hanging:
            await anyio.sleep_forever()
        if self.fault is not None:
            raise self.fault
        self.messages.append(message)

    async def tried(self, times: int) -> None:
        """Return when it was tried so often."""
        with anyio.fail_after(PATIENCE_S):
            while self.tries < times:
                await self._changed.wait()


NEVER = ReminderPlan(first_ms=0, longest_ms=1)


@asynccontextmanager
async def delivering(
    inbox: Inbox,
    clock: Clock,
    plan: ReminderPlan = NEVER,
    **channels: QuestionChannel | tuple[QuestionChannel, dict[str, Any]],
) -> AsyncIterator[QuestionDeliveries]:
    """Deliver the questions of an inbox by channels."""
    parts = [
        configured(ChannelSettings(name=name, kind="desktop", **changes), channel)
        for name, (channel, changes) in (
            (name, one if isinstance(one, tuple) else (one, {})) for name, one in channels.items()
        )
    ]
    deliveries = QuestionDeliveries(inbox, parts, plan, clock, random=lambda: 0.0)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deliveries.run)
        await anyio.wait_all_tasks_blocked()
        yield deliveries
        tasks.cancel_scope.cancel()


async def until(inbox: Inbox, name: str, is_so: Callable[[QuestionInfo], bool]) -> QuestionInfo:
    """Return a question once something is true of it."""
    changed = anyio.Event()

    def observe(_: str) -> None:
        nonlocal changed
        changed.set()
        changed = anyio.Event()

    inbox.observe(observe)
    with anyio.fail_after(PATIENCE_S):
        while not is_so(info := inbox.require(name)):
            await changed.wait()
        return info


def webhook(url: str, directory: Path, clock: Callable[[], int], **changes: Any) -> WebhookChannel:
    secret = directory / "secret"
    if not secret.exists():
        secret.write_text(f"{SECRET}\n")
        secret.chmod(0o600)
    settings = ChannelSettings(name="hook", kind="webhook", url=url, secret_file=str(secret), **changes)
    return WebhookChannel(settings, clock, {})


async def next_post(receiver: Receiver) -> Post:
    return await anyio.to_thread.run_sync(receiver.next)
