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


def id_of(prefix: str, key: object, scope: str) -> str:
    """Return the id that follows from an idempotency key and its scope, so that whoever repeats the key repeats the id.

    Without a key (None) it is a new one.
    """
    if not isinstance(key, str):
        return new_id(prefix)
    # With the prefix, so that the ids of one request differ.
    raw = f"{prefix}\0{scope}\0{key}".encode("utf-8", "surrogatepass")
    return f"{prefix}{hashlib.sha256(raw).hexdigest()[:26]}"


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
    """Return a validated request with ids and an idempotency key, so that it can be repeated safely.

    With an `idempotency_key` of the caller's the ids follow from it: the same call makes the same request, which the
    broker answers with the receipt that it has.  Without one, key and ids are fresh.  Other fields of
    `CallbackRequest` may be given by name and win over the generated ones.

    Raises:
        InvalidRequest: the fields do not make a valid request.
    """
    key = fields.get("idempotency_key")
    plain = {
        "schema_version": CONTRACT_VERSION,
        "event": event,
        "event_id": id_of(EVENT, key, adapter_id),
        "adapter_id": adapter_id,
        "adapter_version": adapter_version,
        "invocation_id": id_of(INVOCATION, key, adapter_id),
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
    """Return a validated payload with an id, its true size and its digest.

    The id follows from an `idempotency_key`, where the caller gives one, and is fresh otherwise.

    `placements` are tried in order; each is a placement and how much it is needed.  Other fields of
    `PayloadEnvelope` may be given by name.

    Raises:
        InvalidRequest: the fields do not make a valid payload.
    """
    raw = body.encode()
    plain = {
        "schema_version": CONTRACT_VERSION,
        "payload_id": id_of(PAYLOAD, fields.get("idempotency_key"), client_id),
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
