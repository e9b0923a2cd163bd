"""Which turns telemetry shows beside those that receipts record, and which announced ends are not settled yet.  Pure.

The rules on what follows from an end stand in `supervision.endings`; here is only what was seen.
"""

from collections.abc import Collection, Sequence
from typing import Any

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Activity, Fact, TurnContinued, TurnEnded, TurnStarted, Usage
from lifebus_broker.state.session_state import OpenFrame


class EndSeen(Struct, frozen=True):
    """A turn's end that telemetry shows: which kind of source, and in which tick it was seen."""

    fact: TurnEnded
    source: str
    tick: int


class AnnouncedFrameEnd(Struct, frozen=True):
    """When a hook announced a frame's end, in monotonic seconds, and the hook's metadata for callback clients."""

    at: float
    metadata: dict[str, Any]


class TurnState(Struct, frozen=True, kw_only=True):
    """What telemetry shows of a session's turns, by frame id."""

    # Turns that only telemetry has shown to begin so far, each with the tick in which it was seen.
    unannounced: dict[str, int] = {}
    # Ends that telemetry shows of turns whose end is not on record.
    ends: dict[str, EndSeen] = {}
    # The turn that began last in the telemetry; None before the first one, and where it names none.
    newest: str | None = None
    # The turn that began last in a file that will show its end as well, until it does.
    running: str | None = None
    # How often telemetry showed that a turn went on after its end was announced.
    continued: dict[str, int] = {}
    # What a hook of this process announced of a frame's end.
    announced: dict[str, AnnouncedFrameEnd] = {}
    # The frames for whose continuation a prompt was taken that may have been one of a turn of its own.
    prompted: frozenset[str] = frozenset()
    # The open frames whose prompt was taken, as telemetry shows: the turn began there, or something worked.
    taken: frozenset[str] = frozenset()

    def is_announced(self, frame: OpenFrame) -> bool:
        """Whether an open frame's end was announced and it has not gone on since.

        Stops are counted against the times it went on: hooks and files report in no common order.
        """
        return frame.announced_end is not None and frame.announced > self.continued.get(frame.frame_id, 0)


def on_fact(  # noqa: PLR0917  what a fact of telemetry comes with
    state: TurnState,
    fact: Fact,
    source: str,
    tick: int,
    frames: Sequence[OpenFrame],
    turns: Collection[str],
    *,
    history: bool,
) -> TurnState:
    """Take one fact; `frames` are open on record, `turns` are the newest that opened there.

    `history` says that the fact stood in the file before anybody read it: then it shows no turn that begins now, and
    an end only of a frame that is open still.
    """
    match fact:
        case TurnStarted():
            is_unannounced = not history and not fact.compacting and fact.frame_id not in turns
            state = _with_prompt_taken(state, fact.frame_id or _newest_outermost(frames))
            if fact.frame_id is not None and is_unannounced:
                state = structs.replace(state, unannounced={fact.frame_id: tick, **state.unannounced})
            running = fact.frame_id if fact.reports_end else None
            if (state.newest, state.running) == (fact.frame_id, running):
                return state
            return structs.replace(state, newest=fact.frame_id, running=running)
        case TurnEnded():
            if state.running is not None and state.running == fact.frame_id:
                state = structs.replace(state, running=None)
            is_known = not history or any(frame.frame_id == fact.frame_id for frame in frames)
            return _with_end(state, EndSeen(fact, source, tick), frames) if is_known else state
        case TurnContinued():
            return _with_continuation(state, fact.frame_id or _newest_outermost(frames))
        case Activity() | Usage():
            return _with_prompt_taken(state, _newest_outermost(frames))
        case _:
            return state


def on_opened(state: TurnState, frame_id: str) -> TurnState:
    """Take that a frame's opening is on record."""
    if frame_id not in state.unannounced:
        return state
    return structs.replace(state, unannounced=_without(state.unannounced, frame_id))


def on_announced(state: TurnState, frame_id: str, announced: AnnouncedFrameEnd) -> TurnState:
    """Take that a hook has just announced the end of a frame."""
    return structs.replace(state, announced={**state.announced, frame_id: announced})


def on_announced_again(state: TurnState, frame_id: str, now: float) -> TurnState:
    """Take that a hook has repeated what is announced of a frame's end."""
    announced = state.announced.get(frame_id)
    if announced is None:
        return state
    return on_announced(state, frame_id, AnnouncedFrameEnd(at=now, metadata=announced.metadata))


def on_prompted(state: TurnState, frame_id: str) -> TurnState:
    """Take that a prompt came right after the announced end of a frame, and was taken for its continuation."""
    return structs.replace(state, prompted=state.prompted | {frame_id})


def on_hook(state: TurnState) -> TurnState:
    """Take a hook: what telemetry showed before no longer proves that hooks are silent."""
    return structs.replace(state, unannounced={}) if state.unannounced else state


def on_evaluation(state: TurnState, frames: Sequence[OpenFrame]) -> TurnState:
    """Forget what was seen of frames that are closed by now."""
    open_ids = {frame.frame_id for frame in frames}
    if {*state.ends, *state.continued, *state.announced, *state.taken, *state.prompted} <= open_ids:
        return state
    return structs.replace(
        state,
        ends={frame: end for frame, end in state.ends.items() if frame in open_ids},
        continued={frame: count for frame, count in state.continued.items() if frame in open_ids},
        announced={frame: end for frame, end in state.announced.items() if frame in open_ids},
        prompted=state.prompted & open_ids,
        taken=state.taken & open_ids,
    )


def _with_continuation(state: TurnState, frame_id: str | None) -> TurnState:
    if frame_id is None:
        return state
    continued = {**state.continued, frame_id: state.continued.get(frame_id, 0) + 1}
    # The file's word that a turn had ended is taken back by its word that it goes on.
    ends = {known: end for known, end in state.ends.items() if known != frame_id}
    return structs.replace(state, continued=continued, ends=ends)


def _with_prompt_taken(state: TurnState, frame_id: str | None) -> TurnState:
    if frame_id is None or frame_id in state.taken:
        return state
    return structs.replace(state, taken=state.taken | {frame_id})


def _newest_outermost(frames: Sequence[OpenFrame]) -> str | None:
    return next((frame.frame_id for frame in reversed(frames) if frame.parent is None), None)


def _with_end(state: TurnState, seen: EndSeen, frames: Sequence[OpenFrame]) -> TurnState:
    """Keep an end; one that names no turn is that of the newest frame that stands in no other."""
    frame_id = seen.fact.frame_id or _newest_outermost(frames)
    if frame_id is None:
        return state
    known = state.ends.get(frame_id, seen)
    if seen.fact.details and not known.fact.details:  # an app-server says more of an end than a file
        known = EndSeen(seen.fact, seen.source, known.tick)
    return structs.replace(
        state, ends={**state.ends, frame_id: known}, unannounced=_without(state.unannounced, frame_id)
    )


def _without(ticks: dict[str, int], frame_id: str) -> dict[str, int]:
    return {name: tick for name, tick in ticks.items() if name != frame_id}
