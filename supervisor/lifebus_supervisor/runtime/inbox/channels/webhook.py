"""The webhook: a signed POST of what a question is, as the Standard Webhooks specification has it.

The headers are `webhook-id`, the same for each try of one message; `webhook-timestamp`, the second of this try; and
`webhook-signature`: ``v1,`` and in Base64 the HMAC-SHA256 of id, timestamp and body with dots between them.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from lifebus_supervisor.runtime.inbox.channels.channel import DeliveryFault
from lifebus_supervisor.runtime.inbox.channels.http_post import PostFault, post
from lifebus_supervisor.runtime.inbox.channels.secrets import SecretSource, signing_key
from lifebus_supervisor.runtime.inbox.messages import QuestionMessage, document_of
from lifebus_supervisor.runtime.inbox.settings import ChannelSettings, check_url
from lifebus_transports.processes.redaction import secrets_in

_FINE: Final = range(200, 300)


class WebhookChannel:
    """Posts messages to one address.  `clock` returns wall-clock milliseconds."""

    takes_end = True

    def __init__(self, settings: ChannelSettings, clock: Callable[[], int], environ: Mapping[str, str]) -> None:
        self._url = settings.url
        self._url_source = SecretSource(settings.url_file, settings.url_variable)
        self._secret_source = SecretSource(settings.secret_file, settings.secret_variable)
        self._clock, self._environ = clock, environ

    async def deliver(self, message: QuestionMessage) -> None:
        """Post the message (channel.QuestionChannel.deliver)."""
        url = self._url or await self._url_source.read(self._environ)
        secret = await self._secret_source.read(self._environ)
        try:
            check_url(url)
        except ValueError as fault:
            raise DeliveryFault(str(fault)) from None
        now_ms = self._clock()
        hidden = (secret, *secrets_in(self._environ))
        body = msgspec.json.encode(document_of(message, sent_at_ms=now_ms, secrets=hidden))
        headers = signed_headers(message.delivery_id, now_ms // 1000, body, signing_key(secret))
        try:
            answer = await post(url, headers, body)
        except PostFault as fault:
            raise DeliveryFault(str(fault)) from None
        if answer.status not in _FINE:
            raise DeliveryFault(
                f"the server answered {answer.status}", retry_after_ms=(answer.retry_after_s or 0) * 1000
            )


def signed_headers(delivery_id: str, at_s: int, body: bytes, key: bytes) -> dict[str, str]:
    """Return the headers of a post."""
    signed = f"{delivery_id}.{at_s}.".encode() + body
    signature = base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    return {
        "Content-Type": "application/json",
        "User-Agent": "lifebus",
        "webhook-id": delivery_id,
        "webhook-timestamp": str(at_s),
        "webhook-signature": f"v1,{signature}",
    }
