"""The verbs of app-servers' observers: signals go into the log, what shows a session's life to the intake, in order."""

from collections import Counter
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

import anyio
import msgspec

from lifebus_adapters.app_server.signals import MAX_PARAMS_BYTES
from lifebus_adapters.app_server.signals import SignalEnvelope as AppServerSignal
from lifebus_broker.routing.registry import Registry
from lifebus_broker.signals.log import SignalLog, SignalSlice
from lifebus_contract import (
    BrokerBusy,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    LifebusError,
    StateConflict,
    TransportError,
)
from lifebus_contract.actions.payloads import ActionType
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.actions import Actions
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.app_server.steering import AppServerSteering
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.signals import (
    Observation,
    Observe,
    ObserveAnswer,
    ObservedExit,
    ObservedFact,
    ObservedLoss,
    ObservedProcess,
    ObservedSignal,
    ObservedTurn,
    SignalBackfill,
    SignalPage,
    ThreadHead,
    ThreadHeads,
    ThreadsQuery,
    WireSignal,
)
from lifebus_transports.messages.steering import AwaitOrder, DecidedApproval, NextOrder, OrderReport, PersonDecision

# Most bytes of signals that are kept where nothing is durable
_MEMORY_BYTES: Final = 16 * 1_048_576

# The signal after which a thread's earlier ones must not be kept
_DELETED: Final = "app_server.thread.deleted"

LifecycleObservation = ObservedFact | ObservedLoss | ObservedExit
"""What an observer reports beside signals."""


class LifecycleIntake(Protocol):
    """Makes receipts of what observers report."""

    async def take(
        self,
        origin: str,
        adapter_id: str,
        process: ObservedProcess | None,
        observed: Sequence[tuple[int, LifecycleObservation]],
    ) -> None:
        """Record what an origin reported, each with its number, in order; return when all of it is durable.

        The same origin and number may come again and must not be recorded twice.

        Raises:
            LifebusError: not now, or never; the observer gets the refusal.
        """
        ...


class ObservedSessions(Protocol):
    """Who knows which sessions no signal tells of (fulfilled by `transcripts.store.TranscriptStore`)."""

    def is_told(self, session_id: str) -> bool:
        """Return whether signals of a session are passed on: it is not deleted, and no worker of the broker's."""
        ...

    def is_workers(self, session_id: str) -> bool:
        """Return whether a session belongs to a worker of the broker: it has no receipts either."""
        ...

    async def delete(self, session_id: str) -> None:
        """Drop everything of a session and remember for good that it was deleted.

        Raises:
            LifebusError: not now.
        """
        ...


class WorkerTurnIntake(Protocol):
    """Makes known how turns of workers ended (fulfilled by `worker_turns.turn_answers.TurnAnswers`)."""

    async def take(self, seen: ObservedTurn) -> None:
        """Take what an observer reports; return once an end is durable.

        Raises:
            LifebusError: it was not recorded, and has to come again.
        """
        ...


class ObservationVerbs:
    """Serves `observe`, `signals` and `threads`.

    `withheld` counts signals of deleted sessions and of the broker's own workers, `missing` observations whose numbers
    never came, `replayed` those that came again, `lines_dropped` the lines that observers could not use.
    `on_exit` is called with the origin of each app-server that has ended.
    """

    def __init__(  # noqa: PLR0917  all that observations go to
        self,
        log: SignalLog,
        intake: LifecycleIntake,
        registry: Registry,
        sessions: ObservedSessions,
        turns: WorkerTurnIntake,
        on_exit: Callable[[str], None],
    ) -> None:
        self._on_exit = on_exit
        self.missing = self.replayed = self.lines_dropped = self.withheld = 0
        self._sessions, self._worker_turns = sessions, turns
        self._log = log
        self._intake = intake
        self._registry = registry
        self._turns: dict[str, anyio.Lock] = {}
        self._waiting: Counter[str] = Counter()

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {"observe": self._observe, "signals": self._read, "threads": self._threads}

    def counters(self) -> Mapping[str, int]:
        """Return what `status` says of observations."""
        return {
            "signals_withheld": self.withheld,
            "observations_missing": self.missing,
            "observations_replayed": self.replayed,
            "lines_dropped": self.lines_dropped,
        }

    async def _observe(self, _: Call, body: Observe) -> ObserveAnswer:
        """Record what is new in a batch: facts first, which know their numbers, then the signals with the new number.

        Raises:
            LifebusError: nothing was recorded, or facts that will be known when the batch comes again.
        """
        # Everything is checked before anything is recorded: a batch is taken whole or not at all.
        self._registry.require(body.adapter_id)
        for one in body.observations:
            if isinstance(one, ObservedSignal):
                _check(one)
        async with self._turn(body.origin):
            # Read inside of the turn: the batch before may have moved it.
            through = self._log.through(body.origin)
            numbered = list(enumerate(body.observations, body.first))
            new = [(number, one) for number, one in numbered if number > through]
            if new:
                await self._record(body, new)
            await self._forget(body)
            self.replayed += len(numbered) - len(new)
            # A known origin whose first number is too high has lost batches; an unknown one may be from before a
            # restart.
            self.missing += max(0, body.first - through - 1) if through else 0
            return ObserveAnswer(through=max(through, numbered[-1][0]))

    async def _read(self, _: Call, body: SignalBackfill) -> SignalPage:
        """Return signals of a thread after a sequence, or that the cursor cannot be continued."""
        # Numbers of two epochs must not be compared, so a foreign place starts again from nothing.
        elsewhere = body.epoch is not None and body.epoch != self._log.epoch
        found = await self._log.read(body.adapter_id, body.thread, 0 if elsewhere else body.after, body.limit)
        if elsewhere:
            found = SignalSlice(
                signals=(), next=found.floor, head=found.head, floor=found.floor, complete=False, snapshot_required=True
            )
        return SignalPage(
            epoch=self._log.epoch,
            rows=tuple(WireSignal(one.sequence, one.event_type, one.signal) for one in found.signals),
            next=found.next,
            head=found.head,
            floor=found.floor,
            complete=found.complete,
            snapshot_required=found.snapshot_required,
            deleted=found.deleted,
        )

    async def _threads(self, _: Call, body: ThreadsQuery) -> ThreadHeads:
        """Return where the threads of an adapter stand."""
        tips = await self._log.threads(body.adapter_id, body.thread)
        return ThreadHeads(
            epoch=self._log.epoch, threads=tuple(ThreadHead(tip.thread, tip.head, tip.floor) for tip in tips)
        )

    async def _record(self, body: Observe, new: Sequence[tuple[int, Observation]]) -> None:
        for _, one in new:
            if isinstance(one, ObservedTurn):
                await self._worker_turns.take(one)
        lifecycle = [
            (number, one)
            for number, one in new
            if not isinstance(one, ObservedSignal | ObservedTurn) and not self._is_workers(one)
        ]
        # The intake knows numbers that it has recorded.  The log only knows the last one of a batch, so it comes last:
        # a crash in between repeats the batch, and neither records anything twice.
        if lifecycle:
            await self._intake.take(body.origin, body.adapter_id, body.process, lifecycle)
        seen = [one for _, one in new if isinstance(one, ObservedSignal)]
        signals = [one for one in seen if self._sessions.is_told(one.thread)]
        self.withheld += len(seen) - len(signals)
        await self._log.record(body.origin, new[-1][0], body.adapter_id, signals)
        # Behind the record: a batch that comes again must not count twice.
        exits = [one for _, one in new if isinstance(one, ObservedExit)]
        self.lines_dropped += sum(map(_dropped, exits))
        if exits:
            self._on_exit(body.origin)

    def _is_workers(self, one: LifecycleObservation) -> bool:
        # Its first observer says nothing of a worker's thread; the next one does not know whose it is.
        session = one.fact.get("session") if isinstance(one, ObservedFact) else None
        return isinstance(session, str) and self._sessions.is_workers(session)

    async def _forget(self, body: Observe) -> None:
        """Drop the signals of deleted threads, also where the batch is known: who answered it last may not have."""
        deleted = [one for one in body.observations if isinstance(one, ObservedSignal) and one.event_type == _DELETED]
        for thread in {one.thread for one in deleted}:
            await self._log.forget(body.adapter_id, thread)
            await self._sessions.delete(thread)

    @asynccontextmanager
    async def _turn(self, origin: str) -> AsyncGenerator[None]:
        """Handle an origin's batches one after the other, in the order in which they came."""
        self._waiting[origin] += 1
        try:
            async with self._turns.setdefault(origin, anyio.Lock()):
                yield
        finally:
            self._waiting[origin] -= 1
            # Origins are unique ids of runs, so their locks would add up for ever.
            if not self._waiting[origin]:
                del self._waiting[origin], self._turns[origin]


class SteeringVerbs:
    """Serves `steer` and `steered`: observers take orders for their app-servers, and say what became of them.

    And `approval_decide`, for which `actions` gives such orders.
    """

    def __init__(self, steering: AppServerSteering, actions: Actions) -> None:
        self._steering, self._actions = steering, actions

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {"steer": self._steer, "steered": self._steered, "approval_decide": self._decide}

    async def _steer(self, _: Call, body: AwaitOrder) -> NextOrder:
        return NextOrder(order=await self._steering.next_order(body))

    def _steered(self, _: Call, body: OrderReport) -> Nothing:
        self._steering.report(body)
        return Nothing()

    async def _decide(self, _: Call, body: PersonDecision) -> DecidedApproval:
        payload = {
            "approvalId": body.approval_id,
            "decision": body.decision.value,
            "scope": body.scope.value,
        }
        request = ActionRequest(action_type=ActionType.DECIDE, payload=payload)
        # A person may decide whatever is asked: nothing is locked.
        outcome = await self._actions.execute(request, ActionScope(), requested_by=f"person:{body.responder}")
        if outcome.status is not ActionStatus.PERFORMED:
            raise _refusal_of(outcome)
        done = outcome.details or {}
        return DecidedApproval(approval_id=body.approval_id, thread_id=done["threadId"], turn_id=done["turnId"])


def _refusal_of(outcome: ActionOutcome) -> LifebusError:
    """Return why an approval was not decided."""
    details = outcome.details or {}
    code, said = str(details.get("code", "")), str(details.get("message", ""))
    unknown = DeadlineExceeded(said, code="outcome_unknown")
    faults: dict[str, LifebusError] = {
        "approval_not_pending": InvalidRequest(said, code="no_approval"),
        "system_session": LifebusError(said, code="system_session"),
        "session_deleted": StateConflict(said, code="session_deleted"),
        "app_server_unreachable": TransportError(said, code="app_server_unreachable"),
        "busy": BrokerBusy(said, code="busy"),
        "answer_not_seen": unknown,
        "outcome_unknown": unknown,
    }
    if outcome.status is ActionStatus.FAILED:
        return faults.get(code) or InternalError(said)
    return faults.get(code) or StateConflict(said, code="approval_settled")


def _dropped(ended: ObservedExit) -> int:
    """Return how many lines an observer could not use, as it says at its end."""
    counts = (ended.evidence.get(name) for name in ("junk", "overlong"))
    return sum(count for count in counts if isinstance(count, int))


_envelopes: Final = msgspec.json.Decoder(AppServerSignal)


def _check(signal: ObservedSignal) -> None:
    """Check that a signal is what docs/app-server.md says, and filed under its own name.

    Raises:
        InvalidRequest: no such JSON, too large, or another event.
    """
    if not f"{signal.thread}{signal.event_type}".isprintable():
        raise InvalidRequest("thread and event_type must not hold unprintable characters", field="thread")
    try:
        envelope = _envelopes.decode(signal.signal)
    except (ValueError, RecursionError) as fault:
        raise InvalidRequest(f"no signal: {str(fault)[:200]}", code="malformed", field="signal") from None
    if envelope.event_type != signal.event_type:
        raise InvalidRequest("the signal names another event than `event_type`", field="event_type")
    if len(envelope.params) > MAX_PARAMS_BYTES:
        raise InvalidRequest(f"params are limited to {MAX_PARAMS_BYTES} bytes", code="too_large", field="params")
