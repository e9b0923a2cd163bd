"""Receipts from what happened: observed, answered, failed, a gap (docs/contract.md 6.1).  Pure.

What is built here is a draft: `sequence` is null until the ledger numbers it.  All receipts of one dispatch share
the request's `invocation_id`; `parent_receipt_id` chains them.
"""

import hashlib
from typing import Any, Final, TypedDict, TypeVar, Unpack, cast

from msgspec import Struct, structs

from lifebus_broker.ports import EMITTER, Evidence, Refusal
from lifebus_broker.routing.negotiation import degradations_of, warnings_of
from lifebus_broker.routing.placement import PlacementResult
from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackRequest,
    CallbackResponse,
    Degradation,
    Emission,
    FailureClass,
    LifecycleEvent,
    Negotiation,
    NegotiationOutcome,
    PayloadEnvelope,
    PayloadReceipt,
    Receipt,
    ReceiptStatus,
    RetryClass,
    Warning,  # noqa: A004  the contract's own word
    encode_msgpack,
    tighten,
)
from lifebus_contract.fields import MAX_INTEGER, FactKey, FactValue

MAX_WARNINGS: Final = 64
"""How many warnings a receipt carries; of more, the last place says how many were left out."""

_NOTHING_PLACED: Final = PlacementResult()

_Bearer = TypeVar("_Bearer", CallbackRequest, PayloadEnvelope)
"""A document that bears metadata."""

_DELIVERY_NOT_OBSERVED: Final = Warning(
    code="delivery_not_observed",
    message="the client reported a delivery, but no payload was placed",
)


class ReceiptHeader(TypedDict):
    """What the router gives to every receipt: its id, its time, whose it is and what caused it."""

    receipt_id: str
    at_epoch_s: int
    client_id: str
    parent_receipt_id: str | None


class _Conclusion(Struct, frozen=True, kw_only=True):
    """What a receipt holds beyond the emission it is about."""

    status: ReceiptStatus
    failure_class: FailureClass | None = None
    retry_class: RetryClass | None = None
    payload_receipts: tuple[PayloadReceipt, ...] = ()
    degradations: tuple[Degradation, ...] = ()
    warnings: tuple[Warning, ...] = ()


_OBSERVED: Final = _Conclusion(status=ReceiptStatus.OBSERVED)


def observed(
    *,
    emission: Emission,
    negotiation: Negotiation | None = None,
    placement: PlacementResult = _NOTHING_PLACED,
    **header: Unpack[ReceiptHeader],
) -> Receipt:
    """Return the receipt of an emission that no client answered; payloads of the emitter may be placed with it."""
    if negotiation is None and not placement.receipts:
        return _draft(emission, header, _OBSERVED)
    return _draft(emission, header, _settle(ReceiptStatus.OBSERVED, (), negotiation, placement, header["at_epoch_s"]))


def observed_alone(emission: Emission, receipt_id: str, at_epoch_s: int, client_id: str, parent: str | None) -> Receipt:
    """Return the receipt of an emission that requires nothing and carries no payloads: most receipts are this one."""
    # Written out beside `_draft`, without the structs in between: this is the hot path of every emit.
    request = emission.request
    return Receipt(
        adapter_id=request.adapter_id,
        at_epoch_s=at_epoch_s,
        capability_degradations=(),
        client_id=client_id,
        event=request.event,
        event_id=request.event_id,
        failure_class=None,
        harness_run_id=request.harness_run_id,
        harness_session_id=request.harness_session_id,
        harness_task_id=request.harness_task_id,
        idempotency_key=request.idempotency_key,
        integration_mode=request.integration_mode,
        invocation_id=request.invocation_id,
        parent_receipt_id=parent,
        payload_receipts=(),
        receipt_id=receipt_id,
        retry_class=None,
        schema_version=CONTRACT_VERSION,
        sequence=None,
        status=_OBSERVED.status,
        telemetry_summary=facts_of(emission),
        warnings=emission.warnings,
    )


def from_response(
    *,
    emission: Emission,
    response: CallbackResponse,
    negotiation: Negotiation | None = None,
    placement: PlacementResult = _NOTHING_PLACED,
    **header: Unpack[ReceiptHeader],
) -> Receipt:
    """Return the receipt of a client's answer.

    The client's status is kept as far as the placements confirm it: what was placed is `delivered`, whatever the
    client says, and a `delivered` with nothing placed is not.  A failure's retry class may only be tightened.
    """
    at_epoch_s = header["at_epoch_s"]
    if response.failure_class is None:
        conclusion = _settle(response.status, response.warnings, negotiation, placement, at_epoch_s)
    else:
        conclusion = _Conclusion(
            status=ReceiptStatus.FAILED,
            failure_class=response.failure_class,
            # A client may ask for a stricter retry class than the failure's own, never for a looser one.
            retry_class=tighten(response.failure_class, response.retry_class),
            payload_receipts=placement.receipts,
            degradations=() if negotiation is None else degradations_of(negotiation, at_epoch_s),
            warnings=response.warnings + placement.warnings + _negotiated(negotiation),
        )
    return _draft(emission, header, conclusion)


def failed(
    *,
    emission: Emission,
    refusal: Refusal,
    negotiation: Negotiation | None = None,
    placement: PlacementResult = _NOTHING_PLACED,
    **header: Unpack[ReceiptHeader],
) -> Receipt:
    """Return the receipt of an operation that was refused or failed; a warning says why."""
    conclusion = _Conclusion(
        status=ReceiptStatus.FAILED,
        failure_class=refusal.failure_class,
        retry_class=refusal.retry_class,
        payload_receipts=placement.receipts,
        degradations=() if negotiation is None else degradations_of(negotiation, header["at_epoch_s"]),
        warnings=(warning_of(refusal), *placement.warnings, *_negotiated(negotiation)),
    )
    return _draft(emission, header, conclusion)


def warning_of(refusal: Refusal) -> Warning:
    """Return a refusal as a warning, the form in which a receipt carries its reason."""
    return Warning(code=refusal.code or refusal.failure_class.value, message=refusal.detail[:1024])


def as_client_emission(emission: Emission, emitter: str) -> Emission:
    """Return the emission as its clients' receipts report it: they name the emitter."""
    return structs.replace(emission, telemetry={**emission.telemetry, EMITTER: emitter})


def with_evidence(emission: Emission, evidence: Evidence) -> Emission:
    """Return the emission with what was seen of a client, under names that no adapter and no emitter uses."""
    if not evidence:
        return emission
    seen = {f"client_{name}": value for name, value in evidence.items()}
    return structs.replace(emission, telemetry={**emission.telemetry, **seen})


def gap_in(emission: Emission, event_id: str, missing: tuple[int, int]) -> Emission:
    """Return a jump in the harness's own sequence as an emission: first and last missing number (docs/contract.md 6.6).

    It is a fact of its own: `event_id` is new, and it is of the session and of no frame.
    """
    first, last = missing
    request = structs.replace(
        emission.request,
        event=LifecycleEvent.RECEIPT_GAP_DETECTED,
        event_id=event_id,
        frame_context=None,
        payload_refs=(),
        # The emission's own receipt keeps its key, so that a retry of the emission does not meet this one.
        idempotency_key=None,
    )
    facts: dict[FactKey, FactValue] = {"missing_first": first, "missing_last": last}
    return Emission(request=request, warnings=emission.warnings, telemetry=facts)


def missing_range(last: int | None, seen: int | None) -> tuple[int, int] | None:
    """Return the first and last number missing between two harness sequences; None for repeats and steps back."""
    # A repeat or a step back is no gap: harnesses restart their numbers, and hooks run concurrently.
    if last is None or seen is None or seen <= last + 1:
        return None
    return last + 1, seen - 1


def request_digest(emission: Emission) -> bytes:
    """Return 32 bytes that stand for what the caller sent (docs/contract.md 6.5): the SHA-256 of its MessagePack.

    `warnings` stay out: they are lifebus's own remarks, and a call that comes again from the spool bears one more.
    In `metadata` 1000 and 1000.0 are one number, as they are in canonical JSON (RFC 8785).
    """
    # These forms are stored with every key: what is hashed, and in which order, can never change.
    request, payloads = emission.request, emission.payloads
    if request.metadata:  # asked here as well: most requests have none, and every one comes here
        request = _with_plain_numbers(request)
    if payloads or emission.requirements or emission.telemetry or emission.degradations:
        plain = tuple(_with_plain_numbers(payload) for payload in payloads)
        sent: tuple[object, ...] = (request, plain, emission.requirements, emission.telemetry)
        if emission.degradations:
            sent += (emission.degradations,)
        return hashlib.sha256(encode_msgpack(sent)).digest()
    return hashlib.sha256(encode_msgpack(request)).digest()


def _with_plain_numbers(document: _Bearer) -> _Bearer:
    """Return the document with the whole numbers in its metadata as integers, however they were written."""
    # Only metadata may hold fractions at all; most documents have none.
    return structs.replace(document, metadata=_plain_numbers(document.metadata)) if document.metadata else document


def _plain_numbers(value: Any) -> Any:
    # Beyond 2^53 a fraction has no integer that the contract allows, and is left as it is.
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) <= MAX_INTEGER else value
    if isinstance(value, dict):
        return {key: _plain_numbers(one) for key, one in cast("dict[str, Any]", value).items()}
    return [_plain_numbers(one) for one in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


def _draft(emission: Emission, header: ReceiptHeader, conclusion: _Conclusion) -> Receipt:
    request = emission.request
    return Receipt(
        adapter_id=request.adapter_id,
        at_epoch_s=header["at_epoch_s"],
        capability_degradations=conclusion.degradations,
        client_id=header["client_id"],
        event=request.event,
        event_id=request.event_id,
        failure_class=conclusion.failure_class,
        harness_run_id=request.harness_run_id,
        harness_session_id=request.harness_session_id,
        harness_task_id=request.harness_task_id,
        idempotency_key=request.idempotency_key,
        integration_mode=request.integration_mode,
        invocation_id=request.invocation_id,
        parent_receipt_id=header["parent_receipt_id"],
        payload_receipts=conclusion.payload_receipts,
        receipt_id=header["receipt_id"],
        retry_class=conclusion.retry_class,
        schema_version=CONTRACT_VERSION,
        sequence=None,
        status=conclusion.status,
        telemetry_summary=facts_of(emission),
        warnings=_bounded(emission.warnings + conclusion.warnings),
    )


def facts_of(emission: Emission) -> dict[FactKey, FactValue]:
    """Return the facts of an emission's receipts: what the adapter knows, the frame, and the harness's own number."""
    request = emission.request
    frame = request.frame_context
    facts = dict(emission.telemetry)  # a copy: the emission is the caller's
    if frame is not None:
        facts["frame_id"] = frame.frame_id
        if frame.parent_frame_id is not None:
            facts["parent_frame_id"] = frame.parent_frame_id
    if request.sequence is not None:
        facts["harness_sequence"] = request.sequence
    return facts


def _settle(
    stated: ReceiptStatus,
    remarks: tuple[Warning, ...],
    negotiation: Negotiation | None,
    placement: PlacementResult,
    at_epoch_s: int,
) -> _Conclusion:
    """Return the conclusion of a stated status after negotiation and placement."""
    placed = {receipt.status for receipt in placement.receipts}  # an event's payloads may differ
    weaker = negotiation is not None and negotiation.outcome is NegotiationOutcome.DEGRADED
    status = _status(stated, placed, weaker=weaker)
    warnings = remarks + placement.warnings + _negotiated(negotiation)
    if stated is ReceiptStatus.DELIVERED and placed.isdisjoint({ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED}):
        warnings = (_DELIVERY_NOT_OBSERVED, *warnings)
    return _Conclusion(
        status=status,
        payload_receipts=placement.receipts,
        degradations=() if negotiation is None else degradations_of(negotiation, at_epoch_s),
        warnings=warnings,
    )


def _status(stated: ReceiptStatus, placed: set[ReceiptStatus], *, weaker: bool) -> ReceiptStatus:
    """Return the status that the placements confirm; a weaker one wins over a stronger one."""
    if weaker or ReceiptStatus.DEGRADED in placed or stated is ReceiptStatus.DEGRADED:
        return ReceiptStatus.DEGRADED
    if ReceiptStatus.DELIVERED in placed:
        return ReceiptStatus.DELIVERED
    if stated is ReceiptStatus.DELIVERED:
        return ReceiptStatus.SKIPPED if ReceiptStatus.SKIPPED in placed else ReceiptStatus.OBSERVED
    return stated


def _negotiated(negotiation: Negotiation | None) -> tuple[Warning, ...]:
    return () if negotiation is None else warnings_of(negotiation)


def _bounded(warnings: tuple[Warning, ...]) -> tuple[Warning, ...]:
    if len(warnings) <= MAX_WARNINGS:
        return warnings
    # The contract bounds the list; the first ones are the emitter's and the client's own.
    left_out = len(warnings) - MAX_WARNINGS + 1  # the last place is taken by the warning that says so
    more = Warning(code="warnings_left_out", message=f"{left_out} more warnings were left out")
    return (*warnings[: MAX_WARNINGS - 1], more)
