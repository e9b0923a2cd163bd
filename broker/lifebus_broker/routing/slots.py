"""Which of an adapter's slots a payload may use, and why the others are rejected (docs/contract.md 5.4).  Pure.

docs/contract.md 3.4 keeps two vocabularies apart: where a payload asks to land, and where an adapter takes payloads.
`SLOTS` maps one to the other.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final

from msgspec import Struct

from lifebus_contract import (
    CallbackRequest,
    IntegrationMode,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    PlacementClass,
    RegisteredAdapter,
    SupportState,
)
from lifebus_contract.payload_text import text_size

Slot = ManifestPlacementClass
"""A place in a hook's answer where an adapter takes payloads."""

SlotUse = Mapping[Slot, tuple[PayloadEnvelope, ...]]
"""What one hook call carries so far in each slot; its events share the slots."""

_SESSION: Final = frozenset({LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED})
_FRAME: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_ANY: Final = frozenset(LifecycleEvent)
# In the order of preference: as early in the context as the event allows.
_AROUND_THE_PROMPT: Final = (
    (Slot.PRE_SESSION, _SESSION),
    (Slot.PRE_FRAME_LEADING, _FRAME),
    (Slot.PRE_FRAME_TRAILING, _FRAME),
)

SLOTS: Final = {
    PlacementClass.DEVELOPER_EQUIVALENT_FRAME: _AROUND_THE_PROMPT,
    PlacementClass.PRE_PROMPT_FRAME: _AROUND_THE_PROMPT,
    PlacementClass.SIDE_CHANNEL_CONTEXT: ((Slot.TOOL_RESULT, _ANY), (Slot.MANUAL_OPERATOR, _ANY)),
    PlacementClass.RECEIPT_ONLY: (),
}
"""The slots each placement may use, in the order they are tried, and the events on which they are open."""

AFTER_THE_PROMPT: Final = frozenset({(PlacementClass.PRE_PROMPT_FRAME, Slot.PRE_FRAME_TRAILING)})
"""Placements before the prompt that a slot can only fulfil after it."""


class RejectionReason(StrEnum):
    """Why a placement, or one slot of it, could not be had."""

    NO_SLOT = "no_slot"
    REFUSED_BY_ADAPTER = "refused_by_adapter"
    TELEMETRY_ONLY = "telemetry_only"
    UNAVAILABLE = "unavailable"
    NEEDS_OPERATOR = "needs_operator"
    TOO_LARGE = "too_large"


class Rejection(Struct, frozen=True, kw_only=True):
    """One rejected placement or slot; `size` and `limit` are bytes of rendered text where size was the reason."""

    placement: PlacementClass
    reason: RejectionReason
    slot: Slot | None = None
    size: int | None = None
    limit: int | None = None

    def __str__(self) -> str:
        where = self.placement.value if self.slot is None else f"{self.placement} in {self.slot}"
        if self.reason is RejectionReason.TOO_LARGE:
            return f"{where}: too_large, {self.size} bytes with a limit of {self.limit}"
        return f"{where}: {self.reason}"


def find_slot(
    payload: PayloadEnvelope,
    placement: PlacementClass,
    request: CallbackRequest,
    registered: RegisteredAdapter,
    used: SlotUse,
) -> tuple[Slot | None, tuple[Rejection, ...]]:
    """Return the first slot that can take the payload, None if none can, and the rejected ones before it."""
    # A barrier closes every slot at once, so that one rejection says it.
    barrier = barrier_of(placement, request.event, request.integration_mode, registered)
    if barrier is not None:
        return None, (Rejection(placement=placement, reason=barrier),)
    rejections: list[Rejection] = []
    for slot, events in SLOTS[placement]:
        if request.event in events:  # slots of other events are not rejected: they are not open now
            rejection = _check_slot(payload, placement, slot, registered, used)
            if rejection is None:
                return slot, tuple(rejections)
            rejections.append(rejection)
    return None, tuple(rejections)


def barrier_of(
    placement: PlacementClass, event: LifecycleEvent, mode: IntegrationMode, registered: RegisteredAdapter
) -> RejectionReason | None:
    """Return why no slot at all is open to the placement, None if one may be."""
    if mode is IntegrationMode.TELEMETRY_ONLY:
        return RejectionReason.TELEMETRY_ONLY
    if placement in registered.refused_placements or mode in registered.watching_modes:
        return RejectionReason.REFUSED_BY_ADAPTER
    if not any(event in events for _, events in SLOTS[placement]):
        return RejectionReason.NO_SLOT
    return None


def check_claim(placement: PlacementClass, slot: Slot, registered: RegisteredAdapter) -> Rejection | None:
    """Return why an adapter's claim closes a slot to payloads of any size, None if it does not."""
    claim = registered.manifest.placement.get(slot)
    if claim is None or claim.support is SupportState.UNAVAILABLE:
        return Rejection(placement=placement, reason=RejectionReason.UNAVAILABLE, slot=slot)
    if claim.support is SupportState.MANUAL:
        return Rejection(placement=placement, reason=RejectionReason.NEEDS_OPERATOR, slot=slot)
    return None


def _check_slot(
    payload: PayloadEnvelope, placement: PlacementClass, slot: Slot, registered: RegisteredAdapter, used: SlotUse
) -> Rejection | None:
    rejection = check_claim(placement, slot, registered)
    if rejection is not None:
        return rejection
    limit = registered.manifest.placement[slot].max_bytes
    if limit is None:
        return None
    size = text_size((*used.get(slot, ()), payload))
    if size <= limit:
        return None
    return Rejection(placement=placement, reason=RejectionReason.TOO_LARGE, slot=slot, size=size, limit=limit)
