"""The subscriptions of a peer: each follows receipts by itself and puts them on the way out, as fast as that is read.

Above: peer.  Below: the client library, outflow, messages.
"""

import itertools
from contextlib import aclosing
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus.client import Bus
from lifebus.stdio.messages import (
    Question,
    Subscribe,
    Unsubscribe,
    encode_answer,
    encode_line,
    verbatim,
)
from lifebus.stdio.outflow import Outflow
from lifebus.subscription import Subscription
from lifebus.view import Cursor, Gap
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError, validate
from lifebus_transports.messages import RefusalInfo

__all__ = ["Following"]

_MOST: Final = 64


class _Followed:
    """One open subscription.  `told` is the place after the last item that was put on the way out."""

    def __init__(self, number: int, receipts: Subscription, told: Cursor) -> None:
        self.number = number
        self.receipts = receipts
        self.told = told
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    def line(self, place: Cursor, **item: object) -> bytes:
        """Return the line of an item, with the place to go on from after it."""
        return encode_line({"subscription": self.number, "cursor": str(place), **item})


class Following:
    """Opens and ends subscriptions.  Those that end by themselves run in `ending`, the others in `lasting`."""

    def __init__(self, outflow: Outflow, lasting: TaskGroup, ending: TaskGroup) -> None:
        self._outflow = outflow
        self._lasting = lasting
        self._ending = ending
        self._numbers = itertools.count(1)
        self._joining = 0
        self._open: dict[int, _Followed] = {}

    async def subscribe(self, bus: Bus, question: Question) -> None:
        """Join, answer with the subscription's number and where it begins, and follow from there.

        Raises:
            LifebusError: it cannot be understood, there are 64 already, or the broker does not answer.
        """
        wish = validate(question.body, Subscribe)
        if len(self._open) + self._joining >= _MOST:
            raise BrokerBusy(f"{_MOST} subscriptions are open; end one first", code="busy")
        self._joining += 1
        try:
            receipts = bus.receipts(session=wish.session, since=wish.start(), until_head=wish.until_head)
            followed = _Followed(next(self._numbers), receipts, await receipts.join())
        finally:
            self._joining -= 1
        self._open[followed.number] = followed
        tasks = self._ending if wish.until_head else self._lasting
        tasks.start_soon(self._follow, followed, question)

    async def unsubscribe(self, question: Question) -> None:
        """End a subscription; after the answer nothing of it comes any more.

        Raises:
            InvalidRequest: there is no such subscription.
        """
        wish = validate(question.body, Unsubscribe)
        followed = self._open.get(wish.subscription)
        if followed is None:
            detail = f"$.subscription: there is no subscription {wish.subscription}"
            raise InvalidRequest(detail, code="no_such_subscription", field="$.subscription")
        followed.scope.cancel()
        await followed.ended.wait()
        await self._outflow.put(encode_answer(question.id, {"cursor": str(followed.told)}))

    async def close(self) -> None:
        """End all of them; what was put on the way out stays there."""
        for followed in tuple(self._open.values()):
            followed.scope.cancel()
            await followed.ended.wait()

    async def _follow(self, followed: _Followed, question: Question) -> None:
        """Answer, then tell every item, and in the end how it ended."""
        start = {"subscription": followed.number, "cursor": str(followed.told)}
        try:
            with followed.scope:
                async with aclosing(followed.receipts) as receipts:
                    await self._outflow.put(encode_answer(question.id, start))
                    await self._tell(followed, receipts)
        finally:
            del self._open[followed.number]
            followed.ended.set()

    async def _tell(self, followed: _Followed, receipts: Subscription) -> None:
        try:
            async for item in receipts:
                place = receipts.cursor or followed.told
                what = {"gap": item} if isinstance(item, Gap) else {"receipt": verbatim(item)}
                await self._outflow.put(followed.line(place, **what))
                followed.told = place
        except LifebusError as fault:
            await self._outflow.put(followed.line(followed.told, refused=RefusalInfo.of(fault)))
        else:
            await self._outflow.put(followed.line(followed.told, ended={}))
