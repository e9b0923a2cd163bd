"""Manifests read again while the broker runs: what an adapter no longer claims is recorded as lost."""

import time

import anyio.to_thread
import structlog

from lifebus_broker.routing.bus import EventBus
from lifebus_broker.state.degradation import Cause
from lifebus_broker.state.telemetry_keys import CAUSE
from lifebus_broker.transitions import shrinkage
from lifebus_contract import AdapterManifest, LifebusError, LifecycleEvent
from lifebus_supervisor.configuration.adapters import configured_adapters
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding
from lifebus_supervisor.supervision.supervisor import Supervisor

_EVIDENCE = "the manifest was read again and claims otherwise"
_log = structlog.get_logger("lifebus.reload")


async def reload_manifests(settings: Settings, bus: EventBus, supervisor: Supervisor) -> int:
    """Read the configured manifests again; return how many adapters claim otherwise now.

    Each change is a `capability.degraded` of the adapter, and of every live session of it.  Manifests that cannot be
    read leave everything as it was.
    """
    try:
        read = await anyio.to_thread.run_sync(configured_adapters, settings)
        # All at once, and only when every manifest could be read: negotiations never see half of the change.
        before = bus.registry.replace(read.all())
    except LifebusError as fault:
        _log.error("manifests_not_reloaded", detail=fault.detail[:512])
        return 0
    old = {one.manifest.adapter_id: one.manifest for one in before}
    changed = 0
    for registered in bus.registry.all():
        manifest = registered.manifest
        finding = _finding(old.get(manifest.adapter_id), manifest)
        if finding is not None:
            changed += 1
            await supervisor.record_for_adapter(manifest.adapter_id, [finding])
    _log.info("manifests_reloaded", adapters=len(bus.registry.all()), changed=changed)
    return changed


def _finding(old: AdapterManifest | None, new: AdapterManifest) -> SupervisionFinding | None:
    changes = () if old is None else shrinkage(old, new, at_epoch_s=int(time.time()), evidence=_EVIDENCE)
    if not changes:
        return None
    facts = {CAUSE: Cause.MANIFEST_CHANGED.value, "evidence": _EVIDENCE}
    return SupervisionFinding(event=LifecycleEvent.CAPABILITY_DEGRADED, telemetry=facts, degradations=changes)
