"""What both kinds of streams share: who opens them, and how they end."""

import anyio

from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.http.following.opening import Opening
from lifebus_transports.http.following.pages import Pages
from lifebus_transports.http.following.stream import TopicStream
from lifebus_transports.http.following.wakes import Wakes


class Following:
    """The streams of one gateway, which end with `closing`.

    `send_s` is how long a client may not read before its stream ends.
    """

    def __init__(self, pages: Pages, wakes: Wakes, counters: GatewayCounters, *, send_s: float) -> None:
        self.send_s = send_s
        self.counters = counters
        self.closing = anyio.Event()
        self._pages = pages
        self._wakes = wakes

    def stream(self, opening: Opening) -> TopicStream:
        """Return a stream that is not open yet."""
        return TopicStream(opening.topics, self._pages, self._wakes, thread_id=opening.thread_id)
