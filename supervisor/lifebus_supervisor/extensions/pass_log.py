"""What the authors of extensions learn of a pass: its errors and refusals, in the broker's log."""

from typing import Any, Final

import structlog

from lifebus_contract.extensions import ActionResult, ActionStatus, EmitResult, HandlerError

_LONGEST: Final = 1_024

_log = structlog.get_logger("lifebus.extensions")


def log_undeclared(module_name: str, action: str) -> None:
    """Log that an extension has done what its manifest does not declare."""
    _log.warning("action_not_declared", module=module_name, action=action)


def log_result(result: EmitResult) -> None:
    """Log what a handler failed with, or why its action was not done; nothing else tells its author."""
    match result:
        case HandlerError():
            of = {"module": result.module_name, "type": result.event_type}
            _log.warning("handler_failed", **of, code=result.code, detail=result.error)
        case ActionResult() if result.status is not ActionStatus.PERFORMED:
            # Who comes second has done nothing wrong: that is for whoever looks for it.
            write = _log.debug if result.status.is_reconciled else _log.warning
            write("action_not_performed", **_fields(result))
        case _:
            pass


def _fields(result: ActionResult) -> dict[str, Any]:
    details = result.details or {}
    why = details.get("message", details.get("reason"))
    return {
        "module": result.module_name,
        "type": result.event_type,
        "action": result.action_type,
        "status": result.status.value,
        "code": details.get("code"),
        "detail": why[:_LONGEST] if isinstance(why, str) else None,
    }
