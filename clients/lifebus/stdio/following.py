"""The subscriptions of a peer: each follows by itself and puts items on the way out, as fast as that is read."""

import itertools
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from lifebus.client import Bus
from lifebus.stdio.messages import Question, encode_answer, encode_line
from lifebus.stdio.requests import Settle, Unsubscribe, decode_wish
from lifebus.stdio.sources import Consumed, Source, begin
from lifebus.stdio.writer import Outflow
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError, validate
from lifebus_transports.messages.common import RefusalInfo

_log = structlog.get_logger("lifebus.stdio")

_MOST: Final = 64


class _Followed:
    """One subscription, with what it follows from when that has begun."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.source: Source | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    async def end(self) -> None:
        """Have it end, and wait until it has."""
        self.scope.cancel()
        await self.ended.wait()


class Following:
    """Opens and ends subscriptions.  Those that end by themselves run in `ending`, the others in `lasting`."""

    def __init__(self, outflow: Outflow, lasting: TaskGroup, ending: TaskGroup) -> None:
        self._outflow = outflow
        self._lasting = lasting
        self._ending = ending
        self._numbers = itertools.count(1)
        self._open: dict[int, _Followed] = {}

    async def subscribe(self, bus: Bus, question: Question) -> None:
        """Begin, answer with the subscription's number and where it begins, and follow from there.

        Raises:
            LifebusError: it cannot be understood, there are 64 already, or the broker does not answer.
        """
        wish = decode_wish(question.body)
        if len(self._open) >= _MOST:
            raise BrokerBusy(f"{_MOST} subscriptions are open; end one first", code="busy")
        tasks = self._ending if wish.until_head else self._lasting
        await tasks.start(self._follow, begin(bus, wish), question)

    async def unsubscribe(self, question: Question) -> None:
        """End a subscription; after the answer nothing of it comes any more.

        Raises:
            InvalidRequest: there is no such subscription.
        """
        followed, source = self._find(validate(question.body, Unsubscribe).subscription)
        await followed.end()
        await self._outflow.put(encode_answer(question.id, source.place()))

    async def settle(self, question: Question) -> None:
        """Acknowledge what a named subscription told, or ask to have it again.

        Raises:
            InvalidRequest: there is no such subscription, or it has no name.
            LifebusError: another one consumes the name now, or no answer came.
        """
        wish = validate(question.body, Settle)
        _, source = self._find(wish.subscription)
        if not isinstance(source, Consumed):
            detail = f"$.subscription: subscription {wish.subscription} has no name under which a place is kept"
            raise InvalidRequest(detail, code="no_name", field="$.subscription")
        if question.verb == "ack":
            await source.ack(wish.places())
        else:
            await source.nack(wish.places(), None if wish.delay_ms is None else wish.delay_ms / 1000)
        await self._outflow.put(encode_answer(question.id, {}))

    def _find(self, number: int) -> tuple[_Followed, Source]:
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
        self, begin: AbstractAsyncContextManager[Source], question: Question, *, task_status: TaskStatus[None]
    ) -> None:
        """Begin, answer, then tell every item, and in the end how it ended."""
        followed = _Followed(next(self._numbers))
        self._open[followed.number] = followed
        name: dict[str, object] = {"subscription": followed.number}
        try:
            with followed.scope:
                async with begin as source:
                    await self._outflow.put(encode_answer(question.id, name | source.place()))
                    followed.source = source
                    task_status.started()
                    end = await self._tell(name, source)
                    await self._outflow.put(encode_line(name | source.place() | end))
        finally:
            del self._open[followed.number]
            followed.ended.set()

    async def _tell(self, name: dict[str, object], source: Source) -> dict[str, object]:
        """Tell every item, and return what tells the end."""
        try:
            async for item in source.items:
                await self._outflow.put(encode_line(name | source.keys(item)))
                source.note(item)
        except LifebusError as fault:
            return {"refused": RefusalInfo.of(fault)}
        except Exception:  # noqa: BLE001  a defect of ours costs this subscription, not the peer
            _log.exception("subscription_failed")
            return {"refused": RefusalInfo.of(InternalError("lifebus failed on this subscription; see its log"))}
        return {"ended": {}}
