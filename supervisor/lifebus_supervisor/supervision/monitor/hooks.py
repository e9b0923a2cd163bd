"""When hooks and apps last reported on a session, and the work that telemetry shows without them.  Pure."""

from typing import Final

from msgspec import Struct, structs

from lifebus_adapters.shared.telemetry import Activity, Fact, TurnStarted

ENOUGH_TICKS: Final = 2
"""In how many ticks telemetry must show work outside any frame before it counts: a file's last lines come late."""


class HookState(Struct, frozen=True, kw_only=True):
    """Who reports on a session, and when.  Times are monotonic seconds, ticks are numbers of the tick loop."""

    # The name of the last hook, empty where none came in this process.
    last_hook: str = ""
    # When it came.
    last_hook_at: float | None = None
    # When anybody last reported: a hook, an app, an app-server.
    reported_at: float | None = None
    # Whether an app reports on the session by itself, without hooks.
    by_app: bool = False
    # The first tick in which telemetry showed work that no hook reported, None while there is none.
    uncovered_since_tick: int | None = None
    # The last such tick.
    uncovered_last_tick: int | None = None
    # How many ticks showed such work.
    uncovered_ticks: int = 0
    # Whether a turn began in it before any hook came in this process.
    uncovered_turn: bool = False

    @property
    def proves_silence(self) -> bool:
        """Whether enough ticks showed work that no hook reported, or a turn with which none can be late."""
        return self.uncovered_ticks >= ENOUGH_TICKS or self.uncovered_turn


def on_hook(state: HookState, hook: str, now: float) -> HookState:
    """Take a hook: what telemetry showed before is covered."""
    return structs.replace(
        state,
        last_hook=hook,
        last_hook_at=now,
        reported_at=now,
        uncovered_since_tick=None,
        uncovered_last_tick=None,
        uncovered_ticks=0,
        uncovered_turn=False,
    )


def on_hooked_session(state: HookState) -> HookState:
    """Take that hooks report on the session: it is no app's."""
    return structs.replace(state, by_app=False) if state.by_app else state


def on_app(state: HookState, *, hooked: bool, now: float | None) -> HookState:
    """Take a receipt of an app; `hooked` says that hooks report on the session as well, `now` is None for history."""
    return structs.replace(state, by_app=not hooked, reported_at=state.reported_at if now is None else now)


def on_report(state: HookState, now: float) -> HookState:
    """Take a report of somebody who is no hook."""
    return structs.replace(state, reported_at=now)


def on_session_ended(state: HookState) -> HookState:
    """Take the end of the session: what telemetry showed before it says nothing of the life after."""
    return structs.replace(
        state, uncovered_since_tick=None, uncovered_last_tick=None, uncovered_ticks=0, uncovered_turn=False
    )


def on_fact(
    state: HookState,
    fact: Fact,
    tick: int,
    *,
    in_frame: bool,
    in_turn: bool,
    settled: bool,
    history: bool,
) -> HookState:
    """Take one fact of the telemetry, as evidence of work that no hook reported.

    `in_frame` says that a frame is open on record, `in_turn` that the file's newest turn is on record; `settled` that
    the last hook is long enough ago for the file to have caught up with it, `history` that the fact is old.
    """
    if history or not settled or in_frame:
        return state
    match fact:
        case TurnStarted(frame_id=None, compacting=False):
            state = _with_work(state, tick)
            return state if state.last_hook_at is not None else structs.replace(state, uncovered_turn=True)
        case Activity() if not in_turn:
            return _with_work(state, tick)
        case _:
            return state


def _with_work(state: HookState, tick: int) -> HookState:
    if state.uncovered_last_tick == tick:
        return state
    return structs.replace(
        state,
        uncovered_since_tick=tick if state.uncovered_since_tick is None else state.uncovered_since_tick,
        uncovered_last_tick=tick,
        uncovered_ticks=state.uncovered_ticks + 1,
    )
