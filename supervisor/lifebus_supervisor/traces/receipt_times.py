"""When what a receipt says happened, in milliseconds: its ids say that more exactly than its seconds.  Pure."""

from typing import Final

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.telemetry_keys import HOOKS
from lifebus_contract import Receipt
from lifebus_contract.ids import EVENT, time_of

_SECOND_MS: Final = 1_000
_LONGEST_DISPATCH_MS: Final = 600_000
_LONGEST_SPOOLED_MS: Final = 31 * 86_400_000


def recorded_ms(receipt: Receipt) -> int:
    """Return when a receipt was made."""
    at_ms, made_ms = receipt.at_epoch_s * _SECOND_MS, time_of(receipt.receipt_id)
    # Where a clock was set back, ids go on from where they were; the receipt's own time is the one to be believed.
    return made_ms if made_ms is not None and 0 <= made_ms - at_ms < _SECOND_MS else at_ms


def happened_ms(receipt: Receipt) -> int:
    """Return when what it says happened: of a hook's call when the hook was called, which may be long before."""
    at_ms = recorded_ms(receipt)
    if receipt.telemetry_summary.get(EMITTER, receipt.client_id) != HOOKS:
        return at_ms
    called_ms = time_of(receipt.invocation_id)
    return called_ms if called_ms is not None and 0 <= at_ms - called_ms < _LONGEST_SPOOLED_MS else at_ms


def asked_ms(receipt: Receipt) -> int:
    """Return when the client was asked whose receipt it is: when the hook was called, or the event was made."""
    at_ms = recorded_ms(receipt)
    began_ms = happened_ms(receipt)
    if began_ms == at_ms and receipt.event_id.startswith(EVENT):
        began_ms = time_of(receipt.event_id) or at_ms
    return began_ms if 0 <= at_ms - began_ms < _LONGEST_DISPATCH_MS else at_ms
