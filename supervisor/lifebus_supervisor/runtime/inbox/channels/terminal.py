"""Messages on a terminal: that of the broker, or one that the configuration names."""

import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import anyio.to_thread

from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, body_of, title_of
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from lifebus_transports.processes.redaction import secrets_in

_CONTROLLING: Final = "/dev/tty"


class TerminalChannel:
    """Writes messages to one terminal."""

    takes_end = False

    def __init__(self, settings: ChannelSettings, environ: Mapping[str, str]) -> None:
        self._settings, self._environ = settings, environ

    async def deliver(self, message: QuestionMessage) -> None:
        """Write the message (channel.QuestionChannel.deliver)."""
        hidden = secrets_in(self._environ)
        title = title_of(message, self._settings.title, hidden)
        body = body_of(message, self._settings.body, hidden)
        # Carriage returns, because a full-screen program may have switched the translation of line ends off.
        text = "\n".join(["", "\a" + title, *(f"  {line}" for line in body.splitlines()), ""]).replace("\n", "\r\n")
        device = Path(self._settings.device or _CONTROLLING)
        await anyio.to_thread.run_sync(_write, device, text.encode(), abandon_on_cancel=True)


def _write(device: Path, data: bytes) -> None:
    try:
        # A terminal that is stopped would block; and it must not become that of the broker.
        descriptor = os.open(device, os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as fault:
        hint = "the broker has none; name one as `device`" if str(device) == _CONTROLLING else fault.strerror
        raise DeliveryFault(f"no terminal can be written to at {device}: {hint}") from None
    try:
        if not os.isatty(descriptor):
            raise DeliveryFault(f"{device} is no terminal")
        found = os.fstat(descriptor)
        if str(device) != _CONTROLLING and stat.S_ISCHR(found.st_mode) and found.st_uid != os.geteuid():
            raise DeliveryFault(f"{device} is the terminal of user {found.st_uid}")
        _write_all(descriptor, device, data)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, device: Path, data: bytes) -> None:
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except OSError as fault:
            raise DeliveryFault(f"{device} takes nothing now: {fault.strerror}") from None
