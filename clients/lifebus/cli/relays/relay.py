"""A named consumer that hands on what it gets, in order, until it is taken, and acknowledges it then."""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Final

from lifebus import ConsumerSettings, Delivery, Gap
from lifebus.cli.terminal import clean, say
from lifebus.cli.tools.notify_loop import SendFault
from lifebus_contract.consumers import MAX_TRIES

if TYPE_CHECKING:
    from lifebus import Bus, Deliveries
    from lifebus.subscription import Since

Send = Callable[[Sequence[Delivery]], Awaitable[None]]
"""Hands some deliveries on, or raises `SendFault`; what was handed on may come again."""

_SETTINGS: Final = ConsumerSettings(max_in_flight=1_024, ack_wait_ms=3_600_000)
"""No filter: what is handed on may be chosen anew at each start.  What is tried again is held for as long as can be."""

_PAUSES_S: Final = (1.0, 60.0)
_RENEW_FROM: Final = MAX_TRIES // 2
_LAST_S: Final = 3.0
"""How long the last acknowledgement may take once it is asked to stop."""


class Relay:
    """Hands on the receipts of a name, at most `most` at once.  `since` is where a new name begins."""

    def __init__(self, bus: "Bus", name: str, send: Send, *, most: int, since: "Since" = None) -> None:
        self._bus, self._name, self._send = bus, name, send
        self._most, self._since = most, since

    async def run(self, on_ready: Callable[[], None]) -> None:
        """Hand receipts on until cancelled.

        Raises:
            LifebusError: another process does so under this name now.
        """
        async with self._bus.consume(self._name, _SETTINGS, since=self._since, gaps="yield") as deliveries:
            on_ready()
            while True:
                batch = await self._next(deliveries)
                if batch and max(one.attempt for one in batch) >= _RENEW_FROM:
                    await self._renew()
                elif batch:
                    await self._hand_on(batch)
                    await _acknowledge(deliveries, batch)

    async def _next(self, deliveries: "Deliveries[Delivery | Gap]") -> list[Delivery]:
        """Return the next receipts: as many as are there, and at least one; nothing at a gap."""
        batch: list[Delivery] = []
        while len(batch) < self._most and (not batch or deliveries.ready):
            item = await anext(deliveries)
            if isinstance(item, Gap):
                say(f"receipts are gone that were not handed on: {item.reason}", color="yellow")
                break
            batch.append(item)
        return batch

    async def _hand_on(self, batch: list[Delivery]) -> None:
        """Hand receipts on, however often it takes: nothing behind them goes before them."""
        import anyio  # noqa: PLC0415

        from lifebus._internal.backoff import Backoff  # noqa: PLC0415

        backoff, said = Backoff(*_PAUSES_S), ""
        while True:
            try:
                await self._send(batch)
            except SendFault as fault:
                if str(fault) != said:
                    said = str(fault)
                    say(f"not sent, and tried again until it is: {clean(said)}", color="yellow")
                await anyio.sleep(backoff.next() if fault.retry_after_s is None else fault.retry_after_s)
            else:
                if said:
                    say("sent again", color="dim")
                return

    async def _renew(self) -> None:
        """Have the tries of what is not taken count from the beginning: a relay gives up no receipt.

        A try counts whenever this command is started anew before its receipts were taken.
        """
        (info,) = await self._bus.cursors.standing(self._name)
        await self._bus.cursors.reset(self._name, info.position)


async def _acknowledge(deliveries: "Deliveries[Delivery | Gap]", batch: list[Delivery]) -> None:
    import anyio  # noqa: PLC0415

    try:
        await deliveries.ack(batch)
    except anyio.get_cancelled_exc_class():
        with anyio.move_on_after(_LAST_S, shield=True):
            await deliveries.ack(batch)
        raise
