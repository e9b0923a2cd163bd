"""The table of harnesses in the README, made from the manifests."""

from lifebus_adapters import ADAPTERS
from lifebus_broker.routing.placement_table import PlacementRow, placement_table
from lifebus_broker.routing.slots import RejectionReason
from lifebus_contract import (
    AdapterManifest,
    LifecycleEvent,
    ManifestPlacementClass,
    PlacementClass,
    RegisteredAdapter,
    SupportState,
)
from support.paths import REPOSITORY

README = REPOSITORY / "README.md"
PLACING_EVENTS = (("session.starting", "session.started"), ("frame.opening", "frame.opened"))
EVENT_GROUPS = {
    "session start and end": ("session.starting", "session.started", "session.ending", "session.ended"),
    "frame start and end": ("frame.opening", "frame.opened", "frame.ending", "frame.ended"),
    "compaction": ("context.compacted",),
    "pressure": ("context.pressure_observed",),
}
SLOTS = {
    "context at session start": ManifestPlacementClass.PRE_SESSION,
    "before the prompt": ManifestPlacementClass.PRE_FRAME_LEADING,
    "after the prompt": ManifestPlacementClass.PRE_FRAME_TRAILING,
}


def matrix() -> str:
    """Return the table: for each harness the kinds of support in each group of events, and that of each slot."""
    head = ("harness", "conformance", *EVENT_GROUPS, *SLOTS)
    lines = [_line(head), _line(["---"] * len(head))]
    lines += [_line(_cells(adapter.registered)) for adapter in ADAPTERS.values()]
    return "\n".join(lines) + "\n"


def placements() -> str:
    """Return the table of placements: where payloads land on the events on which any harness takes some."""
    asked = [placement for placement in PlacementClass if placement is not PlacementClass.RECEIPT_ONLY]
    lines = [_line(("harness", "on", *(f"`{one}`" for one in asked))), _line(["---"] * (len(asked) + 2))]
    for adapter in ADAPTERS.values():
        table = {(row.event, row.placement): row for row in placement_table(adapter.registered)}
        for events in PLACING_EVENTS:
            cells = [_landing(table[LifecycleEvent(events[0]), placement]) for placement in asked]
            name = adapter.registered.manifest.display_name
            lines.append(_line((name, ", ".join(f"`{event}`" for event in events), *cells)))
    return "\n".join(lines) + "\n"


def _landing(row: PlacementRow) -> str:
    if not row.slots:
        return "refused" if row.rejections[0].reason is RejectionReason.REFUSED_BY_ADAPTER else "–"
    (slot,) = row.slots
    where = "after the prompt" if slot.slot is ManifestPlacementClass.PRE_FRAME_TRAILING else "before it"
    where = "at the start" if slot.slot is ManifestPlacementClass.PRE_SESSION else where
    return f"{slot.status}, {where}, {slot.max_bytes:,} bytes"


def split(text: str, name: str = "matrix") -> tuple[str, str, str]:
    """Cut the README into what stands before a table, the table, and what stands behind it."""
    opening, closing = f"<!-- {name} -->\n", f"<!-- /{name} -->"
    before, _, rest = text.partition(opening)
    table, _, behind = rest.partition(closing)
    return before + opening, table, closing + behind


def _cells(registered: RegisteredAdapter) -> list[str]:
    manifest = registered.manifest
    level = "v1" if registered.conformance == "v1" else "pre-conformance"
    events = [_events(manifest, names) for names in EVENT_GROUPS.values()]
    return [manifest.display_name, level, *events, *(_slot(manifest, slot) for slot in SLOTS.values())]


def _events(manifest: AdapterManifest, names: tuple[str, ...]) -> str:
    claims = [manifest.lifecycle_events.get(LifecycleEvent(name)) for name in names]
    supports = [SupportState.UNAVAILABLE if claim is None else claim.support for claim in claims]
    return "–" if set(supports) == {SupportState.UNAVAILABLE} else ", ".join(s for s in SupportState if s in supports)


def _slot(manifest: AdapterManifest, slot: ManifestPlacementClass) -> str:
    claim = manifest.placement.get(slot)
    if claim is None or claim.support is SupportState.UNAVAILABLE:
        return "–"
    return claim.support.value if claim.max_bytes is None else f"{claim.support.value}, {claim.max_bytes:,} bytes"


def _line(cells: tuple[str, ...] | list[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    for title, table in (("matrix", matrix()), ("placements", placements())):
        before, _, behind = split(README.read_text(), title)
        README.write_text(before + table + behind)
