"""Ready-made requests, for callers that have no harness adapter to make them.

Above: client, command line.  Below: the contract.
"""

import os
import time
from typing import Any, Final

from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackRequest,
    FrameContext,
    IdSource,
    IntegrationMode,
    LifecycleEvent,
    validate,
)
from lifebus_contract.ids import EVENT, INVOCATION

__all__ = ["make_request", "new_id", "tick_request"]

_IDS: Final = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)


def new_id(prefix: str) -> str:
    """Return a new id with the prefix, for example ``idem_01K…``."""
    return _IDS.make(prefix)


def make_request(
    event: LifecycleEvent | str,
    adapter_id: str,
    *,
    adapter_version: str = "0.1.0",
    integration_mode: IntegrationMode | str = IntegrationMode.NATIVE_HOOK,
    session: str | None = None,
    frame: FrameContext | None = None,
    **fields: Any,
) -> CallbackRequest:
    """Return a validated request with fresh ids and an idempotency key, so that it can be repeated safely.

    Other fields of `CallbackRequest` may be given by name and win over the generated ones.

    Raises:
        InvalidRequest: the fields do not make a valid request.
    """
    plain = {
        "schema_version": CONTRACT_VERSION,
        "event": event,
        "event_id": new_id(EVENT),
        "adapter_id": adapter_id,
        "adapter_version": adapter_version,
        "invocation_id": new_id(INVOCATION),
        "integration_mode": integration_mode,
        "harness_session_id": session,
        "frame_context": frame,
        "idempotency_key": new_id("idem_"),
        **fields,
    }
    return validate(plain, CallbackRequest)


def tick_request(adapter_id: str, adapter_version: str, session: str | None) -> CallbackRequest:
    """Return a `supervisor.tick` request."""
    return make_request(LifecycleEvent.SUPERVISOR_TICK, adapter_id, adapter_version=adapter_version, session=session)
