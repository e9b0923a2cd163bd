"""What a handler returned, made into one of the four envelopes or a request for an action.  Pure."""

from collections.abc import Collection
from typing import Any, Final

import msgspec

from lifebus_contract.extensions import (
    ActionRequest,
    ActionResult,
    ActionStatus,
    EmitResult,
    EnqueueResult,
    HandlerError,
    HandlerResult,
    JobIdentity,
)
from lifebus_contract.jobs import EnqueueStatus
from lifebus_supervisor.extensions.rules.plain_json import as_list, as_object

_REQUEST: Final = "action_request"
_ENVELOPES: Final = frozenset({"enqueue_result", "action_result", "handler_result", "handler_error"})
_ENQUEUE_STATUSES: Final = frozenset(EnqueueStatus)
_LONGEST: Final = 1_024


def normalise(
    returned: Any, module_name: str, event_type: str, queued: Collection[str] = ()
) -> EmitResult | ActionRequest:
    """Return what a handler's return value means; `queued` are the ids of the jobs that its own call queued or found.

    A value that tries to be an envelope and is none is an error, never a silent result.
    """
    one = _Normaliser(module_name, event_type, queued)
    if returned is None:
        return HandlerResult(module_name=module_name, event_type=event_type)
    if isinstance(returned, dict):
        return one.of_object(as_object(returned))
    if any("kind" in as_object(item) for item in as_list(returned)):
        return one.failure("several_results", "a handler returns one result, not a list of them")
    return HandlerResult(module_name=module_name, event_type=event_type, details={"value": returned})


class _Normaliser:
    def __init__(self, module_name: str, event_type: str, queued: Collection[str]) -> None:
        self._module_name, self._event_type, self._queued = module_name, event_type, queued

    def failure(self, why: str, text: str) -> HandlerError:
        return HandlerError(module_name=self._module_name, event_type=self._event_type, code=why, error=text[:_LONGEST])

    def of_object(self, value: dict[str, Any]) -> EmitResult | ActionRequest:
        kind = value.get("kind")
        if kind == _REQUEST or (kind is None and {"actionType", "payload"} <= value.keys()):
            return self._request(value)
        if kind is None and "job" in value:
            return self._enqueued(value)
        if kind is None and "actionType" in value:
            return self._direct(value)
        if kind is None:
            return HandlerResult(module_name=self._module_name, event_type=self._event_type, details={"value": value})
        if not isinstance(kind, str) or kind not in _ENVELOPES:
            return self.failure("unknown_result_kind", f"`{str(kind)[:64]}` is no kind of result")
        return self._envelope(kind, value)

    def _request(self, value: dict[str, Any]) -> ActionRequest | ActionResult:
        try:
            return msgspec.convert(value, ActionRequest)
        except msgspec.ValidationError as fault:
            return self._invalid(value, "malformed_action_request", str(fault))

    def _envelope(self, kind: str, value: dict[str, Any]) -> EmitResult:
        named = value.get("moduleName", self._module_name)
        if named != self._module_name:
            return self.failure("forged_module_name", f"it returned a result in the name of `{str(named)[:128]}`")
        if kind == "action_result":
            return self._direct(value)
        if kind == "enqueue_result":
            return self._enqueued(value)
        if kind == "handler_error":
            return self.failure("handler_failed", str(value.get("error", "")))
        details = value.get("details")
        kept = as_object(details) if isinstance(details, dict) else None
        return HandlerResult(module_name=self._module_name, event_type=self._event_type, details=kept)

    def _enqueued(self, value: dict[str, Any]) -> EmitResult:
        status = value.get("status")
        if status not in _ENQUEUE_STATUSES:
            return self.failure("invalid_enqueue_result", f"`{str(status)[:64]}` is no status of a queued job")
        try:
            job = msgspec.convert(value.get("job"), JobIdentity)
        except msgspec.ValidationError as fault:
            return self.failure("invalid_enqueue_result", f"job: {fault}")
        # Only what its own call of `tools.enqueue_job` was told: whoever waits for a job must not be sent to another.
        if job.id not in self._queued:
            return self.failure("forged_enqueue_result", f"its call has not queued the job `{job.id[:128]}`")
        return EnqueueResult(
            module_name=self._module_name, event_type=self._event_type, status=EnqueueStatus(status), job=job
        )

    def _direct(self, value: dict[str, Any]) -> ActionResult:
        """Refuse what claims that an action was done: only the executor can know."""
        why = "a handler asks for an action with `kind: action_request`; it cannot say what became of one"
        return self._invalid(value, "direct_action_result_disallowed", why)

    def _invalid(self, value: dict[str, Any], code: str, why: str) -> ActionResult:
        details = as_object(value.get("details"))
        return ActionResult(
            module_name=self._module_name,
            event_type=self._event_type,
            action_type=_text(value.get("actionType")) or "",
            status=ActionStatus.INVALID,
            request_id=_text(value.get("requestId")),
            idempotency_key=_text(value.get("idempotencyKey")),
            details={**details, "code": code, "message": why[:_LONGEST]},
        )


def _text(value: Any) -> str | None:
    return value[:300] if isinstance(value, str) else None
