"""Conformance: manifests (docs/contract.md 14)."""

import json

import jsonschema
import pytest

from lifebus_adapters import ADAPTERS
from lifebus_broker.routing.placement import place
from lifebus_broker.routing.slots import SLOTS, RejectionReason
from lifebus_contract import (
    AdapterManifest,
    CallbackRequest,
    ConformanceLevel,
    IntegrationMode,
    InvalidRequest,
    ManifestPlacementClass,
    PayloadEnvelope,
    RegisteredAdapter,
    encode_json,
    schema_for,
    validate,
)
from support.golden import golden

CAN_PLACE = [
    (slot.value, support) for slot in ManifestPlacementClass for support in ("native", "synthesized", "partial")
]


@pytest.mark.parametrize("adapter_id", ADAPTERS)
def test_manifest_schema_validation_for_every_shipped_adapter(adapter_id: str) -> None:
    manifest = ADAPTERS[adapter_id].registered.manifest
    plain = json.loads(encode_json(manifest))
    jsonschema.Draft202012Validator(schema_for("manifest")).validate(plain)
    assert validate(plain, AdapterManifest) == manifest
    assert plain["adapter_id"] == adapter_id


def test_the_v1_adapters_are_codex_and_claude() -> None:
    levels = {name: adapter.registered.conformance for name, adapter in ADAPTERS.items()}
    assert {name for name, level in levels.items() if level is ConformanceLevel.V1} == {"codex", "claude"}
    assert levels.keys() == {"codex", "claude", "gemini", "opencode", "hermes", "openclaw"}


def test_telemetry_only_manifests_observe_and_are_valid() -> None:
    watcher = validate(golden("manifest", "minimal"), AdapterManifest)
    assert watcher.integration_modes == (IntegrationMode.TELEMETRY_ONLY,)
    claimed = golden("manifest", "minimal")
    claimed["lifecycle_events"] = {"context.pressure_observed": {"support": "partial", "modes": ["telemetry_only"]}}
    claimed["placement"] = {"pre_session": {"support": "unavailable"}, "manual_operator": {"support": "manual"}}
    assert validate(claimed, AdapterManifest)


@pytest.mark.parametrize(("slot", "support"), CAN_PLACE)
def test_telemetry_only_manifests_cannot_claim_to_inject_payloads(slot: str, support: str) -> None:
    manifest = golden("manifest", "minimal", placement={slot: {"support": support}})
    with pytest.raises(InvalidRequest, match=f"`{slot}` cannot be `{support}` in a telemetry_only manifest"):
        validate(manifest, AdapterManifest)
    assert validate(manifest | {"integration_modes": ["telemetry_only", "native_hook"]}, AdapterManifest)


def test_telemetry_only_manifests_cannot_claim_to_control_the_harness() -> None:
    renewal = golden("manifest")["renewal"]
    assert validate(golden("manifest", "minimal", renewal=renewal), AdapterManifest)
    renewal["reset"]["native"] = "native"
    with pytest.raises(InvalidRequest, match=r"`reset\.native` must be `unavailable`"):
        validate(golden("manifest", "minimal", renewal=renewal), AdapterManifest)


def test_what_is_observed_by_telemetry_delivers_nothing_even_where_the_adapter_could() -> None:
    capable = golden("manifest", integration_modes=["native_hook", "manual_skill", "telemetry_only"])
    adapter = RegisteredAdapter(manifest=validate(capable, AdapterManifest), conformance=ConformanceLevel.V1)
    placements = [{"placement": "developer_equivalent_frame", "requirement": "preferred"}]
    payload = validate(golden("payload", acceptable_placements=placements), PayloadEnvelope)
    by_hook = validate(golden("request"), CallbackRequest)
    by_telemetry = validate(golden("request", integration_mode="telemetry_only"), CallbackRequest)
    assert len(place([payload], by_hook, adapter).deliveries) == 1
    watched = place([payload], by_telemetry, adapter)
    assert (watched.deliveries, watched.receipts[0].status) == ((), "skipped")
    assert watched.rejections[0][1].reason is RejectionReason.TELEMETRY_ONLY


def test_the_placement_table_covers_every_class_of_both_vocabularies() -> None:
    reached = {slot for slots in SLOTS.values() for slot, _ in slots}
    assert reached == set(ManifestPlacementClass)
