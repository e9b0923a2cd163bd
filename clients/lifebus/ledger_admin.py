"""The administration of a running broker's ledger (docs/ledger.md, "Commands")."""

from lifebus._internal.connection import Connection
from lifebus_transports.messages.ledger import Prune, PruneAnswer
from lifebus_transports.messages.verbs import VERBS


class LedgerAdmin:
    """The ledger of a broker, for operators."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def prune(self, through: int) -> PruneAnswer:
        """Have the broker drop every receipt up to the position `through`; a consumer that still wanted one gets a gap.

        Raises:
            InvalidRequest: there is no such receipt, or the ledger is not kept.
        """
        timeout = self._timeout * VERBS["prune"].timeout_factor
        return await self._connection.ask("prune", Prune(through=through), PruneAnswer, timeout=timeout)
