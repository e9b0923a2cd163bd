"""How frames and sessions end whose end no hook reported: every rule about ends.  Pure.

Evidence of an end comes from telemetry (`monitor.turns`), from the process, from the next frame, or from the session's
own end.  Telemetry knows best how a turn ended; all other evidence says only that it is over.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import SOURCE
from lifebus_contract import LifecycleEvent
from lifebus_contract.fields import FactValue
from lifebus_supervisor.supervision.findings import GRACE_TICKS, Moment, SupervisionFinding
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.turns import EndSeen

LEFT_OPEN: Final = "the session ended while the frame was open"
"""The evidence for a frame's end where the session's own end is all there is."""

_SUPERSEDED: Final = "another frame opened, and no hook told of the end"

_AWAKE_S: Final = 3_600
"""For how long silence must have been supervised, in seconds: the wall clock jumps, and a machine may have slept."""


def end_evidence(monitor: SessionMonitor, moment: Moment, *, alive: bool | None, abandon_s: int) -> str | None:
    """Return the evidence that a session is over though nobody said so; None as long as there is none.

    `alive` says whether the harness's process lives, None where that is unknown; `abandon_s` is how long a session
    whose process is unknown may be silent before it counts as abandoned.
    """
    if not monitor.is_live or not monitor.loaded:
        return None
    process = monitor.process
    if process.exit_evidence is not None:
        return process.exit_evidence
    if alive is not None:
        # The hook of an orderly end may still be on its way when the process is gone already.
        if alive or process.dead_ticks < GRACE_TICKS:
            return None
        pid = 0 if process.harness is None else process.harness.pid
        return f"process {pid} is gone, and no hook told of the end"
    return _silence_evidence(monitor, moment, abandon_s)


def _silence_evidence(monitor: SessionMonitor, moment: Moment, abandon_s: int) -> str | None:
    """Return the evidence that a session whose process is unknown has been silent for too long."""
    if monitor.process.harness is not None or monitor.state.last_event is None:
        return None
    silent_s = moment.epoch_s - monitor.state.last_at_epoch_s
    grown_at = monitor.telemetry.grown_at
    grows = grown_at is not None and moment.monotonic_s - grown_at < abandon_s
    supervised_s = moment.monotonic_s - max(monitor.hooks.reported_at or 0.0, monitor.loaded_at)
    if silent_s < abandon_s or grows or supervised_s < min(abandon_s, _AWAKE_S):
        return None
    return f"nothing was heard for {silent_s} s, and the process is unknown"


def session_closings(monitor: SessionMonitor, evidence: str) -> list[SupervisionFinding]:
    """Return the ends of a session that is over, and before it those of its open frames."""
    closings = list(frame_closings(monitor, evidence))
    return closings if monitor.state.ended else [*closings, _session_end(monitor, evidence)]


def frame_closings(monitor: SessionMonitor, evidence: str, source: str = "supervisor") -> Iterator[SupervisionFinding]:
    """Yield the ends of all open frames, the innermost first; what telemetry shows of an end goes before `evidence`."""
    for frame in reversed(monitor.state.frames):
        seen = monitor.turns.ends.get(frame.frame_id)
        yield _abandoned(frame, evidence, source) if seen is None else _shown_end(frame, seen)


def overdue_closings(monitor: SessionMonitor) -> list[SupervisionFinding]:
    """Return the ends of frames that the session's recorded end left open; a frame that opened later is alive."""
    left = monitor.state.left
    return [one for one in frame_closings(monitor, LEFT_OPEN) if one.frame and one.frame.frame_id in left]


def turn_endings(monitor: SessionMonitor, moment: Moment) -> list[SupervisionFinding]:
    """Return the ends of turns in a session that goes on: superseded ones, and those that telemetry has shown.

    Each frame ends once; what telemetry shows of it goes before everything else.
    """
    endings = {one.key: one for one in (*_superseded(monitor), *_shown_turn_ends(monitor, moment))}
    return list(endings.values())


def turn_end(monitor: SessionMonitor, frame_id: str, seen: EndSeen) -> Iterator[SupervisionFinding]:
    """Yield the ends of a frame and of what still stands in it, the innermost first."""
    for frame in with_children(monitor.state.frames, frame_id):
        if frame.frame_id == frame_id:
            yield _shown_end(frame, seen)
        else:
            yield _abandoned(frame, _evidence_of(seen), seen.source)


def abandoned_turn(
    monitor: SessionMonitor, frame: OpenFrame, evidence: str, source: str = "supervisor"
) -> Iterator[SupervisionFinding]:
    """Yield the ends of a frame whose end nobody reported, and of what stands in it."""
    for inner in with_children(monitor.state.frames, frame.frame_id):
        yield _abandoned(inner, evidence, source)


def with_children(frames: tuple[OpenFrame, ...], frame_id: str) -> list[OpenFrame]:
    """Return a frame and all that stand in it, the innermost first."""
    inside = {frame_id}
    for frame in frames:  # a frame opens after the one around it, so one pass finds all
        if frame.parent in inside:
            inside.add(frame.frame_id)
    return [frame for frame in reversed(frames) if frame.frame_id in inside]


def _session_end(monitor: SessionMonitor, evidence: str) -> SupervisionFinding:
    """Return the end of a session that no hook of its own reported."""
    how = "abandoned" if monitor.process.exit_evidence is None else "completed"
    facts = {"session_end": how, "evidence": evidence, SOURCE: "supervisor"}
    return SupervisionFinding(event=LifecycleEvent.SESSION_ENDED, telemetry=facts)


def _shown_turn_ends(monitor: SessionMonitor, moment: Moment) -> Iterator[SupervisionFinding]:
    """Yield the ends of open frames that telemetry shows and no hook reported, after the hook had its time."""
    open_ids = {frame.frame_id for frame in monitor.state.frames}
    for frame_id, seen in monitor.turns.ends.items():
        if frame_id in open_ids and moment.tick - seen.tick >= GRACE_TICKS:
            yield from turn_end(monitor, frame_id, seen)


def _superseded(monitor: SessionMonitor) -> Iterator[SupervisionFinding]:
    """Yield the ends of frames that another one has followed: a harness that calls hooks runs one turn at a time."""
    # Apps may run several turns at once, and a session that is open in two processes may have two.
    if not monitor.is_hooked or monitor.hooks.by_app or monitor.process.others:
        return
    outermost = [frame for frame in monitor.state.frames if frame.parent is None]
    for frame in outermost[:-1]:
        if frame.frame_id not in monitor.turns.ends:
            yield from abandoned_turn(monitor, frame, _SUPERSEDED)


def _shown_end(frame: OpenFrame, seen: EndSeen) -> SupervisionFinding:
    return _frame_end(frame, seen.fact.frame_end, _evidence_of(seen), seen.source, seen.fact.details)


def _abandoned(frame: OpenFrame, evidence: str, source: str) -> SupervisionFinding:
    return _frame_end(frame, "abandoned", evidence, source, {})


def _evidence_of(seen: EndSeen) -> str:
    return seen.fact.evidence or f"the {seen.source} shows the end of the turn"


def _frame_end(
    frame: OpenFrame, how: str, evidence: str, source: str, details: Mapping[str, FactValue]
) -> SupervisionFinding:
    return SupervisionFinding(
        event=LifecycleEvent.FRAME_ENDED,
        telemetry={"frame_end": how, "evidence": evidence[:512], SOURCE: source, **details},
        frame=frame,
        # A frame that is opened again under its id is another one: its time distinguishes the two.
        key=f"closed:{frame.opened_at_epoch_s}:{frame.frame_id}"[:256],
    )
