"""Conformance: failure-class mapping tests for every adapter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs, to_builtins

from lifebus_adapters import ADAPTERS, HookCall
from lifebus_broker.ports import Refusal
from lifebus_broker.routing.negotiation import negotiate
from lifebus_broker.routing.payload_validation import check_payload
from lifebus_broker.routing.placement import place
from lifebus_broker.routing.receipts import ReceiptHeader, failed
from lifebus_broker.routing.registry import Registry
from lifebus_contract import (
    DEFAULT_RETRY,
    AdapterManifest,
    CallbackRequest,
    CapabilityRequest,
    Emission,
    FailureClass,
    IdSource,
    IntegrationMode,
    InvalidRequest,
    ManifestPlacementClass,
    PayloadEnvelope,
    RegisteredAdapter,
    RequirementLevel,
    SupportState,
    validate,
)
from support.golden import golden
from support.supervisor.scripted import renewing

REGISTRY = Registry([adapter.registered for adapter in ADAPTERS.values()])
UNCLAIMED: Any = "sorcery"
"""A mode that no manifest claims; Codex claims all that there are."""
STAMP: ReceiptHeader = {"receipt_id": "lfr_1", "at_epoch_s": 1, "client_id": "notes", "parent_receipt_id": None}


def manifest(adapter_id: str) -> AdapterManifest:
    return ADAPTERS[adapter_id].registered.manifest


def resolving(adapter_id: str, version: str, mode: IntegrationMode) -> FailureClass:
    found = REGISTRY.resolve(adapter_id, version, mode)
    assert isinstance(found, Refusal)
    return found.failure_class


def negotiating(
    adapter_id: str, claim: SupportState | None = None, now: SupportState | None = None
) -> FailureClass | None:
    """Require the opening of frames of an adapter that claims and has this support of it."""
    registered = ADAPTERS[adapter_id].registered
    if claim is not None:
        plain = to_builtins(registered.manifest)
        plain["lifecycle_events"]["frame.opening"]["support"] = claim.value
        registered = structs.replace(registered, manifest=validate(plain, AdapterManifest))
    requirement = CapabilityRequest(capability="event:frame.opening", level=RequirementLevel.REQUIRED)
    return negotiate(registered, [requirement], {} if now is None else {requirement.capability: now}).failure_class


def placing(adapter_id: str, placement: str, size: int) -> FailureClass:
    placements = [{"placement": placement, "requirement": "required"}]
    payload = validate(golden("payload", body="x" * size, acceptable_placements=placements), PayloadEnvelope)
    request = validate(golden("request", event="frame.opening"), CallbackRequest)
    found = place([payload], request, ADAPTERS[adapter_id].registered)
    assert found.refusal is not None
    return found.refusal.failure_class


def validating(**changes: Any) -> FailureClass:
    found = check_payload(validate(golden("payload", **changes), PayloadEnvelope), 1)
    assert found is not None
    return found.failure_class


def parsing(adapter_id: str, stdin: bytes) -> FailureClass:
    call = HookCall(call_id="c", adapter_id=adapter_id, hook="SessionStart", cwd="/", env={}, stdin=stdin)
    with pytest.raises(InvalidRequest) as caught:
        ADAPTERS[adapter_id].read(call, IdSource(lambda: 1, bytes))
    return caught.value.failure_class


MAPPING: dict[str, tuple[Callable[[str], FailureClass | None], FailureClass]] = {
    "another version": (
        lambda name: resolving(name, "0.0.0", IntegrationMode.NATIVE_HOOK),
        FailureClass.ADAPTER_UNAVAILABLE,
    ),
    "an unclaimed mode": (
        lambda name: resolving(name, manifest(name).adapter_version, UNCLAIMED),
        FailureClass.ADAPTER_UNAVAILABLE,
    ),
    "a misspelt id": (
        lambda name: resolving(f"{name}x", manifest(name).adapter_version, IntegrationMode.NATIVE_HOOK),
        FailureClass.ADAPTER_UNAVAILABLE,
    ),
    "a capability that is not there": (
        lambda name: negotiating(name, claim=SupportState.UNAVAILABLE),
        FailureClass.CAPABILITY_UNSUPPORTED,
    ),
    "a capability by hand": (lambda name: negotiating(name, claim=SupportState.MANUAL), FailureClass.OPERATOR_REQUIRED),
    "a capability that is gone": (
        lambda name: negotiating(name, now=SupportState.UNAVAILABLE),
        FailureClass.CAPABILITY_DEGRADED,
    ),
    "a capability that is by hand now": (
        lambda name: negotiating(name, now=SupportState.MANUAL),
        FailureClass.CAPABILITY_DEGRADED,
    ),
    "a placement nobody offers": (
        lambda name: placing(name, "side_channel_context", 1),
        FailureClass.PLACEMENT_UNAVAILABLE,
    ),
    "a payload over the limit": (
        lambda name: placing(name, "pre_prompt_frame", 100_000),
        FailureClass.PAYLOAD_TOO_LARGE,
    ),
    "a payload that lies about its size": (lambda _: validating(byte_size=1), FailureClass.INVALID_REQUEST),
    "nonsense from the harness": (lambda name: parsing(name, b"\x00nonsense"), FailureClass.INVALID_REQUEST),
}


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_failure_class_mapping_for_every_adapter(adapter_id: str, subtests: pytest.Subtests) -> None:
    for fault, (found, expected) in MAPPING.items():
        with subtests.test(fault=fault):
            assert found(adapter_id) is expected


def test_every_failure_class_reaches_the_receipt_with_its_default_retry_class(subtests: pytest.Subtests) -> None:
    for failure in FailureClass:
        with subtests.test(failure=failure):
            emission = validate({"request": golden("request")}, Emission)
            receipt = failed(emission=emission, refusal=Refusal(failure_class=failure, detail="why"), **STAMP)
            assert (receipt.status, receipt.failure_class, receipt.retry_class) == (
                "failed",
                failure,
                DEFAULT_RETRY[failure],
            )


@pytest.mark.parametrize(
    ("condition", "failure"),
    [
        ("unavailable", FailureClass.CAPABILITY_UNSUPPORTED),
        ("manual", FailureClass.OPERATOR_REQUIRED),
    ],
)
def test_renewal_conditions_use_the_existing_failure_classes(condition: str, failure: FailureClass) -> None:
    reset = CapabilityRequest(capability="renewal.reset.wrapper_mediated", level=RequirementLevel.REQUIRED)
    able, unable = resettable("synthesized"), resettable(condition)
    assert negotiate(able, [reset]).outcome == "satisfied"
    assert negotiate(unable, [reset]).failure_class is failure
    lost = {reset.capability: SupportState(condition)}
    assert negotiate(able, [reset], lost).failure_class is FailureClass.CAPABILITY_DEGRADED


def resettable(support: str) -> RegisteredAdapter:
    """Return an adapter that claims this support of the reset by a wrapper, with its profile enabled."""
    capable = golden("manifest")
    capable["renewal"]["reset"]["wrapper_mediated"] = support
    registered = ADAPTERS["codex"].registered
    return type(registered)(
        manifest=validate(capable, AdapterManifest),
        conformance=registered.conformance,
        profiles=frozenset(capable["renewal"]["profiles"]),
    )


@pytest.mark.parametrize(
    ("reset", "thread", "failure"),
    [
        ({"wrapper_mediated": "unavailable", "manual": "unavailable"}, "t-1", FailureClass.CAPABILITY_UNSUPPORTED),
        ({}, "another thread", FailureClass.PAYLOAD_REJECTED),
        ({"wrapper_mediated": "partial"}, "t-1", FailureClass.CAPABILITY_DEGRADED),
        ({"wrapper_mediated": "manual"}, "t-1", FailureClass.OPERATOR_REQUIRED),
    ],
)
async def test_the_four_renewal_conditions_reach_a_receipt_with_their_classes(
    tmp_path: Path, reset: dict[str, str], thread: str, failure: FailureClass
) -> None:
    async with renewing(tmp_path) as on:
        on.claim_reset(**reset)
        on.client.answers["consume"] = {"thread": thread}
        receipt = await on.stop()
        if receipt.failure_class is None:
            receipt = await on.start()
        assert (receipt.failure_class, receipt.retry_class) == (failure, DEFAULT_RETRY[failure])


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_every_adapter_declares_the_failures_it_is_known_for(adapter_id: str) -> None:
    declared = manifest(adapter_id)
    assert FailureClass.INVALID_REQUEST in declared.failure_modes
    limited = any(declared.placement[slot].max_bytes for slot in ManifestPlacementClass)
    assert (FailureClass.PAYLOAD_TOO_LARGE in declared.failure_modes) is limited
