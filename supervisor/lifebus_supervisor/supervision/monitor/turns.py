"""Which turns telemetry shows beside those that receipts record: begun ones, and the ends of turns.  Pure.

The rules on what follows from an end stand in `supervision.endings`; here is only what was seen.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Fact, TurnEnded, TurnStarted
from lifebus_broker.state.session_state import OpenFrame


class EndSeen(Struct, frozen=True):
    """A turn's end that telemetry shows: which kind of source, and in which tick it was seen."""

    fact: TurnEnded
    source: str
    tick: int


class TurnState(Struct, frozen=True, kw_only=True):
    """What telemetry shows of a session's turns, by frame id."""

    # Turns that only telemetry has shown to begin so far, each with the tick in which it was seen.
    unannounced: dict[str, int] = {}
    # Ends that telemetry shows of turns whose end is not on record.
    ends: dict[str, EndSeen] = {}
    # The turn that began last in the telemetry; None before the first one, and where it names none.
    newest: str | None = None


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
            if fact.frame_id is not None and is_unannounced:
                state = structs.replace(state, unannounced={fact.frame_id: tick, **state.unannounced})
            return state if state.newest == fact.frame_id else structs.replace(state, newest=fact.frame_id)
        case TurnEnded() if not history or any(frame.frame_id == fact.frame_id for frame in frames):
            return _with_end(state, EndSeen(fact, source, tick), frames)
        case _:
            return state


def on_opened(state: TurnState, frame_id: str) -> TurnState:
    """Take that a frame's opening is on record."""
    if frame_id not in state.unannounced:
        return state
    return structs.replace(state, unannounced=_without(state.unannounced, frame_id))


def on_hook(state: TurnState) -> TurnState:
    """Take a hook: what telemetry showed before no longer proves that hooks are silent."""
    return structs.replace(state, unannounced={}) if state.unannounced else state


def on_evaluation(state: TurnState, frames: Sequence[OpenFrame]) -> TurnState:
    """Forget the ends of frames that are closed by now."""
    if not state.ends:
        return state
    open_ids = {frame.frame_id for frame in frames}
    return structs.replace(state, ends={frame: end for frame, end in state.ends.items() if frame in open_ids})


def _with_end(state: TurnState, seen: EndSeen, frames: Sequence[OpenFrame]) -> TurnState:
    """Keep an end; one that names no turn is that of the newest frame that stands in no other."""
    outermost = [frame.frame_id for frame in frames if frame.parent is None]
    frame_id = seen.fact.frame_id or (outermost[-1] if outermost else None)
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
