"""Ready-made requests, for callers that have no harness adapter to make them."""

import hashlib
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

from lifebus._internal.following.event_names import event_of
from lifebus_contract import (
    CONTRACT_VERSION,
    CallbackRequest,
    FrameContext,
    IdSource,
    IntegrationMode,
    LifecycleEvent,
    PayloadEnvelope,
    PayloadRef,
    PlacementClass,
    RequirementLevel,
    validate,
)
from lifebus_contract.ids import EVENT, INVOCATION, PAYLOAD

_IDS: Final = IdSource(lambda: time.time_ns() // 1_000_000, os.urandom)


class RequestFields(TypedDict, total=False):
    """The further fields of a request; those that are generated otherwise are `event_id` and `invocation_id`.

    `idempotency_key` is what makes a repeated call the same one; `sequence` is the harness's own number.
    """

    schema_version: str
    event_id: str
    invocation_id: str
    harness_run_id: str | None
    harness_task_id: str | None
    capability_snapshot_ref: str | None
    payload_refs: Sequence[PayloadRef]
    sequence: int | None
    idempotency_key: str | None
    metadata: Mapping[str, Any]


class PayloadFields(TypedDict, total=False):
    """The further fields of a payload, of which `payload_id`, `byte_size` and `content_digest` are made otherwise.

    `expires_at_epoch_s` is in seconds since 1970; `redaction` is a word for who shows the payload.
    """

    schema_version: str | int
    payload_id: str
    format: str
    content_encoding: str
    byte_size: int
    content_digest: str | None
    idempotency_key: str | None
    expires_at_epoch_s: int | None
    redaction: str
    metadata: Mapping[str, Any]


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
    **fields: Unpack[RequestFields],
) -> CallbackRequest:
    """Return a validated request with ids and an idempotency key, so that it can be repeated safely.

    `event` is what happened, `adapter_id` names the harness and `session` its own id of the session; `frame` is the
    turn or sub-agent, which `frame.*` events need.  `adapter_version` and `integration_mode` say who tells it.

    With an `idempotency_key` of the caller's the ids follow from it: the same call makes the same request, which the
    broker answers with the receipt that it has.  Without one, key and ids are fresh.  What `fields` has wins over what
    is generated.

    Raises:
        InvalidRequest: the fields do not make a valid request; of an event that there is not (``unknown_event``), it
            says which was probably meant.
    """
    key = fields.get("idempotency_key")
    plain = {
        "schema_version": CONTRACT_VERSION,
        "event": event_of(event),
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
    placements: Sequence[tuple[PlacementClass | str, RequirementLevel | str]] = (("pre_prompt_frame", "preferred"),),
    **fields: Unpack[PayloadFields],
) -> PayloadEnvelope:
    """Return a validated payload with an id, its true size and its digest.

    `client_id` is whose it is, `body` its text and `payload_kind` what kind of text that is, in the client's words.
    `placements` are tried in order; each is a placement and how much it is needed.  The default is
    ``pre_prompt_frame``, ``preferred``.  The id follows from an `idempotency_key`, where the caller gives one, and is
    fresh otherwise; what `fields` has wins over what is made.

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
