"""What a subscription can follow, each as a block that begins it, and ends it whatever happens.

Above: following.  Below: the client library, messages.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any

from msgspec import Struct

from lifebus.client import Bus
from lifebus.stdio.messages import Subscribe, verbatim
from lifebus.view import Gap
from lifebus_contract import Receipt

__all__ = ["Source", "receipts_of"]


class Source(Struct, frozen=True, kw_only=True):
    """What has begun: the place where, the items from there on, and what a line tells of the newest one.

    A place is a cursor as text; `told` returns the place after an item, and the keys that stand for it.
    """

    start: str
    items: AsyncIterator[Any]
    told: Callable[[Any], tuple[str, dict[str, object]]]


@asynccontextmanager
async def receipts_of(bus: Bus, wish: Subscribe) -> AsyncGenerator[Source]:
    """Follow the receipts of the whole ledger or of one session.

    Raises:
        LifebusError: the broker does not answer.
    """
    following = bus.receipts(session=wish.session, since=wish.start(), until_head=wish.until_head)

    def told(item: Receipt | Gap) -> tuple[str, dict[str, object]]:
        return str(following.cursor), {"gap": item} if isinstance(item, Gap) else {"receipt": verbatim(item)}

    async with aclosing(following):
        yield Source(start=str(await following.join()), items=following, told=told)
