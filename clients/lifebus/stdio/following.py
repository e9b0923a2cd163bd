"""The subscriptions of a peer: each follows by itself and puts items on the way out, as fast as that is read.

Above: peer.  Below: sources, outflow, messages.
"""

import itertools
from contextlib import AbstractAsyncContextManager
from typing import Final

import anyio
import structlog
from anyio.abc import TaskGroup, TaskStatus

from lifebus.client import Bus
from lifebus.stdio.messages import Question, Subscribe, Unsubscribe, encode_answer, encode_line
from lifebus.stdio.outflow import Outflow
from lifebus.stdio.sources import Source, receipts_of
from lifebus_contract import BrokerBusy, InternalError, InvalidRequest, LifebusError, validate
from lifebus_transports.messages import RefusalInfo

__all__ = ["Following"]

_log = structlog.get_logger("lifebus.stdio")

_MOST: Final = 64


class _Followed:
    """One subscription.  `told` is the place after the last item that was put on the way out, None before it began."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.told: str | None = None
        self.scope = anyio.CancelScope()
        self.ended = anyio.Event()

    def line(self, place: str | None, **item: object) -> bytes:
        """Return the line of an item, with the place to go on from after it."""
        return encode_line({"subscription": self.number, "cursor": place, **item})


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
        wish = validate(question.body, Subscribe)
        if len(self._open) >= _MOST:
            raise BrokerBusy(f"{_MOST} subscriptions are open; end one first", code="busy")
        tasks = self._ending if wish.until_head else self._lasting
        await tasks.start(self._follow, receipts_of(bus, wish), question)

    async def unsubscribe(self, question: Question) -> None:
        """End a subscription; after the answer nothing of it comes any more.

        Raises:
            InvalidRequest: there is no such subscription.
        """
        wish = validate(question.body, Unsubscribe)
        followed = self._open.get(wish.subscription)
        if followed is None or followed.told is None:
            detail = f"$.subscription: there is no subscription {wish.subscription}"
            raise InvalidRequest(detail, code="no_such_subscription", field="$.subscription")
        await _end(followed)
        await self._outflow.put(encode_answer(question.id, {"cursor": followed.told}))

    async def close(self) -> None:
        """End all of them; what was put on the way out stays there."""
        for followed in tuple(self._open.values()):
            await _end(followed)

    async def _follow(
        self, begin: AbstractAsyncContextManager[Source], question: Question, *, task_status: TaskStatus[None]
    ) -> None:
        """Begin, answer, then tell every item, and in the end how it ended."""
        followed = _Followed(next(self._numbers))
        self._open[followed.number] = followed
        try:
            with followed.scope:
                async with begin as source:
                    answer = {"subscription": followed.number, "cursor": source.start}
                    await self._outflow.put(encode_answer(question.id, answer))
                    followed.told = source.start
                    task_status.started()
                    await self._outflow.put(await self._tell(followed, source))
        finally:
            del self._open[followed.number]
            followed.ended.set()

    async def _tell(self, followed: _Followed, source: Source) -> bytes:
        """Tell every item, and return the line that tells the end."""
        try:
            async for item in source.items:
                place, keys = source.told(item)
                await self._outflow.put(followed.line(place, **keys))
                followed.told = place
        except LifebusError as fault:
            return followed.line(followed.told, refused=RefusalInfo.of(fault))
        except Exception:  # noqa: BLE001  a defect of ours costs this subscription, not the peer
            _log.exception("subscription_failed")
            defect = InternalError("lifebus failed on this subscription; see its log")
            return followed.line(followed.told, refused=RefusalInfo.of(defect))
        return followed.line(followed.told, ended={})


async def _end(followed: _Followed) -> None:
    followed.scope.cancel()
    await followed.ended.wait()
