"""Where payloads land, as `lifebus contract manifest` and `negotiate` show it; needs no running broker."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct

from lifebus_admin.inspection import check_bodies
from lifebus_broker.routing.placement import place
from lifebus_broker.routing.placement_table import OpenSlot, PlacementRow, mode_of, placement_table
from lifebus_contract import (
    CONTRACT_VERSION,
    FRAME_EVENTS,
    CallbackRequest,
    FrameClass,
    FrameContext,
    LifecycleEvent,
    ManifestPlacementClass,
    PayloadEnvelope,
    PlacementClass,
    ReceiptStatus,
    RegisteredAdapter,
)
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings

_NO_SLOT: Final = "not placed: no_slot"


class Landing(Struct, frozen=True, kw_only=True):
    """What would become of one payload on one event: its status, its placement and slot, and why not elsewhere."""

    event: LifecycleEvent
    status: ReceiptStatus
    placement: PlacementClass | None
    slot: ManifestPlacementClass | None
    reasons: tuple[str, ...]


def landings_here(
    settings: Settings, adapter_id: str, payload: PayloadEnvelope, events: Sequence[LifecycleEvent]
) -> list[Landing]:
    """Return what would become of the payload on each event, by the manifests that a broker would load.

    Raises:
        AdapterUnavailable: no such adapter.
        InvalidRequest: the payload says something else than its body shows.
    """
    check_bodies(payload)
    registered = configured_adapters(settings).require(adapter_id)
    return [_landing(payload, event, registered) for event in events]


def _landing(payload: PayloadEnvelope, event: LifecycleEvent, registered: RegisteredAdapter) -> Landing:
    frame = FrameContext(frame_id="asked", frame_class=FrameClass.TOP_LEVEL) if event in FRAME_EVENTS else None
    request = CallbackRequest(
        schema_version=CONTRACT_VERSION,
        event=event,
        event_id="asked",
        adapter_id=registered.manifest.adapter_id,
        adapter_version=registered.manifest.adapter_version,
        invocation_id="asked",
        integration_mode=mode_of(registered),
        frame_context=frame,
    )
    result = place([payload], request, registered)
    (receipt,) = result.receipts
    landed = receipt.placement is not None
    told = [one.message for one in result.warnings] if landed else [str(one) for _, one in result.rejections]
    return Landing(
        event=event,
        status=receipt.status,
        placement=receipt.placement,
        slot=result.deliveries[0][1] if result.deliveries else None,
        reasons=tuple(told),
    )


def shown_placements(registered: RegisteredAdapter) -> Iterator[tuple[str, str, str]]:
    """Yield placement, events and where its payloads land there, events with the same answer in one row.

    Events on which no slot is open are left out, unless there are no others.
    """
    table = placement_table(registered)
    for placement in PlacementClass:
        rows = [row for row in table if row.placement is placement]
        answers: dict[str, list[LifecycleEvent]] = {}
        for row in rows:
            answers.setdefault(_words(row), []).append(row.event)
        if len(answers) > 1:
            answers.pop(_NO_SLOT, None)
        for words, events in answers.items():
            where = "any event" if len(events) == len(rows) else ", ".join(events)
            yield placement.value, where, words


def placements_here(settings: Settings, adapter_id: str) -> list[tuple[str, str, str]]:
    """Return `shown_placements` of an adapter by the manifests that a broker would load; nothing of one not in them."""
    # A running broker may have been given other manifests than are configured here.
    registered = configured_adapters(settings).get(adapter_id)
    return [] if registered is None else list(shown_placements(registered))


def plain_placements(registered: RegisteredAdapter) -> list[dict[str, Any]]:
    """Return a row for each event and placement as plain data; `status` is null where it cannot be had."""
    return [_plain(row) for row in placement_table(registered)]


def _plain(row: PlacementRow) -> dict[str, Any]:
    return {
        "event": row.event,
        "placement": row.placement,
        "status": row.status,
        "slots": [
            {"slot": one.slot, "support": one.support, "max_bytes": one.max_bytes, "status": one.status}
            for one in row.slots
        ],
        "rejections": [{"slot": one.slot, "reason": one.reason} for one in row.rejections],
    }


def _words(row: PlacementRow) -> str:
    if row.slots:
        return ", then ".join(map(_slot_words, row.slots))
    if row.status is not None:
        return "recorded, not delivered"
    reasons = dict.fromkeys(one.reason.value for one in row.rejections)
    return f"not placed: {', '.join(reasons)}"


def _slot_words(one: OpenSlot) -> str:
    limit = "" if one.max_bytes is None else f" up to {one.max_bytes:,} bytes"
    weakness = " after the prompt" if one.after_prompt else f" ({one.support})"
    return f"{one.status}: {one.slot}{weakness}{limit}"
