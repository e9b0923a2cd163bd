"""Where an adapter takes payloads: each payload placement on each event (docs/contract.md 5.4).  Pure.

What `placement.place` does with one payload is said here of all: without a payload, so without its size.
"""

from typing import Final

from msgspec import Struct

from lifebus_broker.routing.slots import AFTER_THE_PROMPT, SLOTS, Rejection, Slot, barrier_of, check_claim
from lifebus_contract import (
    IntegrationMode,
    LifecycleEvent,
    PlacementClass,
    ReceiptStatus,
    RegisteredAdapter,
    SupportState,
)

_EVENTS: Final = tuple(event for event in LifecycleEvent if event is not LifecycleEvent.RECEIPT_EMITTED)


class OpenSlot(Struct, frozen=True, kw_only=True):
    """A slot that takes payloads of a placement; `after_prompt` where the placement's name promises before it."""

    slot: Slot
    support: SupportState
    max_bytes: int | None
    after_prompt: bool

    @property
    def status(self) -> ReceiptStatus:
        """What a payload is that lands here."""
        weaker = self.after_prompt or self.support is SupportState.PARTIAL
        return ReceiptStatus.DEGRADED if weaker else ReceiptStatus.DELIVERED


class PlacementRow(Struct, frozen=True, kw_only=True):
    """What becomes of payloads that ask for one placement on one event.

    `slots` are those that take them, in the order in which they are tried; `rejections` say why others do not.
    """

    event: LifecycleEvent
    placement: PlacementClass
    slots: tuple[OpenSlot, ...] = ()
    rejections: tuple[Rejection, ...] = ()

    @property
    def status(self) -> ReceiptStatus | None:
        """What a payload becomes that is small enough; None where the placement cannot be had."""
        if self.placement is PlacementClass.RECEIPT_ONLY:
            return ReceiptStatus.OBSERVED
        return self.slots[0].status if self.slots else None


def mode_of(registered: RegisteredAdapter) -> IntegrationMode:
    """Return the mode in which an adapter can deliver, else the first one that it has."""
    modes = registered.manifest.integration_modes
    return IntegrationMode.NATIVE_HOOK if IntegrationMode.NATIVE_HOOK in modes else modes[0]


def placement_table(registered: RegisteredAdapter) -> tuple[PlacementRow, ...]:
    """Return a row for each event that can be emitted and each placement of a payload, in the contract's order."""
    mode = mode_of(registered)
    return tuple(_row(event, placement, mode, registered) for event in _EVENTS for placement in PlacementClass)


def _row(
    event: LifecycleEvent, placement: PlacementClass, mode: IntegrationMode, registered: RegisteredAdapter
) -> PlacementRow:
    if placement is PlacementClass.RECEIPT_ONLY:  # needs no slot
        return PlacementRow(event=event, placement=placement)
    barrier = barrier_of(placement, event, mode, registered)
    if barrier is not None:
        rejection = Rejection(placement=placement, reason=barrier)
        return PlacementRow(event=event, placement=placement, rejections=(rejection,))
    slots = [slot for slot, events in SLOTS[placement] if event in events]
    found = {slot: check_claim(placement, slot, registered) for slot in slots}
    return PlacementRow(
        event=event,
        placement=placement,
        slots=tuple(_open_slot(placement, slot, registered) for slot, lack in found.items() if lack is None),
        rejections=tuple(lack for lack in found.values() if lack is not None),
    )


def _open_slot(placement: PlacementClass, slot: Slot, registered: RegisteredAdapter) -> OpenSlot:
    claim = registered.manifest.placement[slot]
    return OpenSlot(
        slot=slot,
        support=claim.support,
        max_bytes=claim.max_bytes,
        after_prompt=(placement, slot) in AFTER_THE_PROMPT,
    )
