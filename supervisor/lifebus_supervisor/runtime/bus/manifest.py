"""What runs are on the bus: the adapter of this broker's own runtime.  Pure."""

from typing import Final

from lifebus_contract import (
    CONTRACT_VERSION,
    AdapterManifest,
    AdapterRole,
    CapabilityClaim,
    ConformanceLevel,
    EventClaim,
    FailureClass,
    IntegrationMode,
    LifecycleEvent,
    ReceiptsClaim,
    RegisteredAdapter,
    SessionIdentityClaim,
    SupportState,
)
from lifebus_contract.vocabulary import FLOW_ADAPTER

ADAPTER_VERSION: Final = "1"
"""The version of the mapping in `receipts`."""

MODE: Final = IntegrationMode.LAUNCHER_WRAPPER
"""How it comes to know what it reports: it starts the processes itself."""

_EVENTS: Final = (
    LifecycleEvent.SESSION_STARTING,
    LifecycleEvent.SESSION_STARTED,
    LifecycleEvent.FRAME_OPENING,
    LifecycleEvent.FRAME_OPENED,
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,
    LifecycleEvent.FRAME_ENDING,
    LifecycleEvent.FRAME_ENDED,
    LifecycleEvent.SESSION_ENDING,
    LifecycleEvent.SESSION_ENDED,
    LifecycleEvent.SUPERVISOR_TICK,
    LifecycleEvent.RECEIPT_GAP_DETECTED,
)

_MANIFEST: Final = AdapterManifest(
    contract_version=CONTRACT_VERSION,
    adapter_id=FLOW_ADAPTER,
    adapter_version=ADAPTER_VERSION,
    display_name="lifebus flows",
    role=AdapterRole.SUPERVISOR,
    integration_modes=(MODE,),
    lifecycle_events={event: EventClaim(support=SupportState.SYNTHESIZED, modes=(MODE,)) for event in _EVENTS},
    placement={},
    context_pressure=CapabilityClaim(
        support=SupportState.SYNTHESIZED, evidence="from the limits that a flow gives its steps"
    ),
    receipts=ReceiptsClaim(native=False, lifeloop_synthesized=True, receipt_ledger=SupportState.SYNTHESIZED),
    session_identity=SessionIdentityClaim(
        harness_session_id=SupportState.NATIVE,
        harness_run_id=SupportState.UNAVAILABLE,
        harness_task_id=SupportState.NATIVE,
    ),
    failure_modes=(
        FailureClass.TRANSPORT_ERROR,
        FailureClass.TIMEOUT,
        FailureClass.OPERATOR_REQUIRED,
        FailureClass.ADAPTER_UNAVAILABLE,
    ),
)

FLOW: Final = RegisteredAdapter(manifest=_MANIFEST, conformance=ConformanceLevel.PRE_CONFORMANCE)
"""The adapter as every broker registers it; it is no harness, and nothing is installed for it."""
