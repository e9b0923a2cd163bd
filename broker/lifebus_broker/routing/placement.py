"""What becomes of the payloads of an event: delivered, degraded, only recorded, skipped or refused.  Pure."""

from collections.abc import Sequence
from typing import Final

from msgspec import UNSET, Struct

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.slots import AFTER_THE_PROMPT, Rejection, RejectionReason, Slot, SlotUse, find_slot
from lifebus_contract import (
    CallbackRequest,
    PayloadEnvelope,
    PayloadReceipt,
    PlacementClass,
    ReceiptStatus,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    Warning,  # noqa: A004  the contract's own word
)

NO_SLOTS_USED: Final[SlotUse] = {}
"""The slot use at the beginning of a hook call."""


class PlacementResult(Struct, frozen=True, kw_only=True):
    """What becomes of the payloads of one event.

    `receipts` has one entry a payload, `deliveries` the payloads to render and their slots, `used` the slot use that
    the next event of the same hook call continues.  `rejections` holds, by payload id, the placements that could not be
    had.  With a `refusal` nothing is delivered.
    """

    receipts: tuple[PayloadReceipt, ...] = ()
    deliveries: tuple[tuple[PayloadEnvelope, Slot], ...] = ()
    used: SlotUse = NO_SLOTS_USED
    rejections: tuple[tuple[str, Rejection], ...] = ()
    warnings: tuple[Warning, ...] = ()
    refusal: Refusal | None = None


class _Placed(Struct, frozen=True, kw_only=True):
    """Where one payload is placed; without a `placement`, nowhere."""

    payload: PayloadEnvelope
    status: ReceiptStatus
    placement: PlacementClass | None = None
    slot: Slot | None = None
    rejections: tuple[Rejection, ...] = ()
    warnings: tuple[Warning, ...] = ()


def place(
    payloads: Sequence[PayloadEnvelope],
    request: CallbackRequest,
    registered: RegisteredAdapter,
    used: SlotUse = NO_SLOTS_USED,
) -> PlacementResult:
    """Return where the payloads of an event go: each to its first placement that can be had, in the client's order.

    A slot's limit counts the rendered text of everything in it, so `used` carries what earlier events of the same
    hook call put there.
    """
    if not payloads:
        return PlacementResult(used=used)
    placed: list[_Placed] = []
    now_used = used  # grows from payload to payload: those of one event share the slots, too
    for payload in payloads:
        one = _place(payload, request, registered, now_used)
        placed.append(one)
        if one.slot is not None:
            now_used = {**now_used, one.slot: (*now_used.get(one.slot, ()), payload)}
    unplaced = next((one for one in placed if one.status is ReceiptStatus.FAILED), None)
    if unplaced is not None:
        return _refused(placed, unplaced, used)
    return PlacementResult(
        receipts=tuple(_receipt(one) for one in placed),
        deliveries=tuple((one.payload, one.slot) for one in placed if one.slot is not None),
        used=now_used,
        rejections=_rejections(placed),
        warnings=tuple(warning for one in placed for warning in one.warnings),
    )


def place_in_background(payloads: Sequence[PayloadEnvelope], used: SlotUse = NO_SLOTS_USED) -> PlacementResult:
    """Return what becomes of a background client's payloads: recorded where that is acceptable, else skipped.

    `used` is returned as it is.
    """
    placed = [_placed_in_background(payload) for payload in payloads]
    return PlacementResult(
        receipts=tuple(_receipt(one) for one in placed),
        used=used,
        warnings=tuple(warning for one in placed for warning in one.warnings),
    )


def _placed_in_background(payload: PayloadEnvelope) -> _Placed:
    if any(acceptable.placement is PlacementClass.RECEIPT_ONLY for acceptable in payload.acceptable_placements):
        return _recorded(payload, (), ())
    message = f"payload `{payload.payload_id[:64]}`: a background client's answer comes after the hook's"
    warning = Warning(code="background_payload", message=message)
    return _Placed(payload=payload, status=ReceiptStatus.SKIPPED, warnings=(warning,))


def _place(payload: PayloadEnvelope, request: CallbackRequest, registered: RegisteredAdapter, used: SlotUse) -> _Placed:
    """Try the acceptable placements of one payload in order; an optional one that is missed causes no warning."""
    rejected: list[Rejection] = []
    missed: list[Rejection] = []
    for acceptable in payload.acceptable_placements:
        # Always possible: what stands behind it in the client's order is never tried.
        if acceptable.placement is PlacementClass.RECEIPT_ONLY:
            return _recorded(payload, rejected, missed)
        slot, rejections = find_slot(payload, acceptable.placement, request, registered, used)
        rejected.extend(rejections)  # all of them, for the caller; `missed` holds those worth a warning
        if slot is not None:
            weaknesses = _weaknesses(payload, acceptable.placement, slot, registered)
            return _Placed(
                payload=payload,
                status=ReceiptStatus.DEGRADED if weaknesses else ReceiptStatus.DELIVERED,
                placement=acceptable.placement,
                slot=slot,
                rejections=tuple(rejected),
                warnings=_missed_warnings(payload, missed) + weaknesses,
            )
        if acceptable.requirement is not RequirementLevel.OPTIONAL:
            missed.extend(rejections)
    return _unplaced(payload, rejected, missed)


def _recorded(payload: PayloadEnvelope, rejected: Sequence[Rejection], missed: Sequence[Rejection]) -> _Placed:
    """Place a payload in the receipt alone: recorded, not delivered."""
    return _Placed(
        payload=payload,
        status=ReceiptStatus.OBSERVED,
        placement=PlacementClass.RECEIPT_ONLY,
        rejections=tuple(rejected),
        warnings=_missed_warnings(payload, missed),
    )


def _unplaced(payload: PayloadEnvelope, rejected: Sequence[Rejection], missed: Sequence[Rejection]) -> _Placed:
    """Place a payload nowhere: a failure where one of the placements was required."""
    required = any(acceptable.requirement is RequirementLevel.REQUIRED for acceptable in payload.acceptable_placements)
    return _Placed(
        payload=payload,
        status=ReceiptStatus.FAILED if required else ReceiptStatus.SKIPPED,
        rejections=tuple(rejected),
        warnings=_missed_warnings(payload, missed),
    )


def _weaknesses(
    payload: PayloadEnvelope, placement: PlacementClass, slot: Slot, registered: RegisteredAdapter
) -> tuple[Warning, ...]:
    """Return in what way a slot that takes the payload is weaker than the placement promises."""
    found: list[Warning] = []
    subject, capability = f"payload `{payload.payload_id[:64]}`", f"placement:{slot}"
    if registered.manifest.placement[slot].support is SupportState.PARTIAL:
        message = f"{subject}: {slot} has only partial support"
        found.append(Warning(code="placement_partial", message=message, capability=capability))
    if (placement, slot) in AFTER_THE_PROMPT:
        message = f"{subject}: {placement} lands after the prompt, in {slot}"
        found.append(Warning(code="placed_after_prompt", message=message, capability=capability))
    return tuple(found)


def _missed_warnings(payload: PayloadEnvelope, missed: Sequence[Rejection]) -> tuple[Warning, ...]:
    if not missed:
        return ()
    return (Warning(code="placement_rejected", message=_explain(payload, missed)),)


def _explain(payload: PayloadEnvelope, rejections: Sequence[Rejection]) -> str:
    return f"payload `{payload.payload_id[:64]}`: {'; '.join(map(str, rejections))}"[:1024]


def _refused(placed: Sequence[_Placed], unplaced: _Placed, used: SlotUse) -> PlacementResult:
    """Return the result of an operation that fails because one required placement is missing: nothing is delivered."""
    # Size comes first: a smaller payload would have been placed, whatever else was tried.
    size_is_to_blame = any(rejection.reason is RejectionReason.TOO_LARGE for rejection in unplaced.rejections)
    code = "payload_too_large" if size_is_to_blame else "placement_unavailable"
    detail = _explain(unplaced.payload, unplaced.rejections)
    return PlacementResult(
        receipts=tuple(
            _receipt(
                _Placed(
                    payload=one.payload,
                    status=ReceiptStatus.FAILED if one.status is ReceiptStatus.FAILED else ReceiptStatus.SKIPPED,
                )
            )
            for one in placed
        ),
        used=used,  # as it was: what this event would have carried is not delivered
        rejections=_rejections(placed),
        refusal=Refusal.of(code, detail),
    )


def _rejections(placed: Sequence[_Placed]) -> tuple[tuple[str, Rejection], ...]:
    return tuple((one.payload.payload_id, rejection) for one in placed for rejection in one.rejections)


def _receipt(one: _Placed) -> PayloadReceipt:
    """Return the payload's receipt; its digest is echoed, never invented."""
    payload = one.payload
    return PayloadReceipt(
        byte_size=payload.byte_size,
        # Left out, not null, where the payload has none (docs/contract.md 6.1).
        content_digest=UNSET if payload.content_digest is None else payload.content_digest,
        payload_id=payload.payload_id,
        payload_kind=payload.payload_kind,
        placement=one.placement,
        status=one.status,
    )
