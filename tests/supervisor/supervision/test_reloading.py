"""Manifests that are read again: what an adapter claims no longer is lost for it and for its live sessions."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from lifebus_adapters import ADAPTERS
from lifebus_contract import AdapterManifest, Receipt, RegisteredAdapter, decode_json, encode_json
from lifebus_supervisor.supervision.reloading import reload_manifests
from support.running import settings_in
from support.supervisor.supervised import SupervisedBus, supervised


def write_manifest(path: Path, pressure: str) -> None:
    document: dict[str, Any] = json.loads(encode_json(ADAPTERS["codex"].registered.manifest))
    document["adapter_id"] = "third"
    document["context_pressure"] = {"support": pressure}
    path.write_text(json.dumps(document))


async def reloaded(rig: SupervisedBus, manifest: Path, tmp_path: Path) -> tuple[int, list[Receipt]]:
    settings = structs.replace(settings_in(tmp_path), manifests=(manifest,))
    before = rig.bus.ledger.head
    changed = await reload_manifests(settings, rig.bus, rig.supervisor)
    return changed, [one for one in await rig.since(before) if one.event == "capability.degraded"]


async def test_a_manifest_that_shrinks_takes_a_capability_away_and_gives_it_back(tmp_path: Path) -> None:
    manifest = tmp_path / "third.json"
    async with supervised(tmp_path) as rig:
        write_manifest(manifest, "native")
        await reloaded(rig, manifest, tmp_path)
        write_manifest(manifest, "unavailable")
        changed, (lost,) = await reloaded(rig, manifest, tmp_path)
        assert changed == 1
        assert [
            (one.capability, one.previous_support, one.current_support) for one in lost.capability_degradations
        ] == [("context_pressure", "native", "unavailable")]
        assert (lost.status, lost.telemetry_summary["cause"]) == ("degraded", "manifest_changed")
        write_manifest(manifest, "native")
        _, (back,) = await reloaded(rig, manifest, tmp_path)
        assert back.status == "observed"


async def test_live_sessions_of_the_adapter_get_the_change_too(tmp_path: Path) -> None:
    manifest = tmp_path / "third.json"
    start = {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"}
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", start)
        await rig.tick()
        registered = rig.bus.registry.require("codex")
        write_manifest(manifest, "native")
        weaker = json.loads(encode_json(registered.manifest)) | {"context_pressure": {"support": "unavailable"}}
        poor = RegisteredAdapter(
            manifest=decode_json(json.dumps(weaker).encode(), AdapterManifest), conformance=registered.conformance
        )
        rig.bus.registry.replace([poor])
        _, recorded = await reloaded(rig, manifest, tmp_path)
        assert {one.harness_session_id for one in recorded} == {None, "s1"}


@pytest.mark.parametrize("text", ["{", '{"adapter_id": "third"}'])
async def test_a_manifest_that_cannot_be_read_changes_nothing(tmp_path: Path, text: str) -> None:
    manifest = tmp_path / "third.json"
    async with supervised(tmp_path) as rig:
        write_manifest(manifest, "native")
        await reloaded(rig, manifest, tmp_path)
        known = rig.bus.registry.all()
        manifest.write_text(text)
        assert await reloaded(rig, manifest, tmp_path) == (0, [])
        assert rig.bus.registry.all() == known
