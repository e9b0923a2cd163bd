"""What an action may touch: nothing of another project, session or turn than the one that it belongs to.  Pure."""

import msgspec

from lifebus_contract.actions.payloads import Action, DecideApproval, EnqueueJob, SteerTurn, TranscriptUpsert
from lifebus_contract.extensions import ActionOutcome, ActionScope, ActionStatus
from lifebus_supervisor.actions.rules.outcomes import refused

_WORDS = {"project": "project_id", "session": "source_session_id", "turn": "turn_id"}


def scope_violation(action: Action, scope: ActionScope) -> ActionOutcome | None:
    """Return why an action lies outside of its scope, None where it does not; what is unknown locks nothing.

    An approval is compared by `approval_violation`: its payload does not say whose it is.
    """
    match action:
        case TranscriptUpsert(session_id=session, entry=entry):
            return _violation(scope, session=session, turn=entry.turn_id)
        case SteerTurn(session_id=session, turn_id=turn):
            return _violation(scope, session=session, turn=turn)
        case EnqueueJob(project_id=project, source_session_id=session):
            return _violation(scope, project=project, session=session)
        case DecideApproval():
            return None


def approval_violation(thread_id: str, turn_id: str | None, scope: ActionScope) -> ActionOutcome | None:
    """Return why an approval of this thread and turn lies outside of a scope, None where it does not."""
    # An approval that says no turn belongs to none, so that a scope with a turn does not have it.
    return _violation(scope, session=thread_id, turn=turn_id or "")


def within(action: Action, scope: ActionScope) -> Action:
    """Return an action with what it leaves open as its scope has it."""
    if isinstance(action, EnqueueJob) and action.source_session_id is None:
        return msgspec.structs.replace(action, source_session_id=scope.source_session_id)
    return action


def session_of(action: Action) -> str | None:
    """Return the session that an action changes or belongs to, None where its payload names none."""
    match action:
        case (
            TranscriptUpsert(session_id=session) | SteerTurn(session_id=session) | EnqueueJob(source_session_id=session)
        ):
            return session
        case DecideApproval():
            return None


def _violation(scope: ActionScope, **received: str | None) -> ActionOutcome | None:
    for word, value in received.items():
        expected = getattr(scope, _WORDS[word])
        if value is not None and expected is not None and value != expected:
            text = f"it belongs to the {word} `{expected[:128]}` and may not touch `{value[:128]}`"
            return refused(ActionStatus.FORBIDDEN, f"scope_{word}_mismatch", text, expected=expected, received=value)
    return None
