"""Everything a manifest claims, one line of text a claim, so that a changed claim is a changed name."""

from collections.abc import Iterator

from lifebus_broker.claims import RENEWAL, claim_of
from lifebus_contract import CAPABILITIES, AdapterManifest

OMITTED = ("session_rename",)
"""Capabilities whose claim a manifest may leave out; Codex's and Claude Code's do."""


def claims_of(manifest: AdapterManifest) -> Iterator[str]:
    """Yield every claim of a manifest, what it claims not to have included."""
    for capability in sorted(CAPABILITIES):
        evaluated = manifest.renewal is not None or not capability.startswith(RENEWAL)
        if evaluated and not capability.startswith(OMITTED):
            yield f"{capability}={claim_of(manifest, capability).value}"
    yield from (f"profile={name}" for name in (manifest.renewal.profiles if manifest.renewal else ()))
    for slot, placement in manifest.placement.items():
        if placement.max_bytes is not None:
            yield f"max_bytes:{slot.value}={placement.max_bytes}"
    for mode in manifest.integration_modes:
        yield f"mode={mode.value}"
    for failure in manifest.failure_modes:
        yield f"failure_mode={failure.value}"
    for source in manifest.telemetry_sources:
        yield f"telemetry:{source.source_id}={source.support.value}"
    for degradation in manifest.known_degradations:
        yield f"degradation:{degradation.capability}={degradation.current_support.value}"
