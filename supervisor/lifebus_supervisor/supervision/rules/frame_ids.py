"""Which frame a hook is about, where the harness does not name it or names another one.  Pure.

A frame has the harness's own id where its hooks carry one.  Elsewhere an opening gets the next number of the session,
which the ledger's state remembers, and an end is that of the frame that is open (docs/contract.md 2.2).
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec import structs

from lifebus_adapters.adapter import HookReading
from lifebus_broker.state.telemetry_keys import FRAME
from lifebus_contract import FRAME_EVENTS, Emission, FrameContext, LifecycleEvent
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.turns import CONTINUES, newest_own

_NUMBERED: Final = "turn-"
_LONGEST: Final = 248
_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})


def with_resolved_frame(monitor: SessionMonitor, reading: HookReading, *, begins_anew: bool) -> Sequence[Emission]:
    """Return a call's emissions with the frame that they are really about, where the call does not name it.

    `begins_anew` says that the call shows the session's end before it: no frame of that life goes on.
    """
    emissions = reading.emissions
    if not monitor.loaded or emissions[0].request.event not in FRAME_EVENTS:
        return emissions
    if reading.names_frame:
        return emissions if begins_anew else _with_continuation(monitor, reading)
    open_frame = None if begins_anew else newest_own(monitor.turns, monitor.state.frames)
    if emissions[0].request.event in _OPENS:
        is_same = reading.may_continue and open_frame is not None and monitor.turns.is_announced(open_frame)
        if is_same and open_frame is not None:
            return [_in_frame(emission, open_frame.frame_id, **{CONTINUES: True}) for emission in emissions]
        frame_id = next_number(monitor.state.turns)
    elif open_frame is not None:
        frame_id = open_frame.frame_id
    else:
        return emissions
    return [_in_frame(emission, frame_id) for emission in emissions]


def _with_continuation(monitor: SessionMonitor, reading: HookReading) -> Sequence[Emission]:
    """Return the emissions of a call that names its frame: an opening of the one that is open goes on in it."""
    context = reading.emissions[0].request.frame_context
    is_opening = reading.may_continue and reading.emissions[0].request.event in _OPENS
    if context is None or not is_opening or context.frame_id not in {one.frame_id for one in monitor.state.frames}:
        return reading.emissions
    return [_in_frame(emission, context.frame_id, **{CONTINUES: True}) for emission in reading.emissions]


def next_number(turns: Iterable[str]) -> str:
    """Return the id of the next frame of a session whose frames are numbered; `turns` are its newest ones."""
    numbers = [int(number) for turn in turns if (number := _number_of(turn)) is not None]
    return f"{_NUMBERED}{max(numbers, default=0) + 1}"


def with_parent(monitor: SessionMonitor, emission: Emission) -> Emission:
    """Return a nested frame's event inside the frame that it really stands in.

    Codex names a sub-agent's own turn where the turn around it is meant; only an open frame can have another inside.
    """
    context = emission.request.frame_context
    if context is None or context.parent_frame_id is None:
        return emission
    frames = monitor.state.frames
    known = next((frame.parent for frame in frames if frame.frame_id == context.frame_id), None)
    around = [frame.frame_id for frame in frames if frame.parent is None]
    parent = known or (context.parent_frame_id if context.parent_frame_id in around or not around else around[-1])
    if parent == context.parent_frame_id:
        return emission
    return _with_context(emission, structs.replace(context, parent_frame_id=parent))


def continuation_of(monitor: SessionMonitor, ending: Emission) -> tuple[Emission, Emission]:
    """Return the opening of the frame that went on after a recorded end, and the announcement of its own end."""
    context = ending.request.frame_context
    frame_id = "" if context is None else context.frame_id
    around = frame_id[:_LONGEST]  # the number has to fit behind it
    number = 2 + sum(turn.startswith(f"{around}:") for turn in monitor.state.turns)
    evidence = "its harness announced another end after the one on record"
    return _opened_late(ending, f"{around}:{number}", evidence, continues_frame_id=frame_id)


def own_frame_of(monitor: SessionMonitor, ending: Emission) -> tuple[Emission, Emission]:
    """Return the opening of a frame whose prompt was taken for a continuation, and the announcement of its end."""
    evidence = "its prompt came right after the announced end of another frame, and was one of a turn of its own"
    return _opened_late(ending, next_number(monitor.state.turns), evidence)


def _opened_late(ending: Emission, frame_id: str, evidence: str, **facts: str) -> tuple[Emission, Emission]:
    moved = _in_frame(ending, frame_id)
    request = structs.replace(moved.request, event=LifecycleEvent.FRAME_OPENED, idempotency_key=None)
    telemetry = {FRAME: frame_id, "synthesized": True, "evidence": evidence, **facts}
    return structs.replace(moved, request=request, telemetry=telemetry), moved


def _number_of(turn: str) -> int | None:
    digits = turn.removeprefix(_NUMBERED).partition(":")[0]
    is_number = digits.isascii() and digits.isdigit()  # isdigit alone takes `²`, which is no number
    return int(digits) if turn.startswith(_NUMBERED) and is_number else None


def _in_frame(emission: Emission, frame_id: str, **facts: bool) -> Emission:
    context = emission.request.frame_context
    if context is None:
        return emission
    named = _with_context(emission, structs.replace(context, frame_id=frame_id))
    return structs.replace(named, telemetry={**named.telemetry, FRAME: frame_id, **facts})


def _with_context(emission: Emission, context: FrameContext) -> Emission:
    return structs.replace(emission, request=structs.replace(emission.request, frame_context=context))
