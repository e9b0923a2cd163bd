"""Any service that apprise knows, by one of its URLs; apprise is the extra ``lifebus[notify]``.

It runs in a process of its own: it blocks, brings many libraries along, and may be killed at its time limit.  The URL
goes through stdin, because arguments and variables of a process can be read by others.
"""

import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from lifebus_supervisor.runtime.inbox.channels import apprise_program
from lifebus_supervisor.runtime.inbox.channels.channel import CommandOnce, DeliveryFault
from lifebus_supervisor.runtime.inbox.channels.secrets import SecretSource
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, body_of, title_of
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings
from lifebus_transports.processes.redaction import secrets_in
from lifebus_transports.processes.spec import CommandSpec

_PASSED: Final = (
    *("PYTHONPATH", "DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY", "SSL_CERT_*", "REQUESTS_CA_BUNDLE"),
    *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"),
)


class AppriseChannel:
    """Hands messages to apprise, for one URL."""

    takes_end = False

    def __init__(self, settings: ChannelSettings, run: CommandOnce, environ: Mapping[str, str]) -> None:
        self._settings, self._run, self._environ = settings, run, environ
        self._source = SecretSource(settings.url_file, settings.url_variable)

    async def deliver(self, message: QuestionMessage) -> None:
        """Hand the message over (channel.QuestionChannel.deliver)."""
        url = await self._source.read(self._environ)
        hidden = (url, *secrets_in(self._environ))
        title, body = title_of(message, self._settings.title, hidden), body_of(message, self._settings.body, hidden)
        await hand_over(url, (title, body), self._run, self._settings.timeout_ms / 1000)


async def hand_over(url: str, text: tuple[str, str], run: CommandOnce, seconds: float) -> None:
    """Hand title and body to apprise, for one URL.

    Raises:
        DeliveryFault: it was not delivered; the text says why.
    """
    if len(url.split()) > 1:
        raise DeliveryFault("a channel has one URL; give each its own channel")
    task = apprise_program.AppriseTask(url=url, title=text[0], body=text[1])
    spec = CommandSpec(argv=(sys.executable, "-m", apprise_program.__name__), passing=_PASSED)
    finished = await run(spec, msgspec.json.encode(task), seconds, bodies=(url,))
    if finished.failure is not None:
        raise DeliveryFault(f"apprise failed: {finished.stderr or finished.detail or finished.failure.value}")
    try:
        outcome = msgspec.json.decode(finished.stdout, type=apprise_program.AppriseOutcome)
    except msgspec.MsgspecError:
        raise DeliveryFault("apprise wrote something that cannot be read") from None
    if outcome.fault is not None:
        raise DeliveryFault(outcome.fault)
