"""Receipts: the bounded record of every fact, and the observations they may carry.

The fields stand in alphabetical order, so that encoding a receipt is already its canonical
form (docs/contract.md 1.4) and costs no sorting.
"""

from typing import Annotated, Final

from msgspec import UNSET, Meta, UnsetType

from lifebus_contract.capability import Degradation
from lifebus_contract.envelope import Warning  # noqa: A004  the contract's own word
from lifebus_contract.failure import FailureClass, RetryClass
from lifebus_contract.fields import (
    Count,
    Detail,
    Digest,
    Document,
    FactKey,
    FactValue,
    Identifier,
    VersionOrOne,
    normalise_version,
    refuse_unprintable,
)
from lifebus_contract.vocabulary import (
    IntegrationMode,
    LifecycleEvent,
    PlacementClass,
    PressureLevel,
    ReceiptStatus,
)

_RECEIPT_EMITTED: Final = LifecycleEvent.RECEIPT_EMITTED  # a member's name costs eight times a module's
_FAILED: Final = ReceiptStatus.FAILED


class PayloadReceipt(Document, frozen=True, kw_only=True):
    """What became of one payload (docs/contract.md 6.1).

    `content_digest` is left out, not null, if the payload had none; lifebus never invents one.
    """

    byte_size: Count  # of the body, in UTF-8 bytes
    content_digest: Digest | UnsetType = UNSET
    payload_id: Identifier
    payload_kind: Identifier  # in the client's own words
    placement: PlacementClass | None  # null where it has none
    status: ReceiptStatus  # `delivered`, `degraded`, `skipped` or `failed`


class Receipt(Document, frozen=True, kw_only=True):
    """One recorded lifecycle fact with every key, nullable ones as null (docs/contract.md 6.1).

    `sequence` counts 1, 2, 3 … within (adapter_id, harness_session_id) of a durable ledger, else it is null
    (docs/contract.md 6.3).  `at_epoch_s` is wall-clock seconds, data only.
    """

    adapter_id: Identifier
    at_epoch_s: Count  # by the broker's clock, which may step back: `sequence` is the order
    capability_degradations: Annotated[tuple[Degradation, ...], Meta(max_length=64)]  # only for `capability.degraded`
    client_id: Identifier  # whose receipt it is: the emitter's, or a callback client's
    event: LifecycleEvent
    event_id: Identifier  # the harness's own id of the event, or one that lifebus made
    failure_class: FailureClass | None  # of a failed or degraded receipt
    harness_run_id: Identifier | None  # null where the harness has none
    harness_session_id: Identifier | None  # the harness's own id of the session
    harness_task_id: Identifier | None  # null where the harness has none
    idempotency_key: Identifier | None  # unique within (client_id, adapter_id)
    integration_mode: IntegrationMode  # how it was learned
    invocation_id: Identifier  # shared by all receipts of one hook call
    parent_receipt_id: Identifier | None  # the receipt before it in the same invocation
    payload_receipts: Annotated[tuple[PayloadReceipt, ...], Meta(max_length=512)]  # what became of each payload
    receipt_id: Identifier  # unique; `lfr_` and a ULID
    retry_class: RetryClass | None  # what a caller may do next, after a failure
    schema_version: VersionOrOne
    sequence: Count | None  # null until the ledger has numbered it
    status: ReceiptStatus  # what became of the event
    telemetry_summary: Annotated[dict[FactKey, FactValue], Meta(max_length=64)]  # what is known of the event
    warnings: Annotated[tuple[Warning, ...], Meta(max_length=64)]  # remarks that change nothing

    def __post_init__(self) -> None:
        if self.schema_version == 1:
            normalise_version(self)
        if self.event is _RECEIPT_EMITTED:
            raise ValueError("event: `receipt.emitted` is a notification and must not itself produce a receipt")
        if self.status is _FAILED and self.failure_class is None:
            raise ValueError("failure_class: a `failed` receipt needs a failure class")
        # One test of a joined text: a test for each field would cost more than the rest of the decoding.
        if not f"{self.adapter_id}{self.client_id}{self.harness_session_id}{self.receipt_id}".isprintable():
            refuse_unprintable(self)


class PressureObservation(Document, frozen=True, kw_only=True, omit_defaults=True):
    """How full a context window is, with an honest denominator (docs/contract.md 2.5).

    Adapter, time and the percentage that a harness itself shows are enough, or its tokens.  Tokens without a known
    window give no percentage, and there is no level without a window.  `source` names where the numbers came from.
    """

    adapter_id: Identifier
    context_used_pct: Annotated[int, Meta(ge=0, le=100)] | None = None
    context_used_tokens: Count | None = None
    context_window_tokens: Count | None = None
    harness_session_id: Identifier | None = None
    level: PressureLevel | None = None
    observed_at_epoch_s: Count
    source: Detail = ""

    def __post_init__(self) -> None:
        if self.context_used_pct is None and self.context_used_tokens is None:
            raise ValueError("context_used_pct: a percentage or tokens are needed")
        if self.context_window_tokens:
            return
        # A percentage beside tokens was computed from them, and nothing was there to divide by.
        if self.context_used_pct is not None and self.context_used_tokens is not None:
            raise ValueError("context_used_pct: tokens without a known window give no percentage")
        if self.level is not None:
            raise ValueError("level: without a known window there is no level")
