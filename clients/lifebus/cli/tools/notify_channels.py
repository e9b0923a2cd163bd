"""The ways by which `lifebus notify` sends a message: the desktop, a command, an address.

The desktop and the signed POST are those of the inbox (docs/inbox.md, "Channels").
"""

import os
import shutil
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import msgspec

from lifebus.cli.exit_codes import UsageError
from lifebus.cli.tools.notify_loop import SendFault
from lifebus.cli.tools.notify_rules import NoticeMessage
from lifebus_contract import LifebusError

if TYPE_CHECKING:
    from lifebus_transports.processes.once import Commands

Send = Callable[[NoticeMessage], Awaitable[None]]
"""Sends a message, or raises `SendFault`."""

Post = Callable[[str, bytes, str], Awaitable[None]]
"""Posts a body of a media type under an id that is the same for each try, or raises `SendFault`."""

_DESKTOP_S: Final = 10.0
_SEEN: Final = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XAUTHORITY", "LIFEBUS_*")
_FINE: Final = range(200, 300)


def desktop_program(environ: Mapping[str, str] = os.environ, platform: str = sys.platform) -> str:
    """Return the program that shows notices on this desktop.

    Raises:
        UsageError: there is none.
    """
    program = "osascript" if platform == "darwin" else "notify-send"
    if shutil.which(program, path=environ.get("PATH")) is None:
        other = "give a command after `--`, or an address with --webhook"
        raise UsageError(f"there is no `{program}` here to show notices on the desktop; install it, {other}")
    return program


def to_desktop(commands: "Commands") -> Send:
    """Return what shows messages on the desktop."""
    from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.desktop import desktop_words, show_on_desktop  # noqa: PLC0415

    async def send(message: NoticeMessage) -> None:
        try:
            argv = desktop_words(message.title, message.text, message.message_id)
            await show_on_desktop(argv, commands.run_once, _DESKTOP_S)
        except DeliveryFault as fault:
            raise SendFault(fault.detail) from None

    return send


def to_command(commands: "Commands", argv: Sequence[str], passing: Sequence[str], seconds: float) -> Send:
    """Return what runs a command for each message: JSON on stdin, the most important of it in variables."""
    from lifebus_transports.processes.spec import CommandSpec  # noqa: PLC0415

    async def send(message: NoticeMessage) -> None:
        setting = {
            "LIFEBUS_NOTICE_ID": message.message_id,
            "LIFEBUS_NOTICE_TITLE": message.title,
            "LIFEBUS_NOTICE_TEXT": message.text or message.title,
            "LIFEBUS_NOTICE_COUNT": str(len(message.notices)),
        }
        if len(message.notices) == 1:
            one = message.notices[0]
            setting |= {
                "LIFEBUS_NOTICE_KIND": one.kind,
                "LIFEBUS_ADAPTER": one.adapter_id,
                "LIFEBUS_SESSION": one.name,
                "LIFEBUS_PROJECT": one.project,
            }
        spec = CommandSpec(argv=tuple(argv), passing=(*_SEEN, *passing), setting=setting)
        finished = await commands.run_once(spec, msgspec.json.encode(message) + b"\n", seconds)
        # A command that reads nothing has done its work all the same.
        if finished.exit_code != 0:
            why = finished.stderr or finished.detail or f"exit code {finished.exit_code}"
            raise SendFault(f"`{argv[0]}` failed: {why}")

    return send


class Address:
    """Where messages are posted, and what signs them: each a file, a variable, or the address as it is."""

    def __init__(
        self, url: str | None, url_file: str | None, url_variable: str | None, secret: tuple[str | None, str | None]
    ) -> None:
        self._url, self._url_file, self._url_variable, self._secret = url, url_file, url_variable, secret
        if sum(one is not None for one in (url, url_file, url_variable)) > 1:
            raise UsageError("--webhook, --webhook-file and --webhook-variable are three ways to say one thing")
        if url is not None:
            try:
                check_address(url)
            except ValueError as fault:
                raise UsageError(f"--webhook: {fault}") from None

    async def read(self) -> tuple[str, str | None]:
        """Return the address and the secret, as they are now.

        Raises:
            SendFault: one of them cannot be read.
        """
        from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault  # noqa: PLC0415
        from lifebus_supervisor.runtime.inbox.channels.secrets import SecretSource  # noqa: PLC0415

        try:
            url = self._url or await SecretSource(self._url_file, self._url_variable).read(os.environ)
            is_signed = any(self._secret)
            secret = await SecretSource(*self._secret).read(os.environ) if is_signed else None
            check_address(url)
        except (DeliveryFault, ValueError) as fault:
            raise SendFault(str(fault)) from None
        return url, secret


def require_sources(files: Mapping[str, str | None], variables: Mapping[str, str | None]) -> None:
    """Refuse files and variables that are not there; what they hold is read for each message.

    Both are by what they hold, as their flags begin: ``webhook`` of ``--webhook-file``.

    Raises:
        LifebusError: there is no such file.
        UsageError: there is no such variable.
    """
    for name, file in files.items():
        if file is not None and not Path(file).is_file():
            raise LifebusError(f"--{name}-file: there is no file {file}", code="unreadable")
    for name, variable in variables.items():
        if variable is not None and variable not in os.environ:
            raise UsageError(f"--{name}-variable: the environment has no variable `{variable}`")


def check_address(url: str) -> None:
    """Refuse an address that cannot be posted to, or that sends what sessions do over a network in the clear.

    Raises:
        ValueError: says why, without the address.
    """
    from lifebus_supervisor.runtime.inbox.settings import check_url  # noqa: PLC0415

    check_url(url)
    parts = urlsplit(url)
    if parts.scheme == "http" and not _is_loopback(parts.hostname or ""):
        raise ValueError("http:// is for this machine alone; write https://")


def to_webhook(address: Address, seconds: float) -> Send:
    """Return what posts messages as JSON, signed where there is a secret."""
    post = posting(address, seconds)

    async def send(message: NoticeMessage) -> None:
        await post(message.message_id, msgspec.json.encode(message), "application/json")

    return send


def posting(address: Address, seconds: float) -> Post:
    """Return what posts bodies, signed where there is a secret."""
    import anyio  # noqa: PLC0415

    from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.http_post import PostFault, post  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.secrets import signing_key  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.webhook import signed_headers  # noqa: PLC0415

    async def send(message_id: str, body: bytes, media_type: str) -> None:
        url, secret = await address.read()
        headers = {"User-Agent": "lifebus", "webhook-id": message_id}
        try:
            if secret is not None:
                headers = signed_headers(message_id, int(time.time()), body, signing_key(secret))
            with anyio.fail_after(seconds):
                answer = await post(url, headers | {"Content-Type": media_type}, body)
        except (PostFault, DeliveryFault) as fault:
            raise SendFault(str(fault)) from None
        except TimeoutError:
            raise SendFault(f"the server did not answer within {seconds:g} s") from None
        if answer.status not in _FINE:
            raise SendFault(f"the server answered {answer.status}", answer.retry_after_s)

    return send


def to_apprise(commands: "Commands", file: str | None, variable: str | None, seconds: float) -> Send:
    """Return what hands messages to apprise, for the URL in a file or a variable."""
    from lifebus_supervisor.runtime.inbox.channels.apprise import hand_over  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault  # noqa: PLC0415
    from lifebus_supervisor.runtime.inbox.channels.secrets import SecretSource  # noqa: PLC0415

    async def send(message: NoticeMessage) -> None:
        try:
            url = await SecretSource(file, variable).read(os.environ)
            await hand_over(url, (message.title, message.text or message.title), commands.run_once, seconds)
        except DeliveryFault as fault:
            raise SendFault(fault.detail) from None

    return send


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
