"""Saves, resuming, and letting pins change, at a running broker (docs/ledger.md, "Snapshots")."""

from functools import partial

from lifebus._internal.connection import Connection
from lifebus.state import State, fetch_state
from lifebus_transports.messages.snapshots import Revise, ReviseAnswer, Save, SaveAnswer, SaveTypeName
from lifebus_transports.messages.state import StatePage
from lifebus_transports.messages.verbs import VERBS


class Snapshots:
    """The snapshots of a broker.  Every call ends within `timeout` seconds, and `save` within twenty times as many."""

    def __init__(self, connection: Connection, timeout: float) -> None:
        self._connection, self._timeout = connection, timeout

    async def save(self, save_type: SaveTypeName) -> SaveAnswer:
        """Have the broker take a snapshot now; `save_type` is `SCENE`, `SESSION` or `CAMPAIGN` (docs/ledger.md).

        Raises:
            LifebusError: the ledger is not kept, or the snapshot cannot be written.
        """
        timeout = self._timeout * VERBS["save"].timeout_factor
        return await self._connection.ask("save", Save(save_type=save_type), SaveAnswer, timeout=timeout)

    async def resume(self) -> State:
        """Return what is open now, for example after a restart: live sessions, weaker capabilities, what is pending.

        The call changes nothing and records nothing.

        Raises:
            LifebusError: the ledger is not kept, or the broker has not read it yet.
        """
        return await fetch_state(partial(self._connection.ask, "resume", answer=StatePage, timeout=self._timeout))

    async def revise(self, snapshot_id: str, reason: str) -> ReviseAnswer:
        """Have the broker record, with the `reason`, that the pins of a snapshot may be those of today.

        Raises:
            InvalidRequest: nothing has to be revised, or there is no such snapshot.
        """
        body = Revise(snapshot_id=snapshot_id, reason=reason)
        return await self._connection.ask("revise", body, ReviseAnswer, timeout=self._timeout)
