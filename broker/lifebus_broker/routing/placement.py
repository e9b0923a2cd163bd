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
"""The slot use at the begin of a hook call."""


class PlacementResult(Struct, frozen=True, kw_only=True):
    """What becomes of the payloads of one event.

    `receipts` has one entry a payload, `deliveries` the payloads to render and their slots, `used` the slot use to
    hand to the next event of the same hook call.  `rejections` holds, by payload id, what could not be had.
    With a `refusal` nothing is delivered.
    """

    receipts: tuple[PayloadReceipt, ...] = ()
    deliveries: tuple[tuple[PayloadEnvelope, Slot], ...] = ()
    used: SlotUse = NO_SLOTS_USED
    rejections: tuple[tuple[str, Rejection], ...] = ()
    warnings: tuple[Warning, ...] = ()
    refusal: Refusal | None = None


class _Landing(Struct, frozen=True, kw_only=True):
    """Where one payload lands; no placement means nowhere."""

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
    """Return where the payloads of an event land: each in its first satisfiable placement, in client order.

    A slot's limit counts the rendered text of everything in it, so `used` carries what earlier events of the same
    hook call put there.
    """
    if not payloads:
        return PlacementResult(used=used)
    landings: list[_Landing] = []
    now_used = used
    for payload in payloads:
        landing = _land(payload, request, registered, now_used)
        landings.append(landing)
        if landing.slot is not None:
            now_used = {**now_used, landing.slot: (*now_used.get(landing.slot, ()), payload)}
    stranded = next((landing for landing in landings if landing.status is ReceiptStatus.FAILED), None)
    if stranded is not None:
        return _refused(landings, stranded, used)
    return PlacementResult(
        receipts=tuple(_receipt(landing) for landing in landings),
        deliveries=tuple((landing.payload, landing.slot) for landing in landings if landing.slot is not None),
        used=now_used,
        rejections=_rejections(landings),
        warnings=tuple(warning for landing in landings for warning in landing.warnings),
    )


def place_late(payloads: Sequence[PayloadEnvelope], used: SlotUse = NO_SLOTS_USED) -> PlacementResult:
    """Return what becomes of payloads that nobody waits for: recorded where that is acceptable, else skipped.

    `used` is handed on as it is.
    """
    landings = [_land_late(payload) for payload in payloads]
    return PlacementResult(
        receipts=tuple(_receipt(landing) for landing in landings),
        used=used,
        warnings=tuple(warning for landing in landings for warning in landing.warnings),
    )


def _land_late(payload: PayloadEnvelope) -> _Landing:
    if any(wish.placement is PlacementClass.RECEIPT_ONLY for wish in payload.acceptable_placements):
        return _recorded(payload, (), ())
    message = f"payload `{payload.payload_id[:64]}`: a background client's answer comes after the hook's"
    warning = Warning(code="background_payload", message=message)
    return _Landing(payload=payload, status=ReceiptStatus.SKIPPED, warnings=(warning,))


def _land(payload: PayloadEnvelope, request: CallbackRequest, registered: RegisteredAdapter, used: SlotUse) -> _Landing:
    """Walk the acceptable placements of one payload in order; what an optional one misses is not worth a warning."""
    rejected: list[Rejection] = []
    missed: list[Rejection] = []
    for wish in payload.acceptable_placements:
        if wish.placement is PlacementClass.RECEIPT_ONLY:
            return _recorded(payload, rejected, missed)
        slot, rejections = find_slot(payload, wish.placement, request, registered, used)
        rejected.extend(rejections)
        if slot is not None:
            weaknesses = _weaknesses(payload, wish.placement, slot, registered)
            return _Landing(
                payload=payload,
                status=ReceiptStatus.DEGRADED if weaknesses else ReceiptStatus.DELIVERED,
                placement=wish.placement,
                slot=slot,
                rejections=tuple(rejected),
                warnings=_missed_warnings(payload, missed) + weaknesses,
            )
        if wish.requirement is not RequirementLevel.OPTIONAL:
            missed.extend(rejections)
    return _stranded(payload, rejected, missed)


def _recorded(payload: PayloadEnvelope, rejected: Sequence[Rejection], missed: Sequence[Rejection]) -> _Landing:
    """Land in the receipt alone: seen and recorded, not delivered."""
    return _Landing(
        payload=payload,
        status=ReceiptStatus.OBSERVED,
        placement=PlacementClass.RECEIPT_ONLY,
        rejections=tuple(rejected),
        warnings=_missed_warnings(payload, missed),
    )


def _stranded(payload: PayloadEnvelope, rejected: Sequence[Rejection], missed: Sequence[Rejection]) -> _Landing:
    """Land nowhere: a failure where one of the placements was required."""
    required = any(wish.requirement is RequirementLevel.REQUIRED for wish in payload.acceptable_placements)
    return _Landing(
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


def _refused(landings: Sequence[_Landing], stranded: _Landing, used: SlotUse) -> PlacementResult:
    """Return the result of an operation that fails for the want of one placement: nothing is delivered."""
    size_is_to_blame = any(rejection.reason is RejectionReason.TOO_LARGE for rejection in stranded.rejections)
    code = "payload_too_large" if size_is_to_blame else "placement_unavailable"
    detail = _explain(stranded.payload, stranded.rejections)
    return PlacementResult(
        receipts=tuple(
            _receipt(
                _Landing(
                    payload=landing.payload,
                    status=ReceiptStatus.FAILED if landing.status is ReceiptStatus.FAILED else ReceiptStatus.SKIPPED,
                )
            )
            for landing in landings
        ),
        used=used,
        rejections=_rejections(landings),
        refusal=Refusal.of(code, detail),
    )


def _rejections(landings: Sequence[_Landing]) -> tuple[tuple[str, Rejection], ...]:
    return tuple((landing.payload.payload_id, rejection) for landing in landings for rejection in landing.rejections)


def _receipt(landing: _Landing) -> PayloadReceipt:
    """Return the payload's receipt; its digest is echoed, never invented."""
    payload = landing.payload
    return PayloadReceipt(
        byte_size=payload.byte_size,
        content_digest=UNSET if payload.content_digest is None else payload.content_digest,
        payload_id=payload.payload_id,
        payload_kind=payload.payload_kind,
        placement=landing.placement,
        status=landing.status,
    )
