"""The channels of the configuration, made: what delivers, and what reads replies."""

import os
import random
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup
from msgspec import Struct

from lifebus_broker.atomic_files import write_file
from lifebus_contract import InternalError
from lifebus_supervisor.runtime.inbox.channels.apprise import AppriseChannel
from lifebus_supervisor.runtime.inbox.channels.channel import CommandOnce, QuestionChannel
from lifebus_supervisor.runtime.inbox.channels.desktop import DesktopChannel
from lifebus_supervisor.runtime.inbox.channels.question_files import FileChannel
from lifebus_supervisor.runtime.inbox.channels.replies import ReplyReader
from lifebus_supervisor.runtime.inbox.channels.terminal import TerminalChannel
from lifebus_supervisor.runtime.inbox.channels.webhook import WebhookChannel
from lifebus_supervisor.runtime.inbox.deliveries import ConfiguredChannel, QuestionDeliveries
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from lifebus_supervisor.runtime.inbox.links import KEY_BYTES, AnswerLink, link_token
from lifebus_supervisor.runtime.inbox.records import QuestionState
from lifebus_supervisor.runtime.inbox.reminders import ReminderPlan
from lifebus_supervisor.runtime.inbox.retries import ChannelPlan
from lifebus_supervisor.runtime.inbox.settings import NONE, ChannelSettings, InboxSettings

FOLDER = "inbox"
"""The folder of questions in the state directory, where a file channel names no other."""

KEY = "inbox.key"
"""The file in the state directory that holds the key of answer links."""

_MINUTE_MS = 60_000


class InboxServices(Struct, frozen=True):
    """What runs beside an inbox."""

    deliveries: QuestionDeliveries
    replies: tuple[ReplyReader, ...]

    def start(self, tasks: TaskGroup) -> None:
        """Have everything run until the tasks are cancelled."""
        tasks.start_soon(self.deliveries.run)
        for reader in self.replies:
            tasks.start_soon(reader.run)


async def start_inbox(
    settings: InboxSettings, state_dir: Path, inbox: Inbox, run: CommandOnce, tasks: TaskGroup
) -> None:
    """Deliver the questions of an inbox, and read replies, until the tasks are cancelled.

    Raises:
        InternalError: the key of the answer links cannot be used.
    """
    (await compose_inbox(settings, state_dir, inbox, run, os.environ)).start(tasks)


async def compose_inbox(
    settings: InboxSettings, state_dir: Path, inbox: Inbox, run: CommandOnce, environ: Mapping[str, str]
) -> InboxServices:
    """Return what delivers the questions of an inbox, and reads replies; nothing of it runs yet.

    Raises:
        InternalError: the key of the answer links cannot be used.
    """

    def clock() -> int:
        return time.time_ns() // 1_000_000

    def channel_of(one: ChannelSettings) -> QuestionChannel:
        match one.kind:
            case "webhook":
                return WebhookChannel(one, clock, environ)
            case "desktop":
                return DesktopChannel(one, run, environ)
            case "terminal":
                return TerminalChannel(one, environ)
            case "file":
                return FileChannel(_folder_of(one, state_dir))
            case "apprise":
                return AppriseChannel(one, run, environ)

    channels = [configured(one, channel_of(one)) for one in settings.channels]
    plan = ReminderPlan(
        first_ms=settings.remind_after_min * _MINUTE_MS,
        longest_ms=settings.remind_longest_min * _MINUTE_MS,
        quiet=settings.quiet,
    )
    link = await _linking(settings.link_base, state_dir / KEY)
    shares = random.Random(os.urandom(32))  # noqa: S311  only spreads retries
    return InboxServices(
        QuestionDeliveries(inbox, channels, plan, clock, random=shares.random, link=link),
        tuple(
            ReplyReader(_folder_of(one, state_dir), one.name, inbox) for one in settings.channels if one.kind == "file"
        ),
    )


def configured(settings: ChannelSettings, channel: QuestionChannel) -> ConfiguredChannel:
    """Return a channel with what its settings say."""
    plan = ChannelPlan(name=settings.name, reminds=settings.remind, takes_end=channel.takes_end)
    return ConfiguredChannel(plan=plan, channel=channel, timeout_s=settings.timeout_ms / 1000)


def read_key(path: Path) -> bytes:
    """Return the key of answer links, made where there is none; blocks.

    Raises:
        InternalError: it cannot be read or written, or is too short.
    """
    try:
        if not path.exists():
            # Whole or not there; and only one broker has the state directory.
            write_file(path, os.urandom(KEY_BYTES))
        key = path.read_bytes()
    except OSError as fault:
        raise InternalError(f"{path} cannot be used: {fault.strerror}", code="unreadable") from fault
    if len(key) < KEY_BYTES:
        raise InternalError(f"{path} holds no key of {KEY_BYTES} bytes; remove it for a new one", code="unreadable")
    return key


async def _linking(base: str, path: Path) -> Callable[[QuestionState], str | None]:
    """Return what makes the address at which a question can be answered."""
    if base == NONE:
        return lambda _: None
    key = await anyio.to_thread.run_sync(read_key, path)
    return lambda state: f"{base.rstrip('/')}/{link_token(AnswerLink(question_id=state.question.question_id), key)}"


def _folder_of(settings: ChannelSettings, state_dir: Path) -> Path:
    return state_dir / FOLDER if settings.folder is None else Path(settings.folder).expanduser()
