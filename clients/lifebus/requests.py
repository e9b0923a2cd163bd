"""Ready-made requests, for callers that have no harness adapter to make them."""

import hashlib
import os
import time
from collections.abc import Sequence
from typing import Any, Final

from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackRequest,
    FrameContext,
    IdSource,
    IntegrationMode,
    LifecycleEvent,
    PayloadEnvelope,
    PlacementClass,
    RequirementLevel,
    validate,
)
from lifebus_contract.ids import EVENT, INVOCATION, PAYLOAD

_BEFORE_THE_PROMPT: Final = ((PlacementClass.PRE_PROMPT_FRAME, RequirementLevel.PREFERRED),)
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
        # A key of its own makes every request safe to send again.
        "idempotency_key": new_id("idem_"),
        **fields,
    }
    return validate(plain, CallbackRequest)


def make_payload(
    client_id: str,
    body: str,
    *,
    payload_kind: str = "context",
    placements: Sequence[tuple[PlacementClass | str, RequirementLevel | str]] = _BEFORE_THE_PROMPT,
    **fields: Any,
) -> PayloadEnvelope:
    """Return a validated payload with a fresh id, its true size and its digest.

    `placements` are tried in order; each is a placement and how much it is needed.  Other fields of
    `PayloadEnvelope` may be given by name.

    Raises:
        InvalidRequest: the fields do not make a valid payload.
    """
    raw = body.encode()
    plain = {
        "schema_version": CONTRACT_VERSION,
        "payload_id": new_id(PAYLOAD),
        "client_id": client_id,
        "payload_kind": payload_kind,
        "format": "text/plain",
        "content_encoding": "utf8",
        "body": body,
        # Size and digest are of the bytes, not of the characters.
        "byte_size": len(raw),
        "content_digest": f"sha256:{hashlib.sha256(raw).hexdigest()}",
        "acceptable_placements": [
            {"placement": placement, "requirement": requirement} for placement, requirement in placements
        ],
        **fields,
    }
    return validate(plain, PayloadEnvelope)
