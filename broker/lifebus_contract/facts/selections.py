"""Receipts that are asked for by one word: those about waits, those about failures, and all but canaries.  Pure.

Whoever selects decides by these: the ledger for `backfill`, the client library for what it follows, and the reducer
that counts the failures of a session (docs/consuming.md, "Selections").
"""

from typing import Final

from lifebus_contract.failure import FailureClass
from lifebus_contract.receipt import Receipt
from lifebus_contract.vocabulary import LifecycleEvent, ReceiptStatus

HOOK_CLIENT: Final = "lifebus.hook"
"""The client that speaks for hooks."""

CANARY_HOOK: Final = "lifebus.canary"
"""The hook that proves an installation (`lifebus hooks test`); what it is called stands in `source_hook`."""

FAILED_END: Final = "failed"
"""The word of `frame_end` and `session_end` where a turn or a session has failed."""

_OPERATOR_REQUIRED: Final = FailureClass.OPERATOR_REQUIRED.value
_FAILED: Final = ReceiptStatus.FAILED.value
_FRAME_ENDED: Final = LifecycleEvent.FRAME_ENDED.value
_SESSION_ENDED: Final = LifecycleEvent.SESSION_ENDED.value


def is_failure(event: str, status: str, frame_end: object, session_end: object) -> bool:
    """Whether a receipt tells of a failure: it failed itself, or the turn or session has failed of which it is the end.

    A turn that was interrupted, blocked or abandoned has not failed, and neither has one that announces how it ends.
    """
    if status == _FAILED:
        return True
    return (event == _FRAME_ENDED and frame_end == FAILED_END) or (
        event == _SESSION_ENDED and session_end == FAILED_END
    )


def is_question(failure_class: object, waiting_for: object) -> bool:
    """Whether a receipt asks a person: the contract has it fail as ``operator_required``, and nothing went wrong."""
    return failure_class == _OPERATOR_REQUIRED and waiting_for is not None


def is_canary(client_id: str, emitter: object, source_hook: object) -> bool:
    """Whether a receipt is a canary's, or that of a client which was asked about one.

    `emitter` is who reported the event where that is another one than the receipt's client.  A hook call alone has
    both facts: what an app emits under the same names is its own.
    """
    return source_hook == CANARY_HOOK and (emitter or client_id) == HOOK_CLIENT


def tells_of_failure(receipt: Receipt) -> bool:
    """Return whether a receipt is one of a failure, as `failed=True` and `--failed` select (docs/consuming.md)."""
    facts = receipt.telemetry_summary
    if is_question(receipt.failure_class, facts.get("waiting_for")):
        return False
    return is_failure(receipt.event, receipt.status, facts.get("frame_end"), facts.get("session_end"))


def tells_of_canary(receipt: Receipt) -> bool:
    """Return whether a receipt is that of a canary, as `canaries=False` leaves out (docs/consuming.md)."""
    facts = receipt.telemetry_summary
    return is_canary(receipt.client_id, facts.get("emitter"), facts.get("source_hook"))


def tells_of_wait(receipt: Receipt) -> bool:
    """Return whether a receipt says that a session begins or ceases to wait for a person (docs/waiting.md)."""
    return receipt.telemetry_summary.get("waiting_for") is not None
