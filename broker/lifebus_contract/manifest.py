"""Adapter manifests: an honest report of what a harness can do."""

from typing import Annotated

from msgspec import Meta, field

from lifebus_contract.failure import FailureClass
from lifebus_contract.fields import Count, Detail, Document, Identifier, Label, SchemaVersion, refuse_unprintable
from lifebus_contract.vocabulary import (
    AdapterRole,
    ConformanceLevel,
    IntegrationMode,
    LifecycleEvent,
    ManifestPlacementClass,
    PlacementClass,
    SupportState,
)


class CapabilityClaim(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Support for one surface, with the evidence for it."""

    support: SupportState
    evidence: Detail | None = None


class EventClaim(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Support for one lifecycle event, and through which integration modes it comes."""

    support: SupportState
    modes: tuple[IntegrationMode, ...] = ()

    def __post_init__(self) -> None:
        if self.support is not SupportState.UNAVAILABLE and not self.modes:
            raise ValueError("modes: a supported event names at least one integration mode")


class PlacementClaim(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Support for one placement slot; `max_bytes` bounds what one hook call may carry there."""

    support: SupportState
    max_bytes: Count | None = None


class ReceiptsClaim(Document, frozen=True, kw_only=True):
    """Whether the harness emits receipts itself, whether lifebus synthesises them, and the ledger behind them."""

    native: bool
    lifeloop_synthesized: bool
    receipt_ledger: SupportState


class SessionIdentityClaim(Document, frozen=True, kw_only=True):
    """Which of the three harness ids can be observed."""

    harness_session_id: SupportState
    harness_run_id: SupportState
    harness_task_id: SupportState


class ResetClaim(Document, frozen=True, kw_only=True):
    """The ways to a reset; all `unavailable` declares that there is no safe one."""

    native: SupportState
    wrapper_mediated: SupportState
    manual: SupportState


class ContinuationClaim(Document, frozen=True, kw_only=True):
    """What can be seen and carried across a reset."""

    observation: SupportState
    payload_delivery: SupportState


class RenewalClaim(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Reset and continuation (docs/contract.md 3.5)."""

    reset: ResetClaim
    continuation: ContinuationClaim
    profiles: tuple[Identifier, ...] = ()
    evidence: Detail | None = None


class TelemetrySource(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A file or store where the harness leaves lifecycle evidence; `location` is for people, not for code."""

    source_id: Identifier
    kind: Identifier
    location: Detail
    support: SupportState
    evidence: Detail | None = None


class KnownDegradation(Document, frozen=True, kw_only=True, omit_defaults=True):
    """A capability this build of the adapter ships without, although it once had it."""

    capability: Identifier
    previous_support: SupportState
    current_support: SupportState
    evidence: Detail | None = None


class AdapterManifest(Document, frozen=True, kw_only=True, omit_defaults=True):
    """Everything an adapter claims (docs/contract.md 3.1)."""

    contract_version: SchemaVersion
    adapter_id: Identifier
    adapter_version: Identifier
    display_name: Label
    role: AdapterRole
    integration_modes: Annotated[tuple[IntegrationMode, ...], Meta(min_length=1)]
    lifecycle_events: dict[LifecycleEvent, EventClaim]
    placement: dict[ManifestPlacementClass, PlacementClaim]
    context_pressure: CapabilityClaim
    receipts: ReceiptsClaim
    session_identity: SessionIdentityClaim | None = None
    session_rename: CapabilityClaim | None = None
    renewal: RenewalClaim | None = None
    approval_surface: CapabilityClaim | None = None
    failure_modes: tuple[FailureClass, ...] = ()
    telemetry_sources: tuple[TelemetrySource, ...] = ()
    known_degradations: tuple[KnownDegradation, ...] = ()

    def __post_init__(self) -> None:
        if not f"{self.adapter_id}{self.adapter_version}".isprintable():
            refuse_unprintable(self)
        for event, claim in self.lifecycle_events.items():  # an event cannot come by a mode that is not claimed
            strange = set(claim.modes) - set(self.integration_modes)
            if strange:
                raise ValueError(f"lifecycle_events: `{event.value}` names modes outside `integration_modes`")
        # With another mode beside it, the claims are about that one.
        if set(self.integration_modes) == {IntegrationMode.TELEMETRY_ONLY}:
            self._refuse_control()

    def _refuse_control(self) -> None:
        """Refuse what an adapter that only watches cannot do (docs/contract.md 2.3)."""
        for slot, placed in self.placement.items():
            if placed.support not in {SupportState.UNAVAILABLE, SupportState.MANUAL}:
                raise ValueError(f"placement: `{slot.value}` cannot be `{placed.support}` in a telemetry_only manifest")
        if self.renewal is not None and self.renewal.reset.native is not SupportState.UNAVAILABLE:
            raise ValueError("renewal: `reset.native` must be `unavailable` in a telemetry_only manifest")


class RegisteredAdapter(Document, frozen=True, kw_only=True):
    """A manifest as the registry holds it.

    `refused_placements` narrows the placement table where the harness's slot is weaker than the name of the
    placement promises (docs/contract.md 5.4); it never widens it.  In a `watching_mode` the harness is only looked
    at, so that nothing can be handed to it.  `profiles` are the host integration profiles that this broker has
    enabled: a claim that is scoped to profiles counts only where one of them is (docs/contract.md 3.5).
    `unavailable_here` are capabilities that this broker cannot give, whatever a manifest claims.  `aliases` are other
    names under which people know the harness (docs/contract.md 3.7).
    """

    manifest: AdapterManifest
    conformance: ConformanceLevel
    refused_placements: frozenset[PlacementClass] = field(default_factory=frozenset[PlacementClass])
    watching_modes: frozenset[IntegrationMode] = field(default_factory=frozenset[IntegrationMode])
    profiles: frozenset[str] = field(default_factory=frozenset[str])
    unavailable_here: frozenset[str] = field(default_factory=frozenset[str])
    aliases: frozenset[str] = field(default_factory=frozenset[str])
