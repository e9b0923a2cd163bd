"""The subscriptions of a peer: each follows by itself and puts items on the way out, as fast as that is read."""

import itertools
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio
from anyio.abc import TaskGroup, TaskStatus

from lifebus._internal.log import ClientLogger
from lifebus.stdio.bodies import Settle, Unsubscribe, decode_subscribe
from lifebus.stdio.broker_api import BrokerApi
from lifebus.stdio.sources import ConsumerSource, FollowSource
from lifebus.stdio.writer import LineWriter
from lifebus_contract import InternalError, InvalidRequest, LifebusError, validate
from lifebus_transports.framing.json_lines import LineRequest, encode_answer, encode_line
from lifebus_transports.messages.common import RefusalInfo

_log = ClientLogger("lifebus.stdio")

_MAX_OPEN: Final = 64

SETTLING: Final = ("ack", "nack")
"""Verbs that a named subscription has of its own; without a subscription they are those of the wire."""


class _OpenSubscription:
    """One subscription, with what it follows from when that has begun."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.source: FollowSource | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    async def end(self) -> None:
        """Have it end, and wait until it has."""
        self.scope.cancel()
        await self.ended.wait()


class Subscriptions:
    """Opens and ends subscriptions.  Those that end by themselves run in `ending`, the others in `lasting`."""

    def __init__(self, api: BrokerApi, lines: LineWriter, lasting: TaskGroup, ending: TaskGroup) -> None:
        self._api = api
        self._lines = lines
        self._lasting = lasting
        self._ending = ending
        self._numbers = itertools.count(1)
        self._open: dict[int, _OpenSubscription] = {}

    def handlers(self) -> dict[str, Callable[[LineRequest], Awaitable[None]]]:
        """Return what serves each verb of a subscription."""
        return {
            "subscribe": self.subscribe,
            "unsubscribe": self.unsubscribe,
            **dict.fromkeys(SETTLING, self.settle),
        }

    async def subscribe(self, request: LineRequest) -> None:
        """Begin, answer with the subscription's number and where it begins, and follow from there.

        Raises:
            LifebusError: it cannot be understood, there are 64 already, or the broker does not answer.
        """
        body = decode_subscribe(request.body)
        if len(self._open) >= _MAX_OPEN:
            detail = f"{_MAX_OPEN} subscriptions are open, the most of one peer; `unsubscribe` one, then ask again"
            raise InvalidRequest(detail, code="too_many_subscriptions")
        # Those that end by themselves are finished at the end of the input, the others are ended.
        tasks = self._ending if body.until_head else self._lasting
        await tasks.start(self._follow, self._api.stream(body), request)

    async def unsubscribe(self, request: LineRequest) -> None:
        """End a subscription; after the answer nothing of it comes any more.

        Raises:
            InvalidRequest: there is no such subscription.
        """
        followed, source = self._find(validate(request.body, Unsubscribe).subscription)
        await followed.end()
        await self._lines.put(encode_answer(request.id, source.place()))

    async def settle(self, request: LineRequest) -> None:
        """Acknowledge what a named subscription delivered, or have it delivered again.

        Raises:
            InvalidRequest: there is no such subscription, or it has no name.
            LifebusError: another one consumes the name now, or no answer came.
        """
        body = validate(request.body, Settle)
        _, source = self._find(body.subscription)
        if not isinstance(source, ConsumerSource):
            detail = f"$.subscription: subscription {body.subscription} has no name under which a place is kept"
            raise InvalidRequest(detail, code="no_name", field="$.subscription")
        if request.verb == "ack":
            await source.ack(body.positions())
        else:
            await source.nack(body.positions(), None if body.delay_ms is None else body.delay_ms / 1000)
        await self._lines.put(encode_answer(request.id, {}))

    def _find(self, number: int) -> tuple[_OpenSubscription, FollowSource]:
        followed = self._open.get(number)
        if followed is None or followed.source is None:
            detail = f"$.subscription: there is no subscription {number}"
            raise InvalidRequest(detail, code="no_such_subscription", field="$.subscription")
        return followed, followed.source

    async def close(self) -> None:
        """End all of them; what was put on the way out stays there."""
        for followed in tuple(self._open.values()):
            await followed.end()

    async def _follow(
        self,
        stream: AbstractAsyncContextManager[FollowSource],
        request: LineRequest,
        *,
        task_status: TaskStatus[None],
    ) -> None:
        """Begin, answer, then write every item, and in the end how it ended."""
        followed = _OpenSubscription(next(self._numbers))
        self._open[followed.number] = followed
        name: dict[str, object] = {"subscription": followed.number}
        try:
            with followed.scope:
                async with stream as source:
                    await self._lines.put(encode_answer(request.id, name | source.place()))
                    # After the answer was put: only now does the peer know the number.
                    followed.source = source
                    task_status.started()
                    end = await self._write_items(name, source)
                    await self._lines.put(encode_line(name | source.place() | end))
        finally:
            del self._open[followed.number]
            # In the end of all: `unsubscribe` answers when nothing of it can come any more.
            followed.ended.set()

    async def _write_items(self, name: dict[str, object], source: FollowSource) -> dict[str, object]:
        """Write every item, and return the keys of the line that ends it."""
        try:
            async for item in source.items:
                await self._lines.put(encode_line(name | source.keys(item)))
                # After it was put: a place must not lie behind an item that was not written.
                source.note(item)
        except LifebusError as fault:
            return {"refused": RefusalInfo.of(fault)}
        except Exception:  # noqa: BLE001  a defect of ours costs this subscription, not the peer
            _log.exception("subscription_failed")
            return {"refused": RefusalInfo.of(InternalError("lifebus failed on this subscription; see its log"))}
        return {"ended": {}}
