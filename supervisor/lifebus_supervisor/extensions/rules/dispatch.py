"""One pass of an event: in which order handlers are called, and what becomes of what they return.  Pure."""

from collections.abc import Iterable
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import (
    ActionOutcome,
    ActionRequest,
    ActionResult,
    ActionScope,
    ActionStatus,
    EmitResult,
    EnqueueResult,
    ExtensionCapabilities,
    JobIdentity,
)
from lifebus_contract.jobs import EnqueueStatus
from lifebus_supervisor.extensions.rules.plain_json import as_object
from lifebus_supervisor.extensions.rules.trust import ENQUEUE, refused_action

DEFAULT_PRIORITY: Final = 100
DEFAULT_TIMEOUT_MS: Final = 30_000

_QUEUED: Final = {
    ActionStatus.PERFORMED: EnqueueStatus.ENQUEUED,
    ActionStatus.ALREADY_RESOLVED: EnqueueStatus.ALREADY_QUEUED,
}
"""What the outcome of an action ``queue.enqueue`` says of its job."""


class Handler(Struct, frozen=True, kw_only=True):
    """A registered handler; `index` counts the registrations of its set in the order of loading."""

    module_name: str
    event_type: str
    priority: int = DEFAULT_PRIORITY
    index: int
    timeout_ms: int = DEFAULT_TIMEOUT_MS


def ordered(handlers: Iterable[Handler]) -> list[Handler]:
    """Return handlers in the order of a pass: by priority, module name by code point, registration."""
    return sorted(handlers, key=lambda one: (one.priority, one.module_name, one.index))


class Winner(Struct, frozen=True):
    """Whose request was performed first in a pass; later requests are not executed."""

    module_name: str
    action_type: str


def before_execution(
    request: ActionRequest,
    mode: TrustMode,
    declared: ExtensionCapabilities | None,
    winner: Winner | None,
) -> ActionOutcome | None:
    """Return why a request is not executed, None where it is: first the capability counts, then the winner."""
    if (why := refused_action(mode, declared, request.action_type)) is not None:
        details: dict[str, Any] = {"code": "undeclared_capability", "reason": why}
        return ActionOutcome(status=ActionStatus.FORBIDDEN, details=details)
    if winner is None:
        return None
    details = {
        "code": "action_winner_already_selected",
        "winnerModuleName": winner.module_name,
        "winnerActionType": winner.action_type,
    }
    return ActionOutcome(status=ActionStatus.NOT_ELIGIBLE, details=details)


def action_result(request: ActionRequest, handler: Handler, outcome: ActionOutcome) -> ActionResult:
    """Return the envelope of an outcome; the request's own ids are echoed."""
    return ActionResult(
        module_name=handler.module_name,
        event_type=handler.event_type,
        action_type=request.action_type,
        status=outcome.status,
        request_id=request.request_id or outcome.request_id,
        idempotency_key=request.idempotency_key,
        details=outcome.details,
    )


def winner_after(winner: Winner | None, result: EmitResult) -> Winner | None:
    """Return who has won a pass once a result is there: the first whose action was performed."""
    if winner is None and isinstance(result, ActionResult) and result.status is ActionStatus.PERFORMED:
        return Winner(result.module_name, result.action_type)
    return winner


def queue_winner(results: Iterable[EmitResult]) -> EnqueueResult | None:
    """Return the job of a pass where one is needed: the first that was queued, else the first found queued.

    A job that an action queued counts as one that a handler queued itself.
    """
    queued = [found for one in results if (found := _queued(one)) is not None]
    new = (one for one in queued if one.status is EnqueueStatus.ENQUEUED)
    return next(new, queued[0] if queued else None)


def _queued(result: EmitResult) -> EnqueueResult | None:
    """Return what a result says of a job that was queued, by the tool or by an action; None where it says nothing."""
    if isinstance(result, EnqueueResult):
        return result
    if not isinstance(result, ActionResult) or result.action_type != ENQUEUE:
        return None
    # A handler that claims a result gets `invalid`, with its own details: those prove nothing.
    status = _QUEUED.get(result.status)
    if status is None:
        return None
    try:
        job = msgspec.convert((result.details or {}).get("job"), JobIdentity)
    except msgspec.ValidationError:
        return None
    return EnqueueResult(module_name=result.module_name, event_type=result.event_type, status=status, job=job)


def scope_of(payload: Any) -> ActionScope:
    """Return to what actions are locked that an event's handlers ask for; what it does not name locks nothing."""
    top = as_object(payload)
    context, session = as_object(top.get("context")), as_object(top.get("session"))
    return ActionScope(
        project_id=_first(context.get("projectId"), top.get("projectId"), session.get("projectId")),
        source_session_id=_first(
            context.get("sourceSessionId"),
            context.get("threadId"),
            top.get("sourceSessionId"),
            top.get("sessionId"),
            top.get("threadId"),
            top.get("harness_session_id"),
        ),
        turn_id=_first(context.get("turnId"), top.get("turnId")),
    )


def _first(*values: Any) -> str | None:
    return next((value for value in values if isinstance(value, str) and value), None)
