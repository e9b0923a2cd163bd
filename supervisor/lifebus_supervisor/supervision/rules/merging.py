"""What a hook reports, merged with what is known already: one fact gives one receipt, from any source.  Pure."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from msgspec import Struct, structs

from lifebus_adapters.adapter import HookReading
from lifebus_broker.state.pressure import Thresholds
from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import ANNOUNCED_END, ANNOUNCED_ENDS, SIGNAL, SOURCE
from lifebus_contract import FRAME_EVENTS, AdapterManifest, Emission, IdSource, IntegrationMode, LifecycleEvent
from lifebus_supervisor.supervision.monitor import telemetry
from lifebus_supervisor.supervision.monitor.compactions import MATCH_S
from lifebus_supervisor.supervision.monitor.pressure import PressureReading, pressure_facts, read_pressure
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.rules import waiting
from lifebus_supervisor.supervision.rules.emissions import emissions_of, mode_of
from lifebus_supervisor.supervision.rules.endings import (
    LEFT_OPEN,
    SessionEnd,
    announced_session_end,
    children_ended,
    dead_end,
    ended_before_prompt,
    frame_closings,
    session_closings,
    settled_by_prompt,
)
from lifebus_supervisor.supervision.rules.evaluation import proved_compactions
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding
from lifebus_supervisor.supervision.rules.frame_ids import (
    continuation_of,
    own_frame_of,
    with_parent,
    with_resolved_frame,
)
from lifebus_supervisor.supervision.rules.reopening import RESUMED, resumed_starts

_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_STARTS: Final = frozenset(RESUMED)
_FRAME_CLOSE: Final = frozenset({LifecycleEvent.FRAME_ENDING, LifecycleEvent.FRAME_ENDED})
_SESSION_CLOSE: Final = frozenset({LifecycleEvent.SESSION_ENDING, LifecycleEvent.SESSION_ENDED})
_ENDS: Final = _FRAME_CLOSE | _SESSION_CLOSE
_ACTIVE: Final = "stop_hook_active"
_AROUND_ENDS: Final = "the frame around it ends"


class MergeContext(Struct, frozen=True, kw_only=True):
    """What a merge needs beside the monitor: manifest, ids, the time, and how the call came.

    `epoch_s` is wall-clock time, `called_at_ms` that of the call in milliseconds.  A call that `is_spooled` shows
    nothing about now.  `is_orphaned` says that the session's process is gone and another one calls, `has_end_under_way`
    that its end is on its way to the ledger.  `reads_files` says that telemetry of the session can show how its frames
    ended, or what is to be recorded before its end.
    """

    manifest: AdapterManifest
    ids: IdSource
    epoch_s: int
    thresholds: Thresholds = Thresholds()
    called_at_ms: int = 0
    is_spooled: bool = False
    is_orphaned: bool = False
    has_end_under_way: bool = False
    reads_files: bool = False


def merge(monitor: SessionMonitor, reading: HookReading, context: MergeContext) -> tuple[Emission, ...]:
    """Return the emissions of a hook call as they are to be recorded.

    Left out are a compaction that a file has proved already, the second opening of a nested frame, what an app-server
    reported first, and whatever is about a frame or session that has ended.  Pressure that a harness signals without
    numbers gets the newest numbers, and is left out while such a signal stands.  An announced end is recorded as
    `frame.ending` or `session.ending` alone; its end follows when it is settled.  What the call settles goes before it.
    """
    if not reading.emissions:
        return ()
    end = _end_before(monitor, reading, context)
    named = with_resolved_frame(monitor, reading, begins_anew=end is not None)
    original = [with_parent(monitor, one) for one in named]
    if context.is_spooled and _opens_what_is_over(monitor, original[0]):
        return ()
    if waiting.is_behind_end(monitor, original[0], is_spooled=context.is_spooled):
        return ()
    emissions = [*_settled_before(monitor, reading, original, end, context)]
    for emission in original:
        emissions += _merged(monitor, reading, emission, original, context)
    return _with_ended_waits(monitor, emissions, context)


def settles_an_end(monitor: SessionMonitor, event: LifecycleEvent) -> bool:
    """Whether a call that begins with this event settles ends that were announced before: files say more of them."""
    if event not in _STARTS and event not in _OPENS:
        return False
    is_announced = monitor.state.announced_end is not None
    return is_announced or any(monitor.turns.is_announced(frame) for frame in monitor.state.frames)


def _end_before(monitor: SessionMonitor, reading: HookReading, context: MergeContext) -> SessionEnd | None:
    """Return the end of the session that a call shows to lie before it, None where none does."""
    event = reading.emissions[0].request.event
    begins = event in _STARTS or event in _OPENS
    if not begins or monitor.state.ended or context.has_end_under_way:
        return None
    end = announced_session_end(monitor)
    return dead_end(monitor) if end is None and context.is_orphaned and monitor.is_live else end


def _settled_before(
    monitor: SessionMonitor,
    reading: HookReading,
    original: Sequence[Emission],
    end: SessionEnd | None,
    context: MergeContext,
) -> Iterator[Emission]:
    """Yield what the call shows about before: the `end` of the life before it, and that the session is resumed."""
    first = original[0].request
    ended = monitor.state.ended or context.has_end_under_way or end is not None
    if end is not None:
        yield from _as_emissions(monitor, session_closings(monitor, end), original[0], context)
    if ended and first.event not in _STARTS and _shows_life(monitor, original[0], context):
        starts = resumed_starts(reading.hook, f"hook:{reading.hook}")
        # In a mode of observation: the hook that came cannot take what a start hook could.
        yield from _as_emissions(monitor, starts, original[0], context, mode=mode_of(context.manifest))
    frame = first.frame_context if first.event in _OPENS else None
    if end is None and frame is not None and frame.parent_frame_id is None:
        settled = settled_by_prompt(monitor, frame.frame_id)
        yield from _as_emissions(monitor, settled, original[0], context)


def _shows_life(monitor: SessionMonitor, emission: Emission, context: MergeContext) -> bool:
    """Whether a call behind the session's end shows that it goes on.

    Its end and those of frames that are over may come behind it; the end of another frame does not.
    """
    request = emission.request
    if request.event not in _ENDS:
        return True
    if request.event not in _FRAME_CLOSE or request.frame_context is None or context.is_spooled:
        return False
    return monitor.state.ended and not _is_over(monitor, request.frame_context.frame_id)


def _merged(
    monitor: SessionMonitor,
    reading: HookReading,
    emission: Emission,
    original: Sequence[Emission],
    context: MergeContext,
) -> Iterator[Emission]:
    """Yield what one event of the call becomes."""
    event = emission.request.event
    if _is_reopening(monitor, emission) or _is_known(monitor, emission):
        return
    if waiting.is_about_wait(emission):
        before, told = waiting.told_by_hook(monitor, reading, emission, context.called_at_ms)
        yield from _as_emissions(monitor, before, emission, context)
        if told is not None:
            yield told
        return
    match event:
        case LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
            yield from _signal(monitor, reading, emission, context)
        case LifecycleEvent.CONTEXT_COMPACTED:
            if not _is_recorded(monitor, context.epoch_s):
                yield _with(emission, {SOURCE: f"hook:{reading.hook}"})
        case LifecycleEvent.FRAME_ENDING | LifecycleEvent.FRAME_ENDED:
            yield from _frame_end(monitor, reading, emission, original, context)
        case LifecycleEvent.SESSION_ENDING | LifecycleEvent.SESSION_ENDED:
            yield from _session_end(monitor, emission, original, context)
        case _:
            yield emission


def _with_ended_waits(
    monitor: SessionMonitor, emissions: Sequence[Emission], context: MergeContext
) -> tuple[Emission, ...]:
    """Return the emissions, and before each the ends of the waits that it puts an end to."""
    if not monitor.waits:
        return tuple(emissions)
    requests = [one.request for one in emissions]
    frames = [one.frame_context for one in requests]
    events = [
        (one.event, None if frame is None else frame.frame_id, frame is not None and frame.parent_frame_id is not None)
        for one, frame in zip(requests, frames, strict=True)
    ]
    found: list[Emission] = []
    for ends, emission in zip(waiting.before_each(monitor, events, context.called_at_ms), emissions, strict=True):
        found += [*_as_emissions(monitor, ends, emission, context), emission]
    return waiting.without_repeated_ends(found)


def _frame_end(
    monitor: SessionMonitor,
    reading: HookReading,
    emission: Emission,
    original: Sequence[Emission],
    context: MergeContext,
) -> Iterator[Emission]:
    """Yield what an event about a frame's end becomes."""
    frame_context = emission.request.frame_context
    if frame_context is None or not monitor.loaded:
        yield emission
        return
    frame = _open_frame(monitor, frame_context.frame_id)
    announces = {one.request.event for one in original} >= _FRAME_CLOSE
    is_first = emission is next((one for one in original if one.request.event in FRAME_EVENTS), None)
    if frame is None:
        if monitor.state.ended and context.is_spooled:
            return
        goes_on = announces and is_first and not context.is_spooled and not monitor.state.ended
        yield from _end_of_no_open_frame(monitor, reading, emission, original, goes_on=goes_on)
    elif announces and _seems_to_go_on(monitor, reading, frame) and emission.telemetry.get(_ACTIVE) is False:
        if is_first:
            yield from _as_emissions(monitor, [ended_before_prompt(frame)], emission, context)
            yield from _announced_late(own_frame_of(monitor, emission), original)
    else:
        if is_first:
            inner = children_ended(monitor, frame.frame_id, _AROUND_ENDS)
            yield from _as_emissions(monitor, inner, emission, context)
        is_announcement = announces or reading.announces
        yield from _announcement(monitor, frame, emission, original) if is_announcement else (emission,)


def _end_of_no_open_frame(
    monitor: SessionMonitor, reading: HookReading, emission: Emission, original: Sequence[Emission], *, goes_on: bool
) -> Iterator[Emission]:
    """Yield what the end of a frame that is not open becomes; `goes_on` says that its harness announces it now."""
    frame_context = emission.request.frame_context
    if frame_context is None:
        return
    if frame_context.frame_id not in monitor.state.turns:
        # Nobody has seen it open: a frame with a name is recorded as what it is; without one nothing has ended.
        if reading.names_frame or not monitor.is_on_record:
            yield emission
    elif goes_on and frame_context.parent_frame_id is None:
        # The end on record was settled too early: what followed it is a frame of its own.
        yield from _announced_late(continuation_of(monitor, emission), original)


def _announced_late(found: tuple[Emission, Emission], original: Sequence[Emission]) -> tuple[Emission, Emission]:
    opened, ending = found
    return opened, _announced(ending, _how(original), 1)


def _seems_to_go_on(monitor: SessionMonitor, reading: HookReading, frame: OpenFrame) -> bool:
    """Whether a prompt without a frame's name was taken for the continuation of the frame."""
    return not reading.names_frame and frame.frame_id in monitor.turns.prompted


def _announcement(
    monitor: SessionMonitor, frame: OpenFrame, emission: Emission, original: Sequence[Emission]
) -> Iterator[Emission]:
    """Yield what is announced of an open frame's end: by a stop, or by a lone end that only says how it will be."""
    how = _how(original)
    stands = monitor.turns.is_announced(frame)
    # A turn that failed says so once; the ordinary end that follows does not take it back.
    word = frame.announced_end if stands and frame.announced_end and how == "completed" else how
    if emission.request.event is LifecycleEvent.FRAME_ENDING:
        yield _announced(emission, word, frame.announced + 1)
    elif len(original) == 1 and not (stands and word == frame.announced_end):
        # Another word for the same stop is no further stop.
        yield _announced(_as_ending(emission), word, frame.announced if stands else frame.announced + 1)


def _as_ending(ended: Emission) -> Emission:
    """Return a lone end as the announcement that it is."""
    key = ended.request.idempotency_key
    own_key = None if key is None else f"{key.removesuffix(LifecycleEvent.FRAME_ENDED)}{LifecycleEvent.FRAME_ENDING}"
    request = structs.replace(ended.request, event=LifecycleEvent.FRAME_ENDING, idempotency_key=own_key)
    telemetry = {name: fact for name, fact in ended.telemetry.items() if name != "frame_end"}
    return structs.replace(ended, request=request, telemetry=telemetry)


def _how(original: Sequence[Emission]) -> str:
    """Return how the call says that its frame ended."""
    ended = (one for one in original if one.request.event is LifecycleEvent.FRAME_ENDED)
    return next((str(one.telemetry["frame_end"]) for one in ended if one.telemetry.get("frame_end")), "completed")


def _announced(emission: Emission, how: str, count: int) -> Emission:
    return _with(emission, {ANNOUNCED_END: how, ANNOUNCED_ENDS: count})


def _session_end(
    monitor: SessionMonitor, emission: Emission, original: Sequence[Emission], context: MergeContext
) -> Iterator[Emission]:
    """Yield what an event about a session's end becomes; one that has ended does not end again."""
    if monitor.state.ended or context.has_end_under_way:
        return
    open_frames = bool(monitor.state.frames) and monitor.loaded
    announces = {one.request.event for one in original} >= _SESSION_CLOSE
    if announces and monitor.is_on_record and (open_frames or context.reads_files):
        # Its files say how its frames ended, and what was measured before: they are read first.
        if emission.request.event is LifecycleEvent.SESSION_ENDING:
            yield _with(emission, {ANNOUNCED_END: "completed"})
        return
    if emission is original[0] and open_frames:
        yield from _as_emissions(monitor, list(frame_closings(monitor, LEFT_OPEN, orderly=True)), emission, context)
    ended = emission.request.event is LifecycleEvent.SESSION_ENDED
    yield _with(emission, {"session_end": "completed"}) if ended else emission


def _open_frame(monitor: SessionMonitor, frame_id: str) -> OpenFrame | None:
    return next((frame for frame in monitor.state.frames if frame.frame_id == frame_id), None)


def _is_recorded(monitor: SessionMonitor, epoch_s: int) -> bool:
    """Whether the newest compaction on record came from a file, just now, and no other is known."""
    filed = monitor.state.filed_at_epoch_s
    return filed is not None and epoch_s - filed <= MATCH_S and monitor.unrecorded_compactions <= 0


def _is_reopening(monitor: SessionMonitor, emission: Emission) -> bool:
    """Whether a hook opens a nested frame that is open already: a sub-agent's start and its prompt are one opening."""
    request = emission.request
    if request.event not in _OPENS or request.frame_context is None or request.frame_context.parent_frame_id is None:
        return False
    return any(frame.frame_id == request.frame_context.frame_id for frame in monitor.state.frames)


def _opens_what_is_over(monitor: SessionMonitor, emission: Emission) -> bool:
    """Whether an opening that comes late is of a frame of which the end is on record."""
    request = emission.request
    if request.event not in _OPENS or request.frame_context is None:
        return False
    return _is_over(monitor, request.frame_context.frame_id)


def _is_over(monitor: SessionMonitor, frame_id: str) -> bool:
    return frame_id in monitor.state.turns and _open_frame(monitor, frame_id) is None


def _is_known(monitor: SessionMonitor, emission: Emission) -> bool:
    """Whether an app-server reported the same before.

    `session.starting` and `frame.opening` of such a beginning are kept: clients deliver their payloads there.
    """
    request = emission.request
    frame = "" if request.frame_context is None else request.frame_context.frame_id
    match request.event:
        case LifecycleEvent.SESSION_STARTED:
            return monitor.state.started and (request.event, "") in monitor.state.wired
        case LifecycleEvent.SESSION_ENDING | LifecycleEvent.SESSION_ENDED:
            return monitor.state.ended and (LifecycleEvent.SESSION_ENDED, "") in monitor.state.wired
        case LifecycleEvent.FRAME_OPENED if (request.event, frame) in monitor.state.wired:
            return True
        case event if event in FRAME_EVENTS:
            return (LifecycleEvent.FRAME_ENDED, frame) in monitor.state.wired
        case _:
            return False


def _signal(
    monitor: SessionMonitor, reading: HookReading, emission: Emission, context: MergeContext
) -> Iterator[Emission]:
    """Yield a signal of pressure, and before it the compactions whose own hook has not come until now.

    Harnesses call hooks in order: a hook of theirs that comes after this one is late, and adds nothing.
    """
    before = [] if context.is_spooled else list(proved_compactions(monitor))
    # A signal stands until the context is rewritten; a repeated one says nothing new.
    if monitor.state.signalled and not before:
        return
    yield from _as_emissions(monitor, before, emission, context, mode=mode_of(context.manifest))
    newest = _newest_reading(monitor, reading, context)
    yield _with(emission, {SIGNAL: True, SOURCE: f"hook:{reading.hook}", **pressure_facts(newest)})


def _newest_reading(monitor: SessionMonitor, reading: HookReading, context: MergeContext) -> PressureReading | None:
    """Return the newest reading of the context at the time of a call, its own numbers included.

    A spooled call has none: what its files hold by now may have been written later.
    """
    if context.is_spooled:
        return None
    numbers = monitor.telemetry
    for fact in reading.facts:
        numbers = telemetry.on_fact(numbers, fact, 0)
    if numbers.usage is None:
        return None
    return read_pressure(numbers, numbers.usage, monitor.state.level, context.thresholds)


def _with(emission: Emission, facts: dict[str, Any]) -> Emission:
    return structs.replace(emission, telemetry={**emission.telemetry, **facts})


def _as_emissions(
    monitor: SessionMonitor,
    findings: Sequence[SupervisionFinding],
    cause: Emission,
    context: MergeContext,
    mode: IntegrationMode = IntegrationMode.NATIVE_HOOK,
) -> list[Emission]:
    """Return findings in the invocation of the hook call that shows them, with its metadata where they have none."""
    invocation, metadata = cause.request.invocation_id, cause.request.metadata
    findings = [structs.replace(finding, metadata=finding.metadata or metadata) for finding in findings]
    return emissions_of(findings, context.manifest, monitor.key, context.ids, invocation_id=invocation, mode=mode)
