"""Findings of supervision as emissions, in the form in which the bus takes everything.  Pure.

Ids come from the given source.
"""

from collections.abc import Sequence
from hashlib import sha256

from lifebus_contract import (
    CONTRACT_VERSION,
    AdapterManifest,
    CallbackRequest,
    Emission,
    FrameClass,
    FrameContext,
    IdSource,
    IntegrationMode,
)
from lifebus_contract.ids import EVENT, INVOCATION
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding


def emissions_of(
    findings: Sequence[SupervisionFinding],
    manifest: AdapterManifest,
    key: SessionKey,
    ids: IdSource,
    *,
    invocation_id: str | None = None,
    mode: IntegrationMode | None = None,
) -> list[Emission]:
    """Return the findings of one evaluation of a session as emissions of one invocation, in order."""
    invocation = invocation_id or ids.make(INVOCATION)
    usual = mode or mode_of(manifest)
    return [_emission(finding, manifest, key, ids, invocation, finding.mode or usual) for finding in findings]


def mode_of(manifest: AdapterManifest) -> IntegrationMode:
    """Return the mode in which supervision speaks: by telemetry, or the first that the adapter has."""
    if IntegrationMode.TELEMETRY_ONLY in manifest.integration_modes:
        return IntegrationMode.TELEMETRY_ONLY
    return manifest.integration_modes[0]


def _emission(  # noqa: PLR0917  what every emission is made of
    finding: SupervisionFinding,
    manifest: AdapterManifest,
    key: SessionKey,
    ids: IdSource,
    invocation: str,
    mode: IntegrationMode,
) -> Emission:
    adapter_id, session = key
    frame = finding.frame
    request = CallbackRequest(
        schema_version=CONTRACT_VERSION,
        event=finding.event,
        event_id=ids.make(EVENT),
        adapter_id=adapter_id,
        adapter_version=manifest.adapter_version,
        invocation_id=invocation,
        integration_mode=mode,
        harness_session_id=session or None,
        harness_task_id=None if frame is None else frame.task,
        frame_context=None if frame is None else _context(finding),
        idempotency_key=None if finding.key is None else _key(session, finding.key),
        metadata=finding.metadata,
    )
    telemetry = dict(finding.telemetry)
    if frame is not None:
        telemetry["frame_id"] = frame.frame_id
    return Emission(request=request, telemetry=telemetry, degradations=finding.degradations)


def _context(finding: SupervisionFinding) -> FrameContext | None:
    frame = finding.frame
    if frame is None:
        return None
    kind = FrameClass.TOP_LEVEL if frame.parent is None else FrameClass.SUBCALL
    return FrameContext(frame_id=frame.frame_id, frame_class=kind, parent_frame_id=frame.parent)


def _key(session: str, key: str) -> str:
    """Return a key that is short and unlike that of any other session."""
    # A finding's key may hold ids of any length; idempotency keys may not.
    kind = key.partition(":")[0]
    digest = sha256((session + chr(0) + key).encode()).hexdigest()[:32]
    return f"supervision:{kind}:{digest}"
