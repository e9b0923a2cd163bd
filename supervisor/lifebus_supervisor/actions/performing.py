"""One action is done: in a transcript, in the queue, at an app-server."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final, Protocol

import anyio
import msgspec
from msgspec import Struct

from lifebus_broker.ports import NewRecord
from lifebus_contract import LifebusError
from lifebus_contract.actions.payloads import Action, DecideApproval, EnqueueJob, SteerTurn, TranscriptUpsert
from lifebus_contract.extensions import ActionOutcome, ActionScope, ActionStatus, JobIdentity
from lifebus_contract.jobs import EnqueueStatus, NewJob
from lifebus_supervisor.actions.ports import AppServerControl, ControlOutcome, ControlState, EntryWriter
from lifebus_supervisor.actions.rules.outcomes import OUTCOME_UNKNOWN, outcome_of_fault, refused, status_of_words
from lifebus_supervisor.actions.rules.scopes import approval_violation, session_of
from lifebus_supervisor.extensions.ports import JobQueue
from lifebus_supervisor.transcripts.session_marks import SessionKind, SessionKinds

CONTROL_S: Final = 30.0
"""How long an app-server is waited for."""

_UNREACHABLE: Final = "app_server_unreachable"


class ActionAttempt(Protocol):
    """One execution of an action.

    `action_id` is the same for all executions under one key, None without a key.  `is_resumed` says that a broker
    began it before and died, `asked` whom that broker or this one asked last to do it, `requested_by` who wants it.
    """

    action_id: str | None
    is_resumed: bool
    asked: str | None
    requested_by: str

    async def begin(self, asked: str | None = None) -> None:
        """Record that it is being done, and by whom; to be called right before anything outside changes.

        Raises:
            LifebusError: it was not recorded, and must not be done.
        """
        ...

    def settled(self, outcome: ActionOutcome) -> Sequence[NewRecord]:
        """Return the records that settle the key; whoever appends them calls `mark_settled`."""
        ...

    def mark_settled(self) -> None:
        """Note that the records of `settled` are durable."""
        ...


class Performers(Struct, frozen=True, kw_only=True):
    """What actions are done by; None where this broker has none."""

    transcripts: EntryWriter
    sessions: SessionKinds
    jobs: JobQueue | None = None
    control: AppServerControl | None = None

    async def perform(self, action: Action, scope: ActionScope, attempt: ActionAttempt) -> ActionOutcome:
        """Do an action that lies within its scope, and return what became of it."""
        try:
            if (refusal := self._refuse_session(session_of(action), action)) is not None:
                return refusal
            match action:
                case TranscriptUpsert():
                    return await self._upsert(action, attempt)
                case EnqueueJob():
                    return await self._enqueue(action, attempt)
                case DecideApproval():
                    return await self._decide(action, scope, attempt)
                case SteerTurn():
                    return await self._steer(action, attempt)
        except LifebusError as fault:
            return outcome_of_fault(fault)

    def _refuse_session(self, session_id: str | None, action: Action) -> ActionOutcome | None:
        """Return why nothing is done to a session: it was deleted, or is a worker's own."""
        kind = SessionKind.USER if session_id is None else self.sessions.kind_of(session_id)
        if kind is SessionKind.DELETED:
            return refused(ActionStatus.NOT_ELIGIBLE, "session_deleted", f"the session {session_id} was deleted")
        if kind is SessionKind.SYSTEM and isinstance(action, SteerTurn | DecideApproval):
            text = f"the session {session_id} belongs to a worker of the broker"
            return refused(ActionStatus.FORBIDDEN, "system_session", text)
        return None

    async def _upsert(self, action: TranscriptUpsert, attempt: ActionAttempt) -> ActionOutcome:
        details = {"messageId": action.entry.message_id, "turnId": action.entry.turn_id}
        outcome = ActionOutcome(status=ActionStatus.PERFORMED, details=details)
        # One append: an entry that somebody changed afterwards is not written over by a repetition.
        await self.transcripts.upsert(action.session_id, action.entry, attempt.settled(outcome))
        attempt.mark_settled()
        return outcome

    async def _enqueue(self, action: EnqueueJob, attempt: ActionAttempt) -> ActionOutcome:
        if self.jobs is None:
            return refused(ActionStatus.FAILED, "queue_off", "this broker has no queue")
        job_id = None if attempt.action_id is None else f"act_{attempt.action_id[:48]}"
        new = NewJob(
            job_id=job_id,
            type=action.type,
            project_id=action.project_id,
            payload=action.payload,
            source_session_id=action.source_session_id,
            priority=action.priority,
            dedupe=action.dedupe,
            dedupe_key=action.dedupe_key,
        )
        await attempt.begin()
        try:
            queued = await self.jobs.enqueue(new)
        except LifebusError as fault:
            if not attempt.is_resumed or fault.code != "job_exists" or job_id is None:
                raise
            # The broker before had queued it, and the job is over and forgotten since.
            known = JobIdentity(id=job_id, type=action.type, project_id=action.project_id)
            return _enqueued(ActionStatus.PERFORMED, EnqueueStatus.ENQUEUED, known)
        identity = JobIdentity(
            id=queued.job.id,
            type=queued.job.type,
            project_id=queued.job.project_id,
            source_session_id=queued.job.source_session_id,
            state=queued.job.state.value,
        )
        is_new = queued.status is EnqueueStatus.ENQUEUED
        status = ActionStatus.PERFORMED if is_new else ActionStatus.ALREADY_RESOLVED
        return _enqueued(status, queued.status, identity)

    async def _decide(self, action: DecideApproval, scope: ActionScope, attempt: ActionAttempt) -> ActionOutcome:
        if self.control is None:
            return _no_control()
        control = self.control
        approval = await control.approval(action.approval_id)
        if approval is None:
            text = "the approval is not pending: it was decided, or its turn is over"
            code = "already_resolved" if control.is_settled(action.approval_id) else "approval_not_pending"
            return refused(ActionStatus.ALREADY_RESOLVED, code, text)
        outside = approval_violation(approval.thread_id, approval.turn_id, scope)
        outside = outside or self._refuse_session(approval.thread_id, action)
        if outside is not None:
            return outside
        await attempt.begin()
        done = {
            "approvalId": approval.approval_id,
            "threadId": approval.thread_id,
            "turnId": approval.turn_id,
            "decision": action.decision.value,
            "scope": action.scope.value,
        }
        answer = await _within_time(
            lambda: control.decide(approval, action.decision, action.scope, attempt.requested_by)
        )
        # An approval is answered at most once: that it may have been is no reason to keep the key.
        return _outcome(answer, done, unknown="answer_not_seen")

    async def _steer(self, action: SteerTurn, attempt: ActionAttempt) -> ActionOutcome:
        if self.control is None:
            return _no_control()
        control, done = self.control, {"sessionId": action.session_id, "turnId": action.turn_id}
        if attempt.is_resumed and attempt.action_id is not None:
            before = await control.steered(attempt.action_id, attempt.asked)
            if before is None or before.state is not ControlState.UNREACHABLE:
                return _outcome(before or ControlOutcome(ControlState.UNKNOWN), done, unknown=OUTCOME_UNKNOWN)
            await attempt.begin()  # it is known that it was not done: where it fails now the key is free
        answer = await _within_time(
            lambda: control.steer(
                action.session_id,
                action.turn_id,
                action.input,
                attempt.action_id,
                attempt.requested_by,
                attempt.begin,
            )
        )
        return _outcome(answer, done, unknown=OUTCOME_UNKNOWN)


async def _within_time(ask: Callable[[], Awaitable[ControlOutcome]]) -> ControlOutcome:
    with anyio.move_on_after(CONTROL_S):
        return await ask()
    return ControlOutcome(ControlState.UNKNOWN, f"no answer came within {CONTROL_S:g} s")


def _outcome(answer: ControlOutcome, done: Mapping[str, str | None], *, unknown: str) -> ActionOutcome:
    match answer.state:
        case ControlState.DONE:
            return ActionOutcome(status=ActionStatus.PERFORMED, details=dict(done))
        case ControlState.LATE:
            return refused(ActionStatus.ALREADY_RESOLVED, "already_resolved", answer.message or "somebody was first")
        case ControlState.REFUSED:
            return refused(status_of_words(answer.message), "app_server_refused", answer.message)
        case ControlState.UNREACHABLE:
            return refused(ActionStatus.FAILED, _UNREACHABLE, answer.message or "no app-server of it can be reached")
        case ControlState.UNKNOWN:
            text = answer.message or "it was sent to the app-server, and nobody saw an answer"
            return refused(ActionStatus.FAILED, unknown, text)


def _enqueued(status: ActionStatus, enqueued: EnqueueStatus, job: JobIdentity) -> ActionOutcome:
    return ActionOutcome(
        status=status, details={"enqueueStatus": enqueued.value, "job": msgspec.to_builtins(job, str_keys=True)}
    )


def _no_control() -> ActionOutcome:
    return refused(ActionStatus.FAILED, _UNREACHABLE, "this broker reaches no app-server")
