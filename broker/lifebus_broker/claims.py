"""How each capability of the contract is read from a manifest, and what the claim is worth in this broker.  Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from lifebus_broker.ports import LedgerCapabilities
from lifebus_broker.routing.slots import SLOTS
from lifebus_contract import (
    SUPPORT_STRENGTH,
    AdapterManifest,
    CallbackRequest,
    CapabilityClaim,
    InvalidRequest,
    LifecycleEvent,
    ManifestPlacementClass,
    PlacementClass,
    RegisteredAdapter,
    RenewalClaim,
    SessionIdentityClaim,
    SupportState,
    Warning,  # noqa: A004  the contract's own word
)

_Claim = Callable[[AdapterManifest], SupportState]

# Bound once: to look up a member of an enum costs eight times a module's name, and every emission is looked at.
_UNAVAILABLE: Final = SupportState.UNAVAILABLE

_OF_THE_LEDGER: Final = frozenset({"receipt_ledger"})
"""What a manifest claims on the strength of the broker's ledger."""

_ANNOUNCEMENT: Final = f"event:{LifecycleEvent.RECEIPT_EMITTED}"
"""No client can be asked about it in any broker, whatever a manifest claims."""

RENEWAL: Final = "renewal."
"""What the names of the five renewal capabilities begin with."""


def claim_of(manifest: AdapterManifest, capability: str) -> SupportState:
    """Return the support a manifest claims for one of `CAPABILITIES`; what it leaves out is `unavailable`.

    Raises:
        InvalidRequest: the contract knows no such capability.
    """
    # A caller's text: an unknown name is refused here and does not count as `unavailable`.
    claim = CLAIMS.get(capability)
    if claim is None:
        raise InvalidRequest(
            f"capability: `{capability[:64]}` is not a capability of the contract",
            code="unknown_capability",
            field="$.capability",
        )
    return claim(manifest)


def count_claim(registered: RegisteredAdapter, capability: str) -> SupportState:
    """Return what a claim is worth in this broker.

    It is `unavailable` where the broker itself lacks what the capability needs, where the claim needs a profile and
    none is enabled, and for the event that no client is asked about; a slot that refuses one of its placements is at
    most `partial`.

    Raises:
        InvalidRequest: the contract knows no such capability.
    """
    claimed = claim_of(registered.manifest, capability)
    is_void = capability in registered.unavailable_here or _closed_profiles(registered, capability)
    taken, refused = _narrowed(registered, capability)
    if is_void or capability == _ANNOUNCEMENT or (refused and not taken):
        return SupportState.UNAVAILABLE
    # A slot that takes some placements and refuses others is the contract's incomplete form of a behaviour.
    return min(claimed, SupportState.PARTIAL, key=SUPPORT_STRENGTH.__getitem__) if refused else claimed


def remark_on(manifest: AdapterManifest, request: CallbackRequest) -> Warning | None:
    """Return what an event has against its adapter's manifest: not claimed, or not by this mode; None if nothing.

    It is recorded all the same, for it happened; that the manifest is wrong about it is worth a remark.
    """
    claim = manifest.lifecycle_events.get(request.event)
    if claim is None or claim.support is _UNAVAILABLE:
        what = f"claims that `{request.event}` is unavailable"
    elif request.integration_mode in claim.modes:
        return None
    else:
        what = f"claims `{request.event}` by {', '.join(claim.modes)}, not by {request.integration_mode}"
    return Warning(
        code="event_not_claimed",
        message=f"the manifest of `{manifest.adapter_id[:64]}` {what}",
        capability=f"event:{request.event}",
    )


def claims_without(ledger: LedgerCapabilities) -> frozenset[str]:
    """Return the capabilities that no adapter has in a broker with such a ledger."""
    return frozenset() if ledger.durable else _OF_THE_LEDGER


def explain_lack(registered: RegisteredAdapter, capability: str) -> str | None:
    """Return why a capability is worth less here than it might be, None where there is nothing to add.

    This broker lacks it; a slot refuses one of its placements; or, of renewal, it was not evaluated, was evaluated as
    lacking, or needs a profile.
    """
    if capability in registered.unavailable_here:
        return "the ledger of this broker does not outlive it"
    if capability == _ANNOUNCEMENT:
        return "no client is asked about it; follow the receipts instead"
    taken, refused = _narrowed(registered, capability)
    if refused and claim_of(registered.manifest, capability) is not SupportState.UNAVAILABLE:
        return f"it takes {_listed(taken)}, and refuses {_listed(refused)}"
    return _explain_renewal(registered, capability) if capability.startswith(RENEWAL) else None


def _explain_renewal(registered: RegisteredAdapter, capability: str) -> str | None:
    """Return why one of the renewal capabilities cannot be had here, None if it can."""
    if count_claim(registered, capability) is not SupportState.UNAVAILABLE:
        return None
    if registered.manifest.renewal is None:
        return "the adapter has not evaluated renewal"
    if claim_of(registered.manifest, capability) is SupportState.UNAVAILABLE:
        return "the adapter evaluated renewal and cannot do this"
    names = " or ".join(f"`{name[:64]}`" for name in _closed_profiles(registered, capability))
    return f"it needs the profile {names}, which is not enabled"


def _narrowed(
    registered: RegisteredAdapter, capability: str
) -> tuple[Sequence[PlacementClass], Sequence[PlacementClass]]:
    """Return which placements of a slot the adapter takes and which it refuses; none of other capabilities."""
    prefix, _, name = capability.partition(":")
    if prefix != "placement" or not registered.refused_placements:
        return (), ()
    using = [placement for placement, slots in SLOTS.items() if any(slot == name for slot, _ in slots)]
    refused = [placement for placement in using if placement in registered.refused_placements]
    return [placement for placement in using if placement not in refused], refused


def _listed(placements: Sequence[PlacementClass]) -> str:
    return " and ".join(f"`{placement}`" for placement in placements) or "nothing"


def _closed_profiles(registered: RegisteredAdapter, capability: str) -> tuple[str, ...]:
    """Return the profiles of which a claim needs one, if none of them is enabled."""
    renewal = registered.manifest.renewal
    # A claim without profiles holds everywhere: `isdisjoint` of nothing is true, and nothing is returned then.
    if renewal is None or not capability.startswith(RENEWAL) or not registered.profiles.isdisjoint(renewal.profiles):
        return ()
    return renewal.profiles


def _event(event: LifecycleEvent) -> _Claim:
    def read(manifest: AdapterManifest) -> SupportState:
        claim = manifest.lifecycle_events.get(event)
        return SupportState.UNAVAILABLE if claim is None else claim.support

    return read


def _placement(slot: ManifestPlacementClass) -> _Claim:
    def read(manifest: AdapterManifest) -> SupportState:
        claim = manifest.placement.get(slot)
        return SupportState.UNAVAILABLE if claim is None else claim.support

    return read


def _optional(surface: Callable[[AdapterManifest], CapabilityClaim | None]) -> _Claim:
    def read(manifest: AdapterManifest) -> SupportState:
        claim = surface(manifest)
        return SupportState.UNAVAILABLE if claim is None else claim.support

    return read


def _identity(part: Callable[[SessionIdentityClaim], SupportState]) -> _Claim:
    def read(manifest: AdapterManifest) -> SupportState:
        claim = manifest.session_identity
        return SupportState.UNAVAILABLE if claim is None else part(claim)

    return read


def _renewal(part: Callable[[RenewalClaim], SupportState]) -> _Claim:
    def read(manifest: AdapterManifest) -> SupportState:
        claim = manifest.renewal
        return SupportState.UNAVAILABLE if claim is None else part(claim)

    return read


def _native_if(emits: bool) -> SupportState:
    """Read a truth value as a support state: claimed at all is claimed in full."""
    # The contract gives these surfaces no strength of their own.
    return SupportState.NATIVE if emits else SupportState.UNAVAILABLE


# One entry for each of `CAPABILITIES`; a test compares the two.
CLAIMS: Final[dict[str, _Claim]] = {
    **{f"event:{event.value}": _event(event) for event in LifecycleEvent},
    **{f"placement:{slot.value}": _placement(slot) for slot in ManifestPlacementClass},
    "context_pressure": lambda manifest: manifest.context_pressure.support,
    "native_receipts": lambda manifest: _native_if(manifest.receipts.native),
    "lifeloop_synthesized_receipts": lambda manifest: _native_if(manifest.receipts.lifeloop_synthesized),
    "receipt_ledger": lambda manifest: manifest.receipts.receipt_ledger,
    "harness_session_id": _identity(lambda claim: claim.harness_session_id),
    "harness_run_id": _identity(lambda claim: claim.harness_run_id),
    "harness_task_id": _identity(lambda claim: claim.harness_task_id),
    "session_rename": _optional(lambda manifest: manifest.session_rename),
    "approval_surface": _optional(lambda manifest: manifest.approval_surface),
    "renewal.reset.native": _renewal(lambda claim: claim.reset.native),
    "renewal.reset.wrapper_mediated": _renewal(lambda claim: claim.reset.wrapper_mediated),
    "renewal.reset.manual": _renewal(lambda claim: claim.reset.manual),
    "renewal.continuation.observation": _renewal(lambda claim: claim.continuation.observation),
    "renewal.continuation.payload_delivery": _renewal(lambda claim: claim.continuation.payload_delivery),
}
"""How to read each capability of the contract from a manifest."""
