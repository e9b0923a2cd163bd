"""Outcomes of actions: refusals with their codes, and what errors and answers of app-servers come to.  Pure."""

import re
from typing import Any, Final

from lifebus_contract import FailureClass, LifebusError
from lifebus_contract.extensions import ActionOutcome, ActionStatus

OUTCOME_UNKNOWN: Final = "outcome_unknown"
"""The code of an action that may have been done: it is never done again under its key."""

REPLAYABLE: Final = frozenset(
    {ActionStatus.PERFORMED, ActionStatus.ALREADY_RESOLVED, ActionStatus.NOT_ELIGIBLE, ActionStatus.FORBIDDEN}
)
"""The statuses that are kept under an idempotency key; after another one the key is free again."""

_LONGEST: Final = 1_024
_INVALID: Final = (FailureClass.INVALID_REQUEST, FailureClass.PAYLOAD_TOO_LARGE)

# What an app-server says, and what that is to whoever asked; the first that fits counts.
_SAID: Final = (
    (re.compile(r"no active turn|expected.{0,80}turn|turn.{0,80}(mismatch|expected)"), ActionStatus.CONFLICT),
    (re.compile(r"already (resolved|handled)|not found|not pending"), ActionStatus.ALREADY_RESOLVED),
    (re.compile(r"not eligible"), ActionStatus.NOT_ELIGIBLE),
    (re.compile(r"conflict"), ActionStatus.CONFLICT),
)


def refused(status: ActionStatus, code: str, message: str, **more: Any) -> ActionOutcome:
    """Return an outcome that was not simply done; every one has a code and says why."""
    return ActionOutcome(status=status, details={"code": code, "message": message[:_LONGEST], **more})


def outcome_of_fault(fault: LifebusError) -> ActionOutcome:
    """Return what an action comes to whose executor was refused."""
    code = fault.code or "failed"
    match code:
        case "session_deleted":
            # A late action: the user deleted its session, and nothing is wrong.
            return refused(ActionStatus.NOT_ELIGIBLE, code, fault.detail)
        case "no_session":
            return refused(ActionStatus.FAILED, "session_not_found", fault.detail)
        case _:
            status = ActionStatus.INVALID if fault.failure_class in _INVALID else ActionStatus.FAILED
            return refused(status, code, fault.detail)


def status_of_words(said: str) -> ActionStatus:
    """Return what an error of an app-server means for whoever wanted something of it."""
    lowered = said.lower()
    return next((status for pattern, status in _SAID if pattern.search(lowered)), ActionStatus.FAILED)


def is_kept(outcome: ActionOutcome) -> bool:
    """Whether an outcome is what the key stands for from now on; after another one the key is free again."""
    code = (outcome.details or {}).get("code")
    return outcome.status in REPLAYABLE or code == OUTCOME_UNKNOWN
