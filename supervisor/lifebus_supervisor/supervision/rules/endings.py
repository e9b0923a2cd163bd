"""How frames and sessions end: every rule about ends (docs/supervision.md, "Ends").  Pure.

A stop hook announces the end of its frame; the end is recorded once it is settled.  Evidence of an end comes from
telemetry (`monitor.turns`), from an announcement, from the process, from the next frame, or from the session's own end.
Telemetry knows best how a turn ended, an announcement comes next; all other evidence says only that it is over.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct, structs

from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import SOURCE
from lifebus_contract import IntegrationMode, LifecycleEvent
from lifebus_contract.fields import FactValue
from lifebus_supervisor.supervision.environment import SupervisorLimits
from lifebus_supervisor.supervision.monitor.deferred import is_closing
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.turns import EndSeen
from lifebus_supervisor.supervision.rules.findings import GRACE_TICKS, Moment, SupervisionFinding

LEFT_OPEN: Final = "the session ended while the frame was open"
"""The evidence for a frame's end where the session's own end is all there is."""

_NEXT_PROMPT: Final = "the next prompt came"
_SESSION_ENDED: Final = "the session ended"
_SUPERSEDED: Final = "another frame opened, and no hook reported the end"
_NO_WORK: Final = "the session ended, and nothing shows whether the frame's prompt was taken"
_RUNNING_S: Final = 60.0
"""How much longer silence has to be where a turn's file should have shown its end and has not, in seconds."""
_AWAKE_S: Final = 3_600
"""For how long silence must have been supervised, in seconds: the wall clock jumps, and a machine may have slept."""


class SessionEnd(Struct, frozen=True, kw_only=True):
    """That a session is over: how, what shows it, and who.

    It is `orderly` where the harness ended it by itself, and not killed; `announced` where a hook of it said so.
    """

    how: str
    evidence: str
    source: str = "supervisor"
    facts: Mapping[str, FactValue] = {}
    metadata: dict[str, Any] = {}
    orderly: bool = True
    announced: bool = False


def session_end(
    monitor: SessionMonitor, moment: Moment, *, alive: bool | None, limits: SupervisorLimits
) -> SessionEnd | None:
    """Return how a session is over, None as long as nothing shows that it is.

    `alive` says whether the harness's process lives, None where that is unknown; the `limits` are how long silence
    has to last, and how long an announced end waits for telemetry to show how open frames ended.
    """
    if monitor.has_end_under_way(moment.monotonic_s):
        return None
    if not monitor.is_live or not monitor.loaded or not monitor.is_on_record:
        return None
    if monitor.ending is not None:
        return announced_session_end(monitor) if _is_settled(monitor, moment, limits.settle_s) else None
    if monitor.process.exit_evidence is not None:
        return SessionEnd(how="completed", evidence=monitor.process.exit_evidence)
    return _unannounced_end(monitor, moment, alive=alive, limits=limits)


def _unannounced_end(
    monitor: SessionMonitor, moment: Moment, *, alive: bool | None, limits: SupervisorLimits
) -> SessionEnd | None:
    # The hook of an orderly end may still be on its way when file or process show the end already.
    closed = monitor.telemetry.closed
    if closed is not None and moment.tick - closed[1] >= GRACE_TICKS:
        return SessionEnd(how="completed", evidence=closed[0], source="telemetry")
    if is_closing(monitor.deferred):
        return None  # its app-server's own word comes when it is due
    if alive is None:
        return _idle_end(monitor, moment, limits.idle_s) or _silent_end(monitor, moment, limits.abandon_s)
    return dead_end(monitor) if not alive and monitor.process.dead_ticks >= GRACE_TICKS else None


def announced_session_end(monitor: SessionMonitor) -> SessionEnd | None:
    """Return the end that a hook announced, None where none did."""
    how, ending = monitor.state.announced_end, monitor.ending
    if how is None:
        return None
    evidence = "its harness announced the end"
    if ending is None:
        return SessionEnd(how=how, evidence=evidence, announced=True)
    source, facts, metadata = ending.source, ending.facts, ending.metadata
    return SessionEnd(how=how, evidence=evidence, source=source, facts=facts, metadata=metadata, announced=True)


def dead_end(monitor: SessionMonitor) -> SessionEnd:
    """Return the end of a session whose process is gone: killed in a frame, or gone when nothing was open."""
    closed, process = monitor.telemetry.closed, monitor.process.harness
    if closed is not None:
        return SessionEnd(how="completed", evidence=closed[0], source="telemetry")
    pid = 0 if process is None else process.pid
    how = "abandoned" if _was_at_work(monitor) else "process_gone"
    return SessionEnd(how=how, evidence=f"process {pid} is gone, and no hook reported the end", orderly=False)


def has_unsettled_frames(monitor: SessionMonitor) -> bool:
    """Whether a frame is open of which nothing shows how it ended."""
    over = {*monitor.turns.ends, *_superseded_frames(monitor)}
    open_frames = (frame for frame in monitor.state.frames if over.isdisjoint({frame.frame_id, frame.parent}))
    return any(not monitor.turns.is_announced(frame) for frame in open_frames)


def _was_at_work(monitor: SessionMonitor) -> bool:
    """Whether a frame is open that its file shows at work, or of which nothing shows how it ended."""
    running = monitor.turns.running
    return has_unsettled_frames(monitor) or any(frame.frame_id == running for frame in monitor.state.frames)


def _is_settled(monitor: SessionMonitor, moment: Moment, settle_s: float) -> bool:
    """Whether an announced end of a session can be recorded: its files are read, and show how its frames ended."""
    ending = monitor.ending
    if ending is None or not ending.is_read:
        return False
    return not has_unsettled_frames(monitor) or moment.monotonic_s - ending.at >= settle_s


def _idle_end(monitor: SessionMonitor, moment: Moment, idle_s: int) -> SessionEnd | None:
    """Return the end of a session known by its telemetry alone, whose last turn is over and that has been quiet since.

    No hook and no process will ever show its end; a turn that begins in its file opens it again.
    """
    if not monitor.is_unreported or not monitor.turns.is_over or monitor.state.frames:
        return None
    quiet_s = moment.monotonic_s - max(monitor.telemetry.grown_at or 0.0, monitor.loaded_at)
    if quiet_s < idle_s:
        return None
    evidence = f"its last turn is over in its file, nothing came for {quiet_s:.0f} s, and no hook reports on it"
    return SessionEnd(how="silent", evidence=evidence, source="telemetry")


def _silent_end(monitor: SessionMonitor, moment: Moment, abandon_s: int) -> SessionEnd | None:
    """Return the end of a session whose process is unknown and that has been silent for too long."""
    if monitor.process.harness is not None:
        return None
    silent_s = moment.epoch_s - monitor.state.last_at_epoch_s
    grown_at = monitor.telemetry.grown_at
    grows = grown_at is not None and moment.monotonic_s - grown_at < abandon_s
    supervised_s = moment.monotonic_s - max(monitor.hooks.reported_at or 0.0, monitor.loaded_at)
    if silent_s < abandon_s or grows or supervised_s < min(abandon_s, _AWAKE_S):
        return None
    how = "abandoned" if _was_at_work(monitor) else "silent"
    return SessionEnd(how=how, evidence=f"nothing came for {silent_s} s, and the process is unknown", orderly=False)


def session_closings(monitor: SessionMonitor, end: SessionEnd) -> list[SupervisionFinding]:
    """Return the end of a session that is over, and before it those of its open frames."""
    evidence = LEFT_OPEN if end.orderly else end.evidence
    closings = list(frame_closings(monitor, evidence, orderly=end.orderly, killed=not end.orderly))
    if monitor.state.ended:
        return closings
    facts = {**end.facts, "session_end": end.how, "evidence": end.evidence[:512], SOURCE: end.source}
    mode = IntegrationMode.NATIVE_HOOK if end.announced else None
    ended = SupervisionFinding(event=LifecycleEvent.SESSION_ENDED, telemetry=facts, metadata=end.metadata, mode=mode)
    return [*closings, ended]


def frame_closings(
    monitor: SessionMonitor,
    evidence: str,
    source: str = "supervisor",
    *,
    orderly: bool = False,
    killed: bool = False,
) -> Iterator[SupervisionFinding]:
    """Yield the ends of all open frames, the innermost first; what is known of an end goes before the `evidence`.

    In a session that was `killed` a turn that its file shows at work has not ended as announced.  After an `orderly`
    end of the session a frame whose prompt nobody saw taken is not known to be abandoned: another hook may have refused
    its prompt.
    """
    superseded = set(_superseded_frames(monitor))
    for frame in reversed(monitor.state.frames):
        at_work = killed and monitor.turns.running == frame.frame_id
        known = None if at_work else _known_end(monitor, frame, _SESSION_ENDED if orderly else evidence)
        if known is not None:
            yield known
        elif orderly and frame.frame_id not in superseded and not _was_taken(monitor, frame):
            yield _frame_end(frame, "unknown", _NO_WORK, source, {})
        else:
            yield _frame_end(frame, "abandoned", evidence, source, {})


def _was_taken(monitor: SessionMonitor, frame: OpenFrame) -> bool:
    """Whether anything shows that a frame was at work: its file, an end that was announced, a frame inside it."""
    if frame.parent is not None or frame.announced or frame.frame_id in monitor.turns.taken:
        return True
    return any(other.parent == frame.frame_id for other in monitor.state.frames)


def overdue_closings(monitor: SessionMonitor) -> list[SupervisionFinding]:
    """Return the ends of frames that the session's recorded end left open."""
    left = monitor.state.left
    return [one for one in frame_closings(monitor, LEFT_OPEN) if one.frame and one.frame.frame_id in left]


def turn_endings(monitor: SessionMonitor, moment: Moment, settle_s: float) -> list[SupervisionFinding]:
    """Return the ends of turns in a session that goes on: settled, superseded, and shown by telemetry."""
    endings = {
        one.key: one
        for one in (
            *_superseded(monitor),
            *_settled_by_silence(monitor, moment, settle_s),
            *_shown_turn_ends(monitor, moment),
        )
    }
    # Another client's frame.ended may have come since; a frame's end is found once, the innermost first.
    order = {frame.frame_id: number for number, frame in enumerate(monitor.state.frames)}
    return sorted(endings.values(), key=lambda one: -order.get(one.frame.frame_id if one.frame else "", -1))


def settled_by_prompt(monitor: SessionMonitor, frame_id: str) -> list[SupervisionFinding]:
    """Return the ends that the prompt of another frame settles, the innermost first."""
    found: list[SupervisionFinding] = []
    for frame in monitor.state.frames:
        if frame.parent is None and frame.frame_id != frame_id and _known_end(monitor, frame, _NEXT_PROMPT):
            found += closed_turn(monitor, frame, _NEXT_PROMPT)
    return found


def ended_before_prompt(frame: OpenFrame) -> SupervisionFinding:
    """Return the announced end of a frame that seemed to go on: the prompt was one of a turn of its own."""
    return _frame_end(frame, "completed", f"its end was announced, and {_NEXT_PROMPT}", "supervisor", {})


def children_ended(monitor: SessionMonitor, frame_id: str, evidence: str) -> list[SupervisionFinding]:
    """Return the announced ends of the frames that stand in a frame whose own end is announced now."""
    inner = [frame for frame in with_children(monitor.state.frames, frame_id) if frame.frame_id != frame_id]
    ends = [_known_end(monitor, frame, evidence) for frame in inner]
    return [end for end in ends if end is not None]


def turn_end(monitor: SessionMonitor, frame_id: str, seen: EndSeen) -> Iterator[SupervisionFinding]:
    """Yield the ends of a frame and of what still stands in it, the innermost first."""
    evidence = _evidence_of(seen)
    for frame in with_children(monitor.state.frames, frame_id):
        if frame.frame_id == frame_id:
            yield _known_end(monitor, frame, evidence) or _shown_end(frame, seen)
        else:
            yield _known_end(monitor, frame, evidence) or _frame_end(frame, "abandoned", evidence, seen.source, {})


def closed_turn(
    monitor: SessionMonitor, frame: OpenFrame, evidence: str, source: str = "supervisor"
) -> Iterator[SupervisionFinding]:
    """Yield the ends of a frame that is over, and of what stands in it: as they are known, else `abandoned`."""
    for inner in with_children(monitor.state.frames, frame.frame_id):
        yield _known_end(monitor, inner, evidence) or _frame_end(inner, "abandoned", evidence, source, {})


def with_children(frames: tuple[OpenFrame, ...], frame_id: str) -> list[OpenFrame]:
    """Return a frame and all that stand in it, the innermost first."""
    inside = {frame_id}
    for frame in frames:  # a frame opens after the one around it, so one pass finds all
        if frame.parent in inside:
            inside.add(frame.frame_id)
    return [frame for frame in reversed(frames) if frame.frame_id in inside]


def settles_at(monitor: SessionMonitor, settle_s: float) -> float | None:
    """Return when the next announced end is settled by silence, in monotonic seconds; None where none waits."""
    moments = [at + settle_s for frame in monitor.state.frames if (at := _quiet_since(monitor, frame)) is not None]
    if monitor.ending is not None:
        moments.append(monitor.ending.at + settle_s if monitor.ending.is_read else monitor.ending.at)
    return min(moments, default=None)


def _quiet_since(monitor: SessionMonitor, frame: OpenFrame) -> float | None:
    """Return since when an announced frame shows no sign of life; None where it is not announced, or goes on."""
    turns, grown_at = monitor.turns, monitor.telemetry.grown_at
    if not turns.is_announced(frame):
        return None
    if any(other.parent == frame.frame_id for other in monitor.state.frames):
        return None  # what goes on inside it is a sign of life
    announced = turns.announced.get(frame.frame_id)
    since = monitor.loaded_at if announced is None else announced.at
    # The session's file shows the turn at work, and nothing of a sub-agent.
    quiet = since if frame.parent is not None or grown_at is None else max(since, grown_at)
    # Between two attempts of one turn a harness may wait for long; its file says when it is over.
    return quiet + _RUNNING_S if turns.running == frame.frame_id else quiet


def _settled_by_silence(monitor: SessionMonitor, moment: Moment, settle_s: float) -> Iterator[SupervisionFinding]:
    """Yield the announced ends behind which nothing came for the settle time."""
    for frame in monitor.state.frames:
        since = _quiet_since(monitor, frame)
        if since is not None and moment.monotonic_s - since >= settle_s:
            known = _known_end(monitor, frame, f"nothing came for {settle_s:g} s")
            if known is not None:
                yield known


def _shown_turn_ends(monitor: SessionMonitor, moment: Moment) -> Iterator[SupervisionFinding]:
    """Yield the ends of open frames that telemetry shows; an unannounced one once its hook had its time."""
    for frame in monitor.state.frames:
        seen = monitor.turns.ends.get(frame.frame_id)
        if seen is None:
            continue
        if monitor.turns.is_announced(frame) or moment.tick - seen.tick >= GRACE_TICKS:
            yield from turn_end(monitor, frame.frame_id, seen)


def _superseded(monitor: SessionMonitor) -> Iterator[SupervisionFinding]:
    """Yield the ends of frames that another one has followed, where telemetry does not show them."""
    superseded = _superseded_frames(monitor)
    for frame in monitor.state.frames:
        if frame.frame_id in superseded and frame.frame_id not in monitor.turns.ends:
            yield from closed_turn(monitor, frame, _SUPERSEDED)


def _superseded_frames(monitor: SessionMonitor) -> list[str]:
    """Return the frames that another one has followed: a harness that calls hooks runs one turn at a time."""
    # Apps may run several turns at once, and a session that is open in two processes may have two.
    if not monitor.is_hooked or monitor.hooks.by_app or monitor.process.others:
        return []
    # What another client opens is no turn of the harness: it ends none, and no turn ends it.
    by_clients, newest = monitor.turns.by_clients, monitor.turns.last_opened
    own = [one.frame_id for one in monitor.state.frames if one.parent is None and one.frame_id not in by_clients]
    # The newest one may be over already.
    return own[:-1] if newest is None or newest in own else own


def _known_end(monitor: SessionMonitor, frame: OpenFrame, evidence: str) -> SupervisionFinding | None:
    """Return a frame's end as telemetry shows it or its harness announced it; None where neither says anything."""
    seen, announced = monitor.turns.ends.get(frame.frame_id), monitor.turns.announced.get(frame.frame_id)
    found: SupervisionFinding | None = None
    if seen is not None:
        found = _shown_end(frame, seen)
    elif frame.announced_end is not None and monitor.turns.is_announced(frame):
        found = _frame_end(frame, frame.announced_end, f"its end was announced, and {evidence}", "supervisor", {})
    if found is None or announced is None or announced.metadata is None:
        return found
    # What clients are asked about is the hook's: that a hook reported it just now, and where the harness works.
    return structs.replace(found, metadata=announced.metadata, mode=IntegrationMode.NATIVE_HOOK)


def _shown_end(frame: OpenFrame, seen: EndSeen) -> SupervisionFinding:
    return _frame_end(frame, seen.fact.frame_end, _evidence_of(seen), seen.source, seen.fact.details)


def _evidence_of(seen: EndSeen) -> str:
    return seen.fact.evidence or f"the {seen.source} shows the end of the turn"


def _frame_end(
    frame: OpenFrame, how: str, evidence: str, source: str, details: Mapping[str, FactValue]
) -> SupervisionFinding:
    return SupervisionFinding(
        event=LifecycleEvent.FRAME_ENDED,
        telemetry={"frame_end": how, "evidence": evidence[:512], SOURCE: source, **details},
        frame=frame,
        # A frame that is opened again under its id is another one: its place distinguishes the two, also in one second.
        key=f"closed:{frame.position}:{frame.frame_id}"[:256],
    )
