"""Which turns telemetry shows beside those that receipts record, and which announced ends are not settled yet.  Pure.

The rules on what follows from an end stand in `supervision.rules.endings`; here is only what was seen.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Activity, Fact, TurnContinued, TurnEnded, TurnStarted, Usage
from lifebus_broker.state.session_state import OpenFrame

CONTINUES: Final = "continues"
"""The fact that marks an opening which is taken for the continuation of a frame whose end was announced."""

_MAX_UNANNOUNCED: Final = 16
"""Most turns without a hook that are remembered, under way and ended."""


class EndSeen(Struct, frozen=True):
    """A turn's end that telemetry shows: which kind of source, and in which tick it was seen."""

    fact: TurnEnded
    source: str
    tick: int


class TurnAfterEnd(Struct, frozen=True):
    """A turn that telemetry shows to begin in a session that has ended: in which source, and in which tick."""

    source: str
    tick: int


class AnnouncedFrameEnd(Struct, frozen=True):
    """When a hook announced a frame's end, in monotonic seconds, and the hook's metadata for callback clients.

    The metadata is None where the call was spooled: what clients do when a turn has just ended is not due any more.
    """

    at: float
    metadata: dict[str, Any] | None


class TurnState(Struct, frozen=True, kw_only=True):
    """What telemetry shows of a session's turns, by frame id."""

    # Turns that only telemetry has shown so far, under way or completed, each with the tick in which it was seen.
    unannounced: dict[str, int] = {}
    # Ends that telemetry shows of turns whose end is not on record.
    ends: dict[str, EndSeen] = {}
    # The newest of those that are not on record at all: their hooks may be in the spool still.
    early_ends: dict[str, EndSeen] = {}
    # The harness's frame that opened last and stands in no other, as far as this process has seen it.
    last_opened: str | None = None
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
    # The newest turn that was begun to rewrite the context: no hook of a prompt reports it.
    compacting: str | None = None
    # Whether the turn that began last has ended in the telemetry, and nothing came after it.
    is_over: bool = False
    # The first turn that began since the session ended; None where none did, and once it has started again.
    resumed: TurnAfterEnd | None = None
    # The open frames that clients opened by themselves, as far as this process has seen it.
    by_clients: frozenset[str] = frozenset()

    def is_announced(self, frame: OpenFrame) -> bool:
        """Whether an open frame's end was announced and it has not gone on since.

        Stops are counted against the times it went on: hooks and files report in no common order.
        """
        return frame.announced_end is not None and frame.announced > self.continued.get(frame.frame_id, 0)


def newest_own(state: TurnState, frames: Sequence[OpenFrame]) -> OpenFrame | None:
    """Return the harness's newest frame that stands in no other; None where none is open.

    It is what a hook or a file is about that names no frame, and never what another client opened.
    """
    own = (frame for frame in reversed(frames) if frame.frame_id not in state.by_clients)
    return next((frame for frame in own if frame.parent is None), None)


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
    state = _with_rest(state, fact)
    match fact:
        case TurnStarted():
            # An old line without a name may be about any turn.
            state = _with_prompt_taken(state, fact.frame_id or (None if history else _newest_own_id(state, frames)))
            if fact.compacting:
                state = structs.replace(state, compacting=fact.frame_id)
            elif not history:
                state = _with_unannounced(state, fact.frame_id, tick, turns)
            running = fact.frame_id if fact.reports_end else None
            if (state.newest, state.running) == (fact.frame_id, running):
                return state
            return structs.replace(state, newest=fact.frame_id, running=running)
        case TurnEnded():
            return _with_turn_over(state, EndSeen(fact, source, tick), frames, turns, history=history)
        case TurnContinued():
            return _with_continuation(
                state, fact.frame_id or _newest_own_id(state, frames), announced=not fact.unannounced
            )
        case Activity() | Usage():
            return _with_prompt_taken(state, _working_frame(state, frames, history=history))
        case _:
            return state


def on_session_ended(state: TurnState) -> TurnState:
    """Take the end of the session: what its hooks left out before is on record as far as it ever will be."""
    return structs.replace(state, unannounced={}) if state.unannounced else state


def on_turn_after_end(state: TurnState, source: str, tick: int) -> TurnState:
    """Take that a turn begins though the session has ended."""
    return state if state.resumed is not None else structs.replace(state, resumed=TurnAfterEnd(source, tick))


def on_session_started(state: TurnState) -> TurnState:
    """Take that the session is under way, on record."""
    return state if state.resumed is None else structs.replace(state, resumed=None)


def on_opened(state: TurnState, frame_id: str, parent: str | None) -> TurnState:
    """Take that a frame's opening is on record; one inside another shows that one at work."""
    state = _covered(state, frame_id)
    if (end := state.early_ends.get(frame_id)) is not None:
        early = {name: seen for name, seen in state.early_ends.items() if name != frame_id}
        state = structs.replace(state, ends={**state.ends, frame_id: end}, early_ends=early)
    if parent is not None:
        return _with_prompt_taken(state, parent)
    return state if state.last_opened == frame_id else structs.replace(state, last_opened=frame_id)


def on_opened_by_client(state: TurnState, frame_id: str) -> TurnState:
    """Take that a client of its own has opened a frame: it shows nothing of the harness's turns."""
    return structs.replace(state, by_clients=state.by_clients | {frame_id})


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


def on_evaluation(state: TurnState, frames: Sequence[OpenFrame], turns: Collection[str]) -> TurnState:
    """Forget what was seen of frames that are closed by now; `turns` are the newest on record."""
    open_ids = {frame.frame_id for frame in frames}
    if {*state.ends, *state.continued, *state.announced, *state.taken, *state.prompted, *state.by_clients} <= open_ids:
        return state
    for frame, end in state.ends.items():
        if frame not in open_ids and frame not in turns:
            state = _with_early_end(state, frame, end)
    return structs.replace(
        state,
        ends={frame: end for frame, end in state.ends.items() if frame in open_ids},
        continued={frame: count for frame, count in state.continued.items() if frame in open_ids},
        announced={frame: end for frame, end in state.announced.items() if frame in open_ids},
        prompted=state.prompted & open_ids,
        by_clients=state.by_clients & open_ids,
        taken=state.taken & open_ids,
    )


def _with_turn_over(
    state: TurnState, seen: EndSeen, frames: Sequence[OpenFrame], turns: Collection[str], *, history: bool
) -> TurnState:
    """Take the end of a turn, and that it is the end of one that no hook has reported."""
    frame_id = seen.fact.frame_id
    if state.running is not None and state.running == frame_id:
        state = structs.replace(state, running=None)
    if not history or any(frame.frame_id == frame_id for frame in frames):
        state = _with_end(state, seen, frames)
    elif frame_id is not None and frame_id not in turns:
        state = _with_early_end(state, frame_id, seen)
    # An end that is no completion proves nothing: harnesses call no hook when a turn is interrupted.
    if history or seen.fact.frame_end != "completed" or frame_id == state.compacting:
        return _covered(state, frame_id)
    return _with_unannounced(state, frame_id, seen.tick, turns)


def _with_unannounced(state: TurnState, frame_id: str | None, tick: int, turns: Collection[str]) -> TurnState:
    """Take a turn that is not on record; of very many the first ones prove enough."""
    is_known = frame_id is None or frame_id in turns or frame_id in state.unannounced
    if frame_id is None or is_known or len(state.unannounced) >= _MAX_UNANNOUNCED:
        return state
    return structs.replace(state, unannounced={**state.unannounced, frame_id: tick})


def _with_rest(state: TurnState, fact: Fact) -> TurnState:
    """Take whether a turn is under way; token counts may come behind the end of their turn."""
    if isinstance(fact, TurnEnded):
        return state if state.is_over else structs.replace(state, is_over=True)
    is_sign = isinstance(fact, TurnStarted | TurnContinued | Activity)
    return structs.replace(state, is_over=False) if is_sign and state.is_over else state


def _covered(state: TurnState, frame_id: str | None) -> TurnState:
    """Take that a turn is on record, or that it proves nothing."""
    if frame_id not in state.unannounced:
        return state
    left = {name: tick for name, tick in state.unannounced.items() if name != frame_id}
    return structs.replace(state, unannounced=left)


def _with_continuation(state: TurnState, frame_id: str | None, *, announced: bool) -> TurnState:
    if frame_id is None:
        return state
    # The file's word that a turn had ended is taken back by its word that it goes on.
    ends = {known: end for known, end in state.ends.items() if known != frame_id}
    state = structs.replace(state, ends=ends)
    if not announced:
        return state
    return structs.replace(state, continued={**state.continued, frame_id: state.continued.get(frame_id, 0) + 1})


def _with_prompt_taken(state: TurnState, frame_id: str | None) -> TurnState:
    if frame_id is None or frame_id in state.taken:
        return state
    return structs.replace(state, taken=state.taken | {frame_id})


def _working_frame(state: TurnState, frames: Sequence[OpenFrame], *, history: bool) -> str | None:
    """Return the open frame that a sign of work is about: the newest one, or the turn that the file shows it in."""
    if state.newest is None:  # what a file without names showed before may be of any turn
        return None if history else _newest_own_id(state, frames)
    return state.newest if any(frame.frame_id == state.newest for frame in frames) else None


def _newest_own_id(state: TurnState, frames: Sequence[OpenFrame]) -> str | None:
    frame = newest_own(state, frames)
    return None if frame is None else frame.frame_id


def _with_end(state: TurnState, seen: EndSeen, frames: Sequence[OpenFrame]) -> TurnState:
    """Keep an end; one that names no turn is that of the harness's newest frame that stands in no other."""
    frame_id = seen.fact.frame_id or _newest_own_id(state, frames)
    if frame_id is None:
        return state
    known = state.ends.get(frame_id, seen)
    if seen.fact.details and not known.fact.details:  # an app-server says more of an end than a file
        known = EndSeen(seen.fact, seen.source, known.tick)
    return structs.replace(state, ends={**state.ends, frame_id: known})


def _with_early_end(state: TurnState, frame_id: str, seen: EndSeen) -> TurnState:
    newest = [*({**state.early_ends, frame_id: state.early_ends.get(frame_id, seen)}).items()][-_MAX_UNANNOUNCED:]
    return structs.replace(state, early_ends=dict(newest))
