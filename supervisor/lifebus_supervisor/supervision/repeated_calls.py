"""Late calls that are on record already: a spool that is read again, or an answer that came too late for its hook.

Such a call says nothing of what came after it: it ends nothing, opens nothing again, and shows no process.
"""

from collections.abc import Sequence

from lifebus_adapters.adapter import HookCall
from lifebus_broker.ports import Known, Ledger, StoredReceipt
from lifebus_broker.routing.dispatch import EmissionResult
from lifebus_broker.state.telemetry_keys import HOOKS
from lifebus_contract import Emission
from lifebus_supervisor.hook_intake.admission import Admission


async def admit_late(ledger: Ledger, call: HookCall, emissions: Sequence[Emission], last_position: int) -> Admission:
    """Return what is to be recorded of a call from the spool: nothing where it is on record.

    One of which the last receipt is that of its session, at `last_position`, may have been interrupted: it is not on
    record, unless all of its events are there.
    """
    keys = [one.request.idempotency_key or "" for one in emissions]
    known = await ledger.find([(HOOKS, call.adapter_id, key) for key in keys])
    found = [one for one in known if one is not None]
    # Of a pruned receipt only the key is left; much has come since.
    newest = max((stored.position if stored is not None else 0 for _, stored in found), default=0)
    is_interrupted = len(found) < sum(map(bool, keys)) and newest == last_position
    is_repeated = bool(found) and not is_interrupted
    return Admission(
        emissions=() if is_repeated else tuple(emissions),
        recorded=tuple(map(_replay_of, known)),
        is_repeated=is_repeated,
    )


def _replay_of(known: Known | None) -> EmissionResult:
    stored = None if known is None else known[1]
    return EmissionResult(stored=(stored,), replayed=True) if isinstance(stored, StoredReceipt) else EmissionResult()
