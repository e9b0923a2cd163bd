"""The six built-in manifests, and how manifests of third parties are read."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, load_manifest, load_third_party
from lifebus_contract import (
    CONTRACT_VERSION,
    ConformanceLevel,
    IntegrationMode,
    InvalidRequest,
    LifecycleEvent,
    ManifestPlacementClass,
    PlacementClass,
    SupportState,
    encode_json,
)
from support.adapters.calls import hooks_of, slots_of

ALL = pytest.mark.parametrize("adapter_id", list(ADAPTERS))


def test_six_harnesses_are_known() -> None:
    assert sorted(ADAPTERS) == ["claude", "codex", "gemini", "hermes", "openclaw", "opencode"]


@ALL
def test_a_manifest_names_its_adapter_version_and_contract(adapter_id: str) -> None:
    manifest = ADAPTERS[adapter_id].registered.manifest
    assert (manifest.adapter_id, manifest.adapter_version) == (adapter_id, "0.1.0")
    assert manifest.contract_version == CONTRACT_VERSION


@ALL
def test_a_manifest_leaves_no_event_and_no_slot_unsaid(adapter_id: str) -> None:
    manifest = ADAPTERS[adapter_id].registered.manifest
    assert list(manifest.lifecycle_events) == list(LifecycleEvent)
    assert list(manifest.placement) == list(ManifestPlacementClass)


MADE_BY_LIFEBUS = {
    LifecycleEvent.SUPERVISOR_TICK,
    LifecycleEvent.CAPABILITY_DEGRADED,
    LifecycleEvent.RECEIPT_GAP_DETECTED,
}
TOLD_BY_FILES = {
    # A session that goes on after its end is started again by supervision, whatever showed it.
    LifecycleEvent.SESSION_STARTING,
    LifecycleEvent.SESSION_STARTED,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,
    LifecycleEvent.CONTEXT_COMPACTED,
    LifecycleEvent.FRAME_ENDED,
    LifecycleEvent.SESSION_ENDED,
}


def _claimed_by(adapter_id: str, mode: IntegrationMode) -> set[LifecycleEvent]:
    claims = ADAPTERS[adapter_id].registered.manifest.lifecycle_events
    return {event for event, claim in claims.items() if mode in claim.modes}


@ALL
def test_an_event_is_claimed_for_hooks_exactly_if_some_hook_yields_it_or_lifebus_makes_it(adapter_id: str) -> None:
    yielded = {event for rule in hooks_of(adapter_id).rules.values() for event in rule.events}
    assert _claimed_by(adapter_id, IntegrationMode.NATIVE_HOOK) == yielded | MADE_BY_LIFEBUS


@ALL
def test_files_are_claimed_to_report_pressure_compaction_ends_and_resumed_sessions_alone(adapter_id: str) -> None:
    assert _claimed_by(adapter_id, IntegrationMode.TELEMETRY_ONLY) <= TOLD_BY_FILES | MADE_BY_LIFEBUS


@ALL
def test_an_event_has_a_mode_exactly_if_it_is_supported(adapter_id: str) -> None:
    claims = ADAPTERS[adapter_id].registered.manifest.lifecycle_events
    assert all(bool(claim.modes) == (claim.support is not SupportState.UNAVAILABLE) for claim in claims.values())


@ALL
def test_a_native_hook_is_the_first_of_the_ways_in_and_an_app_server_one_of_codex_alone(adapter_id: str) -> None:
    app_server = (IntegrationMode.REFERENCE_ADAPTER,) if adapter_id == "codex" else ()
    assert ADAPTERS[adapter_id].registered.watching_modes == set(app_server)
    assert ADAPTERS[adapter_id].registered.manifest.integration_modes == (
        IntegrationMode.NATIVE_HOOK,
        IntegrationMode.TELEMETRY_ONLY,
        *app_server,
        IntegrationMode.LAUNCHER_WRAPPER,
        IntegrationMode.MANUAL_SKILL,
    )


@ALL
def test_a_slot_is_claimed_exactly_if_some_hook_fills_it(adapter_id: str) -> None:
    claims = ADAPTERS[adapter_id].registered.manifest.placement
    claimed = {slot for slot, claim in claims.items() if claim.support is not SupportState.UNAVAILABLE}
    assert claimed == set(slots_of(adapter_id).values())
    assert all(claims[slot].max_bytes for slot in claimed)


@pytest.mark.parametrize("adapter_id", ["gemini", "hermes", "opencode", "openclaw"])
def test_harnesses_with_user_role_context_refuse_the_developer_equivalent_frame(adapter_id: str) -> None:
    registered = ADAPTERS[adapter_id].registered
    assert registered.conformance is ConformanceLevel.PRE_CONFORMANCE
    assert registered.refused_placements == {PlacementClass.DEVELOPER_EQUIVALENT_FRAME}


@pytest.mark.parametrize("adapter_id", ["codex", "claude"])
def test_codex_and_claude_place_prompt_time_context_after_the_prompt(adapter_id: str) -> None:
    placement = ADAPTERS[adapter_id].registered.manifest.placement
    assert placement[ManifestPlacementClass.PRE_FRAME_LEADING].support is SupportState.UNAVAILABLE
    assert placement[ManifestPlacementClass.PRE_FRAME_TRAILING].support is SupportState.NATIVE


def _third_party(**changes: Any) -> bytes:
    manifest = json.loads(encode_json(ADAPTERS["codex"].registered.manifest))
    return json.dumps(manifest | {"adapter_id": "acme"} | changes).encode()


def test_a_third_partys_manifest_is_pre_conformance() -> None:
    registered = load_third_party(_third_party())
    assert registered.manifest.adapter_id == "acme"
    assert registered.conformance is ConformanceLevel.PRE_CONFORMANCE
    assert registered.refused_placements == frozenset()


@ALL
def test_a_manifest_survives_the_round_trip(adapter_id: str) -> None:
    manifest = ADAPTERS[adapter_id].registered.manifest
    assert load_manifest(encode_json(manifest)) == manifest


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"invented": 1}, "invented"),
        ({"contract_version": "lifeloop.v9"}, "contract_version"),
        ({"adapter_id": ""}, "adapter_id"),
        ({"integration_modes": []}, "integration_modes"),
        ({"integration_modes": ["telemetry_only"]}, "lifecycle_events"),
        (
            {"lifecycle_events": {"session.exploded": {"support": "native", "modes": ["native_hook"]}}},
            "session.exploded",
        ),
        ({"placement": {"pre_session": {"support": "splendid"}}}, "splendid"),
    ],
)
def test_a_faulty_manifest_is_refused_with_the_fault_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        load_third_party(_third_party(**changes))
    assert named in f"{refused.value.detail} {refused.value.field}"


@pytest.mark.parametrize("data", [b"", b"[]", b"{", b'{"adapter_id":"a","adapter_id":"b"}', b"\xff"])
def test_what_is_not_a_strict_object_is_no_manifest(data: bytes) -> None:
    with pytest.raises(InvalidRequest):
        load_third_party(data)
