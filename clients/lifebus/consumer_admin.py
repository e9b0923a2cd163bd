"""Named consumers: their positions and lag, reset, eviction, dead letters (docs/consuming.md)."""

from lifebus._internal.connection import Connection
from lifebus_contract.consumers import ConsumerInfo, DeadLetter
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.consumers import (
    ConsumersQuery,
    DeadLettersAnswer,
    DeadLettersQuery,
    EvictConsumer,
    ResetConsumer,
)


class ConsumerAdmin:
    """The named consumers of a broker; every call is bounded by `timeout` seconds."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def standing(self, name: str | None = None) -> list[ConsumerInfo]:
        """Return the positions and counts of all named consumers, or of one.

        Raises:
            InvalidRequest: there is none of this name.
        """
        return await self._connection.ask(
            "cursors", ConsumersQuery(cursor=name), list[ConsumerInfo], timeout=self._timeout
        )

    async def reset(self, name: str, after: int | None = None) -> ConsumerInfo:
        """Have a consumer start again after the position `after`: 0 is the whole history; the default is the head.

        Raises:
            InvalidRequest: there is none of this name.
        """
        body = ResetConsumer(cursor=name, after=after)
        return await self._connection.ask("reset", body, ConsumerInfo, timeout=self._timeout)

    async def evict(self, name: str) -> None:
        """Have the broker forget a consumer, its place and its dead letters.

        Raises:
            InvalidRequest: there is none of this name.
        """
        await self._connection.ask("evict", EvictConsumer(cursor=name), Nothing, timeout=self._timeout)

    async def dead_letters(self, name: str) -> list[DeadLetter]:
        """Return the receipts that were delivered to a consumer as often as allowed, and never acknowledged.

        Raises:
            InvalidRequest: there is none of this name.
        """
        letters: list[DeadLetter] = []
        while True:
            body = DeadLettersQuery(cursor=name, after=letters[-1].number if letters else 0)
            answer = await self._connection.ask("letters", body, DeadLettersAnswer, timeout=self._timeout)
            letters += answer.letters
            if answer.complete:
                return letters
