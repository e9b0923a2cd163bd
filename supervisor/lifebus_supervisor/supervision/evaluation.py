"""What follows from what is known of a session: pressure, compactions, frames and sessions that nobody closed.

Every function looks at one watch and returns findings; none of them asks a clock, a file or a process.  A finding that
becomes a receipt changes the fold, so that the next look finds nothing new: nothing is ever said twice.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from msgspec import Struct

from lifebus_broker.routing.claims import claim_of
from lifebus_broker.state.pressure import Thresholds, next_level, percent_of
from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import LEVEL, SOURCE, USED
from lifebus_contract import AdapterManifest, Degradation, LifecycleEvent, SupportState
from lifebus_contract.fields import FactValue
from lifebus_supervisor.supervision.session_monitor import EndSeen, SessionMonitor

GRACE_TICKS: Final = 2
"""How many ticks a hook may lag behind a file that tells the same, and a session's end behind its process's."""


_AWAKE_S: Final = 3_600
"""For how long silence must have been watched, in seconds: the wall clock jumps, and who slept heard nobody."""

LEFT_OPEN: Final = "the session ended while the frame was open"
"""The evidence for a frame's end where the session's own end is all there is."""


class Moment(Struct, frozen=True, kw_only=True):
    """When a look is taken: the tick's number, monotonic seconds, and wall-clock seconds, which are data only."""

    tick: int
    now: float
    epoch_s: int


class Finding(Struct, frozen=True, kw_only=True):
    """A fact that is to be recorded.

    `frame` is the frame it is about, `key` what makes it the same fact when it is found again.
    """

    event: LifecycleEvent
    telemetry: dict[str, Any]
    frame: OpenFrame | None = None
    key: str | None = None
    degradations: tuple[Degradation, ...] = ()


def judge(
    watch: SessionMonitor,
    manifest: AdapterManifest,
    moment: Moment,
    thresholds: Thresholds,
    *,
    alive: bool | None,
    abandon_s: int,
) -> list[Finding]:
    """Return what is to be recorded of a session now.

    `alive` says whether the harness's process lives, None where nobody can tell; `abandon_s` is how long a session
    whose process is unknown may be silent before it counts as abandoned.
    """
    end = _end_of(watch, moment, alive=alive, abandon_s=abandon_s)
    if end is not None:
        return [*closings(watch, end), *([] if watch.state.ended else [session_end(watch, end)])]
    measured = [*pressure_change(watch, moment, thresholds), *_compactions(watch, manifest, moment)]
    if watch.state.ended:  # what its files tell late is still true
        left = [one for one in closings(watch, LEFT_OPEN) if one.frame and one.frame.frame_id in watch.state.left]
        return [*left, *measured]
    ends = {finding.key: finding for finding in (*_superseded(watch), *_ended_turns(watch, moment))}
    return [*measured, *ends.values()]


def pressure_facts(watch: SessionMonitor) -> dict[str, Any]:
    """Return the newest numbers as receipts carry them, nulls where nothing is known (docs/contract.md 2.5)."""
    usage, (window, window_source) = watch.usage, _window(watch)
    used = None if usage is None else usage.used_tokens
    facts: dict[str, Any] = {
        USED: used,
        "context_window_tokens": window,
        "context_used_pct": None if used is None else percent_of(used, window),
    }
    if usage is not None:
        facts["used_source"] = usage.used_source
        if usage.model is not None:
            facts["model"] = usage.model[:128]
    if window_source is not None:
        facts["window_source"] = window_source
    return facts


def closings(watch: SessionMonitor, evidence: str, source: str = "supervisor") -> Iterator[Finding]:
    """Yield the ends of all open frames, the innermost first; what a file shows of an end goes before `evidence`."""
    for frame in reversed(watch.state.frames):
        seen = watch.ended.get(frame.frame_id)
        if seen is None:
            yield _closing(frame, "abandoned", evidence, source)
        else:
            yield _closing(frame, seen.fact.frame_end, _shown(seen), seen.source, seen.fact.details)


def session_end(watch: SessionMonitor, evidence: str) -> Finding:
    """Return the end of a session that no hook of its own told of."""
    how = "abandoned" if watch.disposed is None else "completed"
    facts = {"session_end": how, "evidence": evidence, SOURCE: "supervisor"}
    return Finding(event=LifecycleEvent.SESSION_ENDED, telemetry=facts)


def with_children(frames: tuple[OpenFrame, ...], frame_id: str) -> list[OpenFrame]:
    """Return a frame and all that stand in it, the innermost first."""
    inside = {frame_id}
    for frame in frames:
        if frame.parent in inside:
            inside.add(frame.frame_id)
    return [frame for frame in reversed(frames) if frame.frame_id in inside]


def _end_of(watch: SessionMonitor, moment: Moment, *, alive: bool | None, abandon_s: int) -> str | None:
    """Return the evidence that a session is over though nobody said so; None as long as there is none."""
    if not watch.is_live or not watch.loaded:
        return None
    if watch.disposed is not None:
        return watch.disposed
    if alive is True:
        watch.dead_ticks = 0
        return None
    if alive is False:
        watch.dead_ticks += 1
        pid = watch.process.pid if watch.process is not None else 0
        return f"process {pid} is gone, and no hook told of the end" if watch.dead_ticks >= GRACE_TICKS else None
    silent_s = moment.epoch_s - watch.state.last_at_epoch_s
    grown = watch.grown_at is not None and moment.now - watch.grown_at < abandon_s
    awake = moment.now - max(watch.heard_at or 0.0, watch.loaded_at) >= min(abandon_s, _AWAKE_S)
    known = watch.process is not None or watch.state.last_event is None
    if not known and silent_s >= abandon_s and not grown and awake:
        return f"nothing was heard for {silent_s} s, and the process is unknown"
    return None


def pressure_change(watch: SessionMonitor, moment: Moment, thresholds: Thresholds) -> Iterator[Finding]:
    """Yield a change of level; where no window is told of in time, the first numbers only."""
    usage, (window, _) = watch.usage, _window(watch)
    if usage is None:
        return
    level = next_level(watch.state.level, usage.used_tokens, window, thresholds)
    if watch.state.measured and level in {None, watch.state.level}:
        return
    if level is None and moment.tick - (watch.usage_tick or 0) < GRACE_TICKS:
        return  # a hook tells its numbers before the file tells the window
    facts = {LEVEL: None if level is None else level.value, SOURCE: usage.used_source, **pressure_facts(watch)}
    yield Finding(event=LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, telemetry=facts)


def _window(watch: SessionMonitor) -> tuple[int | None, str | None]:
    """Return the window and its source: what the user set, then what the harness told, then what the file gives."""
    usage, told = watch.usage, watch.window
    if usage is not None and (usage.window_source or "").startswith("override"):
        return usage.window_tokens, usage.window_source
    if told is not None:
        return told
    if usage is not None and usage.window_tokens:
        return usage.window_tokens, usage.window_source
    return watch.seen_window or (None, None)


def _compactions(watch: SessionMonitor, manifest: AdapterManifest, moment: Moment) -> Iterator[Finding]:
    """Yield the compactions that files prove and no hook told of, after the hook had its time."""
    if watch.untold <= 0:
        watch.proof_tick = None
        return
    if watch.hooked and claim_of(manifest, "event:context.compacted") is SupportState.NATIVE:
        watch.proof_tick = moment.tick if watch.proof_tick is None else watch.proof_tick
        if moment.tick - watch.proof_tick < GRACE_TICKS:
            return
    yield from proved_compactions(watch)


def proved_compactions(watch: SessionMonitor) -> Iterator[Finding]:
    """Yield the compactions that are proved and not recorded."""
    for key, proof in watch.unrecorded().items():
        known = {
            "trigger": proof.fact.trigger,
            "tokens_before": proof.fact.tokens_before,
            "tokens_after": proof.fact.tokens_after,
        }
        facts = {SOURCE: proof.source} | {name: value for name, value in known.items() if value is not None}
        yield Finding(event=LifecycleEvent.CONTEXT_COMPACTED, telemetry=facts, key=f"compacted:{key}"[:256])


def _ended_turns(watch: SessionMonitor, moment: Moment) -> Iterator[Finding]:
    """Yield the ends of frames that the telemetry shows and no hook told of, after the hook had its time."""
    open_now = {frame.frame_id for frame in watch.state.frames}
    for frame_id, seen in list(watch.ended.items()):
        if frame_id not in open_now:
            del watch.ended[frame_id]
        elif moment.tick - seen.tick >= GRACE_TICKS:
            yield from turn_end(watch, frame_id, seen)


def turn_end(watch: SessionMonitor, frame_id: str, seen: EndSeen) -> Iterator[Finding]:
    """Yield the ends of a frame and of what still stands in it, the innermost first."""
    for frame in with_children(watch.state.frames, frame_id):
        if frame.frame_id == frame_id:
            yield _closing(frame, seen.fact.frame_end, _shown(seen), seen.source, seen.fact.details)
        else:
            yield _closing(frame, "abandoned", _shown(seen), seen.source)


def _superseded(watch: SessionMonitor) -> Iterator[Finding]:
    """Yield the ends of frames that another one has followed: a harness that calls hooks runs one turn at a time.

    A session that is open in two processes may have two.
    """
    alone = [frame for frame in watch.state.frames if frame.parent is None]
    if not watch.hooked or watch.app or watch.beside:
        return
    for old in alone[:-1]:
        if old.frame_id not in watch.ended:
            yield from left_behind(watch, old, "another frame opened, and no hook told of the end")


def left_behind(watch: SessionMonitor, old: OpenFrame, evidence: str, source: str = "supervisor") -> Iterator[Finding]:
    """Yield the ends of a frame that nobody told the end of, and of what stands in it."""
    for frame in with_children(watch.state.frames, old.frame_id):
        yield _closing(frame, "abandoned", evidence, source)


def _shown(seen: EndSeen) -> str:
    return seen.fact.evidence or f"the {seen.source} shows the end of the turn"


def _closing(
    frame: OpenFrame, how: str, evidence: str, source: str, details: Mapping[str, FactValue] | None = None
) -> Finding:
    return Finding(
        event=LifecycleEvent.FRAME_ENDED,
        telemetry={"frame_end": how, "evidence": evidence[:512], SOURCE: source, **(details or {})},
        frame=frame,
        key=f"closed:{frame.opened_at_epoch_s}:{frame.frame_id}"[:256],
    )
