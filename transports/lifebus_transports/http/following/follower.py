"""What both kinds of streams share: who opens them, and how they end."""

import anyio
from msgspec.structs import replace
from starlette.types import Scope

from lifebus_contract import LifebusError
from lifebus_transports.http.counters import GatewayCounters
from lifebus_transports.http.following.frames import ControlFrame
from lifebus_transports.http.following.opening import Opening, StreamQuery, opening_of
from lifebus_transports.http.following.pages import Pages
from lifebus_transports.http.following.rendering import Renderer
from lifebus_transports.http.following.stream import TopicStream
from lifebus_transports.http.following.wakes import Wakes
from lifebus_transports.http.operations.errors import HttpRefusal, refusal_of, refuse
from lifebus_transports.http.operations.receipts import whole_session
from lifebus_transports.http.ports import Calls
from lifebus_transports.http.requests import query_of


class Following:
    """The streams of one gateway, which end with `closing`.

    `send_s` is how long a client may not read before its stream ends.
    """

    def __init__(self, calls: Calls, pages: Pages, wakes: Wakes, counters: GatewayCounters, *, send_s: float) -> None:
        self._calls = calls
        self.send_s = send_s
        self.counters = counters
        self.closing = anyio.Event()
        self.renderer = Renderer()
        self._pages = pages
        self._wakes = wakes

    async def answer(self, scope: Scope, last_id: str | None) -> tuple[StreamQuery, TopicStream, ControlFrame]:
        """Return what a request asks for, the stream that it gets, and the first frame of that.

        Raises:
            HttpRefusal: why there is none.
        """
        try:
            query: StreamQuery = query_of(scope["query_string"].decode("latin-1"), StreamQuery)
            query = await self._named(query)
            return query, *await self.open(opening_of(query, last_id))
        except ValueError as fault:
            raise HttpRefusal(refuse(400, "invalid_request", str(fault)[:512])) from None
        except LifebusError as fault:
            raise HttpRefusal(refusal_of(fault)) from None

    async def _named(self, query: StreamQuery) -> StreamQuery:
        """Return the query with the whole name of its session.

        Raises:
            LifebusError: there is no such session, or there are several.
        """
        pair = await whole_session(self._calls, query.adapter, query.session)
        return query if pair is None else replace(query, adapter=pair[0], session=pair[1])

    async def open(self, opening: Opening) -> tuple[TopicStream, ControlFrame]:
        """Return a stream and its first frame.

        Raises:
            LifebusError: the broker refused.
        """
        stream = TopicStream(opening.topics, self._pages, self._wakes, thread_id=opening.thread_id)
        return stream, await stream.open(opening.cursor, opening.begin)
