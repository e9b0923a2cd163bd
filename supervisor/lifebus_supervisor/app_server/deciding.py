"""What follows from one fact of an app-server, given what is known of its session.  Pure.

What is on record already gives no second receipt: where a fact comes again, or another observer reported it, the
session has begun, the frame is open or closed, the compaction is counted.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from lifebus_adapters.app_server.facts import (
    AppServerFact,
    ErrorSeen,
    OperatorAnswered,
    OperatorAsked,
    ThreadClosed,
    ThreadOpened,
    TurnSteered,
)
from lifebus_adapters.shared.telemetry import Compacted, TurnEnded, TurnStarted
from lifebus_broker.state.degradation import Cause
from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import (
    CWD,
    GIT_BRANCH,
    PROCESS,
    TITLE,
    WAITING,
    WAITING_ENDED_BY,
    WAITING_FOR,
    WAITING_ID,
    WAITING_KIND,
    WAITING_SINCE,
)
from lifebus_broker.state.telemetry_keys import SOURCE as FROM
from lifebus_broker.state.waiting import BEGUN, ENDED, INPUT, PERMISSION
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.monitor.deferred import SOURCE, DeferredFact
from lifebus_supervisor.supervision.monitor.process import process_text
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.turns import EndSeen
from lifebus_supervisor.supervision.rules.endings import closed_turn, frame_closings, turn_end
from lifebus_supervisor.supervision.rules.evaluation import proved_compactions
from lifebus_supervisor.supervision.rules.findings import GRACE_TICKS, SupervisionFinding, tick_finding
from lifebus_supervisor.supervision.rules.reopening import resumed_starts

_MOVED: Final = "the thread was resumed in another app-server"
_FOLLOWED: Final = "another turn of the thread began"


def leaves_to_hooks(monitor: SessionMonitor, *, expected: bool) -> bool:
    """Whether hooks report a session, or will: they came, or are `expected`, and are not known to be silent."""
    # hooks that are installed may still not run: then nobody but the app-server reports
    silent = any(one.cause == Cause.HOOKS_SILENT.value for one in monitor.state.lost)
    return (monitor.is_hooked or expected) and not silent


def findings_of(
    monitor: SessionMonitor, fact: AppServerFact, mark: str, *, moved: bool = False
) -> list[SupervisionFinding]:
    """Return what is to be recorded of a fact now; token counts, and what hooks report, are left to the monitor.

    `mark` says which fact it is of all that were reported, `moved` that the session's process is not the known one.
    """
    found: Iterable[SupervisionFinding] = ()
    if monitor.state.ended and not isinstance(fact, ThreadOpened | TurnStarted):
        return []  # it is of the life that is over
    match fact:
        case ThreadOpened():
            found = _opened(monitor, fact, mark, moved=moved)
        case ThreadClosed():
            found = _closed(monitor, fact)
        case TurnStarted():
            found = _turn_started(monitor, fact)
        case TurnEnded() if fact.frame_id is not None:
            found = turn_end(monitor, fact.frame_id, EndSeen(fact, SOURCE, 0))
        case Compacted():
            found = proved_compactions(monitor)
        case ErrorSeen():
            seen = tick_finding(**fact.details, **{FROM: f"{SOURCE}:error"})
            found = [_in_frame(seen, fact.frame_id, f"error:{fact.key}")]
        case OperatorAsked() | OperatorAnswered():
            found = [_operator(fact)]
        case TurnSteered():
            found = [_steered(fact, mark)]
        case _:
            pass
    return list(found)


def due(
    monitor: SessionMonitor, tick: int, *, to_hooks: bool
) -> tuple[tuple[DeferredFact, ...], tuple[DeferredFact, ...]]:
    """Return which of the deferred facts are to be decided now, and which wait on.

    Those that a hook reported are gone.  All others are due where hooks have turned out to be silent; else the end of a
    thread takes with it what came before, once the hook had its time.
    """
    waiting = monitor.held_back
    if not to_hooks:
        return waiting, ()
    ends = [number for number, one in enumerate(waiting) if isinstance(one.fact, ThreadClosed)]
    ripe = [number for number in ends if tick - waiting[number].tick >= GRACE_TICKS]
    # up to the last ripe end: what came before it can be in no hook any more
    until = ripe[-1] + 1 if ripe else 0
    return waiting[:until], waiting[until:]


def gap(messages: int | None, missed: int, mark: str) -> SupervisionFinding:
    """Return that an observer could not see this many messages and bytes; None where nobody knows how many."""
    facts: dict[str, Any] = {FROM: SOURCE, "missed_messages": messages, "missed_bytes": missed}
    return SupervisionFinding(event=LifecycleEvent.RECEIPT_GAP_DETECTED, telemetry=facts, key=f"lost:{mark}")


def _opened(monitor: SessionMonitor, fact: ThreadOpened, mark: str, *, moved: bool) -> list[SupervisionFinding]:
    """Return that a session began; a thread is started only once, and may be resumed very often."""
    if monitor.state.started and not (moved and fact.how == "resumed"):
        return []
    facts: dict[str, Any] = {FROM: f"{SOURCE}:{fact.method}", "thread": fact.how}
    if fact.model is not None:
        facts["model"] = fact.model[:128]
    said = {CWD: fact.cwd, GIT_BRANCH: fact.git_branch, TITLE: fact.title}
    facts |= {name: value for name, value in said.items() if value is not None}
    if monitor.process.harness is not None:
        facts[PROCESS] = process_text(
            monitor.process.harness
        )  # so that a broker which starts again knows who must be alive
    left = frame_closings(monitor, _MOVED, SOURCE) if moved else iter(())
    key = f"resumed:{mark}" if fact.how == "resumed" else "started:"
    return [*left, SupervisionFinding(event=LifecycleEvent.SESSION_STARTED, telemetry=facts, key=key)]


def _closed(monitor: SessionMonitor, fact: ThreadClosed) -> list[SupervisionFinding]:
    if monitor.state.last_event is None or monitor.state.ended:
        return []
    facts: dict[str, Any] = {"session_end": fact.how, "evidence": fact.evidence, FROM: SOURCE, **fact.details}
    return [
        *frame_closings(monitor, fact.evidence, SOURCE),
        SupervisionFinding(event=LifecycleEvent.SESSION_ENDED, telemetry=facts),
    ]


def _turn_started(monitor: SessionMonitor, fact: TurnStarted) -> Iterator[SupervisionFinding]:
    if fact.frame_id is None or fact.frame_id in monitor.state.turns:
        return
    if monitor.state.ended:
        yield from resumed_starts("a turn", f"{SOURCE}:turn/started")
    for old in monitor.state.frames:
        if old.parent is None:
            yield from closed_turn(monitor, old, _FOLLOWED, SOURCE)
    facts: dict[str, Any] = {FROM: f"{SOURCE}:turn/started"} | ({"compacting": True} if fact.compacting else {})
    opening = SupervisionFinding(event=LifecycleEvent.FRAME_OPENED, telemetry=facts)
    yield _in_frame(opening, fact.frame_id, f"opened:{fact.frame_id}")


def _operator(fact: OperatorAsked | OperatorAnswered) -> SupervisionFinding:
    """Return a question to a person, or what became of it: never what it says."""
    answer = fact if isinstance(fact, OperatorAnswered) else None
    outcome = "asked" if answer is None else answer.outcome
    finding = tick_finding(
        operator=outcome,
        operator_kind=fact.kind,
        method=fact.method,
        request_id=fact.request_id,
        item_id=fact.item_id,
        decision=None if answer is None else answer.decision,
        waited_ms=None if answer is None else answer.waited_ms,
        **_wait_facts(fact),
        answered_by=None if answer is None else answer.by,
        **{FROM: SOURCE},
    )
    number = f"{type(fact.request_id).__name__}:{fact.request_id}"
    return _in_frame(finding, fact.frame_id, f"operator:{outcome}:{fact.frame_id}:{fact.item_id}:{number}")


def _wait_facts(fact: OperatorAsked | OperatorAnswered) -> dict[str, Any]:
    """Return the facts of the wait that a question to a person begins, or what becomes of it ends."""
    asked_at_ms = fact.at_ms if isinstance(fact, OperatorAsked) else fact.asked_at_ms
    return {
        WAITING: BEGUN if isinstance(fact, OperatorAsked) else ENDED,
        WAITING_FOR: PERMISSION if fact.kind.endswith("_approval") else INPUT,
        WAITING_KIND: fact.kind,
        # The number alone comes again: with the turn before it it does not.
        WAITING_ID: f"{fact.frame_id}:{fact.request_id}"[:256],
        WAITING_SINCE: asked_at_ms,
        WAITING_ENDED_BY: fact.outcome if isinstance(fact, OperatorAnswered) else None,
    }


def _steered(fact: TurnSteered, mark: str) -> SupervisionFinding:
    """Return that lifebus sent the server a request of its own, and for whom: never what it says."""
    finding = tick_finding(steered=fact.method, steered_by=fact.by, request_id=fact.request_id, **{FROM: SOURCE})
    return _in_frame(finding, fact.frame_id, f"steered:{mark}")


def _in_frame(finding: SupervisionFinding, frame_id: str | None, key: str) -> SupervisionFinding:
    frame = None if frame_id is None else OpenFrame(frame_id=frame_id, task=frame_id)
    return SupervisionFinding(event=finding.event, telemetry=finding.telemetry, frame=frame, key=key)
