"""What the reducers read of a receipt, and the error about a log that is broken.

Decoding only this costs a third of decoding a whole receipt, and a rebuild decodes every receipt there is.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta, Struct

from lifebus_contract import (
    Degradation,
    FailureClass,
    InternalError,
    LifecycleEvent,
    PayloadReceipt,
    Receipt,
    ReceiptStatus,
    RetryClass,
)
from lifebus_contract.fields import MAX_INTEGER, Count

_Integer = Annotated[int, Meta(ge=-MAX_INTEGER, le=MAX_INTEGER)]


class BrokenLog(InternalError):
    """A log does not continue what came before; `position` is that of the first line that does not."""

    def __init__(self, position: int, detail: str) -> None:
        super().__init__(f"row {position}: {detail}", code="log_broken")
        self.position = position


# gc=False: a rebuild makes millions of these, and none can be part of a cycle.
class ReceiptView(Struct, frozen=True, gc=False):
    """The part of a receipt that reducers read; the fields are those of `Receipt`."""

    adapter_id: str
    at_epoch_s: Count
    capability_degradations: tuple[Degradation, ...]
    client_id: str
    event: LifecycleEvent
    event_id: str
    failure_class: FailureClass | None
    harness_session_id: str | None
    harness_task_id: str | None
    invocation_id: str
    payload_receipts: tuple[PayloadReceipt, ...]
    retry_class: RetryClass | None
    sequence: Count | None
    status: ReceiptStatus
    telemetry_summary: dict[str, str | _Integer | bool | None]


ReceiptLike = ReceiptView | Receipt
"""A receipt as reducers take it: read from a log, or still in memory."""

_DECODER: Final = msgspec.json.Decoder(ReceiptView)


def read_receipt(receipt: bytes, position: int) -> ReceiptView:
    """Return what reducers need of a stored receipt.

    Raises:
        BrokenLog: the bytes hold no receipt.
    """
    try:
        return _DECODER.decode(receipt)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as fault:
        raise BrokenLog(position, f"does not hold a receipt: {str(fault)[:200]}") from None
