"""What a hook reports, merged with what is known already: one fact gives one receipt, from any source.  Pure."""

from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from msgspec import structs

from lifebus_adapters.adapter import HookReading
from lifebus_broker.state.telemetry_keys import LEVEL, SIGNAL, SOURCE
from lifebus_contract import FRAME_EVENTS, AdapterManifest, Emission, IdSource, IntegrationMode, LifecycleEvent
from lifebus_supervisor.supervision.emissions import emissions_of
from lifebus_supervisor.supervision.endings import LEFT_OPEN, frame_closings
from lifebus_supervisor.supervision.evaluation import pressure_facts
from lifebus_supervisor.supervision.monitor.compactions import MATCH_S
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor

NEEDS_HISTORY: Final = frozenset(
    {
        LifecycleEvent.CONTEXT_COMPACTED,
        LifecycleEvent.CONTEXT_PRESSURE_OBSERVED,
        LifecycleEvent.SESSION_ENDING,
        LifecycleEvent.SESSION_ENDED,
    }
)
"""The events that cannot be merged without what the ledger knows of their session."""

_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})


def merge(
    monitor: SessionMonitor, reading: HookReading, manifest: AdapterManifest, ids: IdSource, epoch_s: int
) -> tuple[Emission, ...]:
    """Return the emissions of a hook call as they are to be recorded.

    A compaction that a file has proved already is left out, and so are the second opening of a nested frame and what an
    app-server reported first.  Pressure that a harness signals without numbers gets the newest numbers, and is left out
    while such a signal stands.  The end of a session closes its open frames first.
    """
    emissions: list[Emission] = []
    for emission in map(partial(_with_parent, monitor), reading.emissions):
        event = emission.request.event
        proved = event is LifecycleEvent.CONTEXT_COMPACTED and _is_recorded(monitor, epoch_s)
        if proved or _is_reopening(monitor, emission) or _is_known(monitor, emission):
            continue
        if event is LifecycleEvent.CONTEXT_PRESSURE_OBSERVED:
            # A signal stands until the context is rewritten; a repeated one says nothing new.
            if not monitor.state.signalled:
                emissions.append(_with(emission, _signal_facts(monitor, reading.hook)))
            continue
        if event is LifecycleEvent.CONTEXT_COMPACTED:
            emissions.append(_with(emission, {SOURCE: f"hook:{reading.hook}"}))
            continue
        if _begins_session_end(event, emissions):
            emissions.extend(_frame_ends(monitor, emission, manifest, ids))
        emissions.append(emission)
    return tuple(emissions)


def _is_recorded(monitor: SessionMonitor, epoch_s: int) -> bool:
    """Whether the newest compaction on record came from a file, just now, and no other is known."""
    filed = monitor.state.filed_at_epoch_s
    return filed is not None and epoch_s - filed <= MATCH_S and monitor.unrecorded_compactions <= 0


def _with_parent(monitor: SessionMonitor, emission: Emission) -> Emission:
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
    request = structs.replace(emission.request, frame_context=structs.replace(context, parent_frame_id=parent))
    return structs.replace(emission, request=request)


def _is_reopening(monitor: SessionMonitor, emission: Emission) -> bool:
    """Whether a hook opens a nested frame that is open already: a sub-agent's start and its prompt are one opening."""
    request = emission.request
    if request.event not in _OPENS or request.frame_context is None or request.frame_context.parent_frame_id is None:
        return False
    return any(frame.frame_id == request.frame_context.frame_id for frame in monitor.state.frames)


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


def _signal_facts(monitor: SessionMonitor, hook: str) -> dict[str, Any]:
    level = monitor.state.level
    return {
        LEVEL: None if level is None else level.value,
        SIGNAL: True,
        SOURCE: f"hook:{hook}",
        **pressure_facts(monitor),
    }


def _with(emission: Emission, facts: dict[str, Any]) -> Emission:
    return structs.replace(emission, telemetry={**emission.telemetry, **facts})


def _begins_session_end(event: LifecycleEvent, emissions: Sequence[Emission]) -> bool:
    """Whether this is the first emission about a session's end; `emissions` are those before it in the same call."""
    if event is LifecycleEvent.SESSION_ENDING:
        return True
    events = {emission.request.event for emission in emissions}
    return event is LifecycleEvent.SESSION_ENDED and LifecycleEvent.SESSION_ENDING not in events


def _frame_ends(
    monitor: SessionMonitor, emission: Emission, manifest: AdapterManifest, ids: IdSource
) -> list[Emission]:
    """Return the ends of the frames that are still open, in the invocation of the session's end."""
    findings = list(frame_closings(monitor, LEFT_OPEN)) if monitor.loaded else []
    return emissions_of(
        findings,
        manifest,
        monitor.key,
        ids,
        invocation_id=emission.request.invocation_id,
        mode=IntegrationMode.NATIVE_HOOK,
    )
