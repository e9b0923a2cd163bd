"""Desktop notifications: `notify-send` where there is one, `osascript` on macOS.

Arguments of a process can be read by others: only the title stands there, and how to see the rest, unless a template
says more.
"""

import os
import shutil
import sys
from collections.abc import Mapping
from typing import Final

from lifebus_supervisor.runtime.inbox.channels.channel import CommandOnce, DeliveryFault
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, body_of, title_of
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from lifebus_transports.processes.redaction import secrets_in
from lifebus_transports.processes.spec import CommandSpec

_PASSED: Final = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY")
_BODY: Final = "$command"
# Texts are arguments of the script, never a part of it.
_SCRIPT: Final = (
    "on run argv",
    "display notification (item 2 of argv) with title (item 1 of argv)",
    "end run",
)


class DesktopChannel:
    """Shows messages on the desktop of the broker's user."""

    takes_end = False

    def __init__(
        self, settings: ChannelSettings, run: CommandOnce, environ: Mapping[str, str], platform: str = sys.platform
    ) -> None:
        self._settings, self._run, self._environ, self._platform = settings, run, environ, platform

    async def deliver(self, message: QuestionMessage) -> None:
        """Show the message (channel.QuestionChannel.deliver)."""
        hidden = secrets_in(self._environ)
        title = title_of(message, self._settings.title, hidden)
        body = body_of(message, self._settings.body or _BODY, hidden)
        argv = desktop_words(title, body, message.delivery_id, self._platform)
        seconds = self._settings.timeout_ms / 1000
        await show_on_desktop(argv, self._run, seconds, environ=self._environ, whose=" of the broker")


def desktop_words(title: str, body: str, delivery_id: str, platform: str = sys.platform) -> tuple[str, ...]:
    """Return the command that shows a title and a text on the desktop."""
    return _mac_words(title, body) if platform == "darwin" else _words(delivery_id, title, body)


async def show_on_desktop(
    argv: tuple[str, ...],
    run: CommandOnce,
    seconds: float,
    *,
    environ: Mapping[str, str] = os.environ,
    whose: str = "",
) -> None:
    """Run what `desktop_words` returned; `whose` says in errors on whose PATH the program is missing.

    Raises:
        DeliveryFault: it was not shown, or nobody knows.
    """
    if shutil.which(argv[0], path=environ.get("PATH")) is None:
        raise DeliveryFault(f"there is no `{argv[0]}` on the PATH{whose}")
    finished = await run(CommandSpec(argv=argv, passing=_PASSED), b"", seconds)
    if finished.failure is not None:
        raise DeliveryFault(f"`{argv[0]}` failed: {finished.stderr or finished.detail or finished.failure.value}")


def _words(delivery_id: str, title: str, body: str) -> tuple[str, ...]:
    from html import escape  # noqa: PLC0415  it loads the names of 2,000 characters

    # A body may be read as markup, a title never is.
    hint = f"--hint=string:x-lifebus-delivery:{delivery_id}"
    return ("notify-send", "--app-name=lifebus", hint, "--", title, escape(body, quote=False))


def _mac_words(title: str, body: str) -> tuple[str, ...]:
    return ("osascript", *(word for line in _SCRIPT for word in ("-e", line)), title, body)
