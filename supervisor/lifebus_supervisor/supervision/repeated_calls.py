"""Late calls that are on record already: a spool that is read again, or an answer that came too late for its hook.

Such a call says nothing of what came after it: it ends nothing, opens nothing again, and shows no process.
"""

from collections.abc import Sequence

from lifebus_adapters.adapter import HookCall
from lifebus_broker.ports import Ledger
from lifebus_broker.state.telemetry_keys import HOOKS
from lifebus_contract import Emission


class RepeatedCalls:
    """Knows which calls that are under way are on record already."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._calls: set[str] = set()

    async def note(self, call: HookCall, emissions: Sequence[Emission], last_position: int) -> bool:
        """Return whether a call is on record, and remember it until it is taken.

        One of which the last receipt is that of its session, at `last_position`, may have been interrupted: it is not,
        unless all of its events are there.
        """
        keys = [key for one in emissions if (key := one.request.idempotency_key) is not None]
        found = [one for one in await self._ledger.find([(HOOKS, call.adapter_id, key) for key in keys]) if one]
        # Of a pruned receipt only the key is left; much has come since.
        newest = max((stored.position if stored is not None else 0 for _, stored in found), default=0)
        if not found or (len(found) < len(keys) and newest == last_position):
            return False
        self._calls.add(call.call_id)
        return True

    def take(self, call: HookCall) -> bool:
        """Return whether a call was noted, and forget it."""
        is_noted = call.call_id in self._calls
        self._calls.discard(call.call_id)
        return is_noted
