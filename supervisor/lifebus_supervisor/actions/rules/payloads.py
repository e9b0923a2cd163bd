"""The payload of a request for an action, read by its type.  Pure."""

from typing import Any, Final, cast

import msgspec

from lifebus_contract.actions.payloads import (
    Action,
    ActionType,
    DecideApproval,
    EnqueueJob,
    SteerTurn,
    TranscriptUpsert,
)
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionStatus
from lifebus_supervisor.actions.rules.outcomes import refused
from lifebus_supervisor.actions.rules.signatures import canonical_json

_TYPES: Final[dict[ActionType, type[Action]]] = {
    ActionType.UPSERT: TranscriptUpsert,
    ActionType.DECIDE: DecideApproval,
    ActionType.STEER: SteerTurn,
    ActionType.ENQUEUE: EnqueueJob,
}

# What a caller may say of an entry; everything else is the broker's.
_ENTRY: Final = frozenset(
    {"messageId", "turnId", "role", "type", "content", "status", "details", "startedAt", "completedAt"}
)


def read_action(request: ActionRequest) -> Action | ActionOutcome:
    """Return the payload of a request, or why it is none."""
    try:
        kind = ActionType(request.action_type)
    except ValueError:
        known = ", ".join(ActionType)
        text = f"there is no action `{request.action_type[:64]}`; known are {known}"
        return refused(ActionStatus.INVALID, "unknown_action_type", text)
    try:
        payload = _upsert(request.payload) if kind is ActionType.UPSERT else request.payload
        return msgspec.convert(payload, _TYPES[kind])
    except (msgspec.ValidationError, ValueError) as fault:
        return refused(ActionStatus.INVALID, "invalid_payload", str(fault), issues=[str(fault)[:512]])


def _upsert(payload: dict[str, Any]) -> dict[str, Any]:
    """Return the payload with an entry as transcripts have it: `details` is text there."""
    entry = payload.get("entry")
    if not isinstance(entry, dict):
        return payload
    known = {key: value for key, value in cast("dict[str, Any]", entry).items() if key in _ENTRY}
    details = known.get("details")
    if details is not None and not isinstance(details, str):
        known["details"] = canonical_json(details)
    return {**payload, "entry": known}
