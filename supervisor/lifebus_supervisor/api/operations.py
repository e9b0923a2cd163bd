"""The verbs that have the broker act: `tick`, `prune`, `session_close` and `session_forget`."""

from collections.abc import Awaitable, Callable

from lifebus_contract import InvalidRequest
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.supervision.closing import SessionClosing
from lifebus_transports.messages.ledger import Prune, PruneAnswer
from lifebus_transports.messages.sessions import CloseSession, ForgetSession, SessionReceipts
from lifebus_transports.messages.ticks import Tick, TickAnswer


class OperationVerbs:
    """Serves `tick` by `drive` and `prune` by `prune`, which is None where nothing durable is kept.

    `closing` ends sessions and forgets them.
    """

    def __init__(
        self,
        drive: Callable[[Tick], Awaitable[TickAnswer]],
        prune: Callable[[Prune], Awaitable[PruneAnswer]] | None,
        closing: SessionClosing,
    ) -> None:
        self._drive = drive
        self._prune = prune
        self._closing = closing

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "tick": self._serve_tick,
            "prune": self._serve_prune,
            "session_close": self._close,
            "session_forget": self._forget,
        }

    async def _serve_tick(self, _: Call, body: Tick) -> TickAnswer:
        return await self._drive(body)

    async def _close(self, _: Call, body: CloseSession) -> SessionReceipts:
        return await self._closing.close(body)

    async def _forget(self, _: Call, body: ForgetSession) -> SessionReceipts:
        return await self._closing.forget(body)

    async def _serve_prune(self, _: Call, body: Prune) -> PruneAnswer:
        if self._prune is None:
            raise InvalidRequest("the ledger is not kept: nothing is pruned", code="not_durable")
        return await self._prune(body)
