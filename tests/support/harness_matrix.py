"""The table of harnesses in the README, made from the manifests."""

from lifebus_adapters import ADAPTERS
from lifebus_contract import AdapterManifest, LifecycleEvent, ManifestPlacementClass, RegisteredAdapter, SupportState
from support.paths import REPOSITORY

README = REPOSITORY / "README.md"
OPEN, CLOSE = "<!-- matrix -->\n", "<!-- /matrix -->"
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


def split(text: str) -> tuple[str, str, str]:
    """Cut the README into what stands before the table, the table, and what stands behind it."""
    before, _, rest = text.partition(OPEN)
    table, _, behind = rest.partition(CLOSE)
    return before + OPEN, table, CLOSE + behind


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
    before, _, behind = split(README.read_text())
    README.write_text(before + matrix() + behind)
