"""What a checkpoint is on the bus: its id, size and digest in a receipt, never its body.  Pure."""

from collections.abc import Mapping

from lifebus.checkpoints.records import CheckpointInfo
from lifebus.requests import make_request
from lifebus_contract import (
    CONTRACT_VERSION,
    AcceptablePlacement,
    AdapterManifest,
    Emission,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    RequirementLevel,
)
from lifebus_contract.fields import FactValue
from lifebus_contract.flows import FLOW_VARIABLES
from lifebus_contract.vocabulary import FLOW_ADAPTER


def session_of_step(environ: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the session of the run whose step has these variables, None where it is no step of a flow."""
    run = environ.get(f"{FLOW_VARIABLES}RUN")
    return None if not run else (FLOW_ADAPTER, run)


def emission_of(info: CheckpointInfo, client_id: str, manifest: AdapterManifest) -> Emission:
    """Return the emission that records a checkpoint; made again it is the same, so that it is recorded once."""
    session = info.session
    # The event that claims least: nothing began or ended, and no state of a context is known.
    request = make_request(
        LifecycleEvent.SUPERVISOR_TICK,
        manifest.adapter_id,
        adapter_version=manifest.adapter_version,
        integration_mode=manifest.integration_modes[0],
        session=None if session is None else session[1],
        idempotency_key=f"checkpoint:{info.checkpoint_id}",
    )
    payload = PayloadEnvelope(
        schema_version=CONTRACT_VERSION,
        payload_id=info.checkpoint_id,
        client_id=client_id,
        payload_kind=info.kind,
        format="application/json",
        content_encoding="utf8",
        byte_size=info.byte_size,
        body_ref=f"checkpoint:{info.checkpoint_id}",
        content_digest=info.digest,
        acceptable_placements=(
            AcceptablePlacement(placement=PlacementClass.RECEIPT_ONLY, requirement=RequirementLevel.REQUIRED),
        ),
    )
    facts: dict[str, FactValue] = {"checkpoint_name": info.name, "checkpoint_run": info.run_id}
    return Emission(request=request, payloads=(payload,), telemetry=facts)
