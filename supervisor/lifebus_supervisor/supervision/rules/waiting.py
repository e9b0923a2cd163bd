"""When a session begins to wait for a person, and what shows that it does not any more (docs/waiting.md).  Pure.

What begins a wait is a harness's own word.  What ends one is its own word as well, or what cannot happen before a
person has acted: the result of the last tool, the turn's end, the next prompt, the session's end.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from msgspec import structs

from lifebus_adapters.adapter import HookReading
from lifebus_broker.state.session_state import OpenFrame
from lifebus_broker.state.telemetry_keys import (
    FRAME,
    WAITED,
    WAITING,
    WAITING_ENDED_BY,
    WAITING_FOR,
    WAITING_ID,
    WAITING_KIND,
    WAITING_SINCE,
)
from lifebus_broker.state.waiting import BEGUN, ENDED, IDLE, same_waits, waits_over
from lifebus_contract import Emission, LifecycleEvent
from lifebus_contract.views import Wait
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.waits import word_of
from lifebus_supervisor.supervision.rules.findings import SupervisionFinding, tick_finding

NEXT_REQUEST: Final = "next_request"
"""What ends a wait without an id where another one of the same kind begins."""
TOOL_RESULT: Final = "tool_result"
"""What ends a wait for a permission where every tool has given its result."""
ANSWERED: Final = "answered"
"""What ends a wait of which the harness says itself that it is over."""

_ENDS: Final = {
    LifecycleEvent.SESSION_STARTING: "session_started",
    LifecycleEvent.SESSION_STARTED: "session_started",
    LifecycleEvent.SESSION_ENDING: "session_ended",
    LifecycleEvent.SESSION_ENDED: "session_ended",
    LifecycleEvent.FRAME_OPENING: "prompt",
    LifecycleEvent.FRAME_OPENED: "prompt",
    LifecycleEvent.FRAME_ENDING: "turn_ended",
    LifecycleEvent.FRAME_ENDED: "turn_ended",
}
"""What is said of a wait that an event ends."""

_LONGEST_MS: Final = 86_400_000 * 3_660


def is_about_wait(emission: Emission) -> bool:
    """Whether an emission of a hook call says that a wait begins or ends."""
    return WAITING_FOR in emission.telemetry


def is_behind_end(monitor: SessionMonitor, emission: Emission, *, is_spooled: bool) -> bool:
    """Whether an emission of a hook call says of an ended session that it waits, and shows no life of it."""
    begins_now = emission.telemetry.get(WAITING) == BEGUN and not is_spooled
    return is_about_wait(emission) and monitor.state.ended and not begins_now


def told_by_hook(
    monitor: SessionMonitor, reading: HookReading, emission: Emission, at_ms: int
) -> tuple[Sequence[SupervisionFinding], Emission | None]:
    """Return the ends that a hook about a wait shows, and the hook's own emission as it is to be recorded, if it is.

    A reminder of what is known, and the end of what is not, say nothing.  An app-server that asked has said more than
    the hook for the same request.
    """
    facts = emission.telemetry
    waiting_for, waits = str(facts[WAITING_FOR]), monitor.waits
    frame_id, request = _text(facts.get(FRAME)), _text(facts.get(WAITING_ID))
    same = same_waits(waits, waiting_for, frame_id, request)
    if facts.get(WAITING) == ENDED:
        if not same:
            return (), None
        ended = {**facts, **_end_facts(same[0], ANSWERED, at_ms)}
        return (), structs.replace(emission, telemetry=ended)
    asked_elsewhere = request is None and any(one.request and one.waiting_for == waiting_for for one in waits)
    is_known = reading.reminds and any(one.waiting_for == waiting_for for one in waits)
    if asked_elsewhere or is_known:
        return (), None
    replaced = [] if request is not None else [_ended(monitor, one, NEXT_REQUEST, at_ms) for one in same]
    # Two that are asked in one millisecond are two, and so are their ends.
    since = max([at_ms, *(one.since_ms + 1 for one in same if one.since_ms >= at_ms)])
    return replaced, structs.replace(emission, telemetry={**facts, WAITING_SINCE: since})


def before_each(
    monitor: SessionMonitor,
    events: Sequence[tuple[LifecycleEvent, str | None, bool]],
    at_ms: int,
    before: Iterable[SupervisionFinding] = (),
) -> list[list[SupervisionFinding]]:
    """Return for each event, with its frame and whether that is nested, the ends that go before it, each once.

    `before` are findings that are recorded before all of them.
    """
    known = {word_of(one.telemetry) for one in before}
    found: list[list[SupervisionFinding]] = []
    for event, frame_id, nested in events:
        ends = _ended_by(monitor, event, frame_id, at_ms, nested=nested)
        ends = [one for one in ends if word_of(one.telemetry) not in known]
        known.update(word_of(one.telemetry) for one in ends)
        found.append(ends)
    return found


def with_ended_waits(
    monitor: SessionMonitor,
    findings: Sequence[SupervisionFinding],
    at_ms: int,
    before: Sequence[SupervisionFinding] = (),
) -> list[SupervisionFinding]:
    """Return what is to be recorded of a session, and before each event the ends of the waits that it ends.

    `before` are ends that were found already, and go before all of it.
    """
    if not monitor.waits:
        return [*before, *findings]
    frames = [one.frame for one in findings]
    events = [
        (one.event, None if frame is None else frame.frame_id, frame is not None and frame.parent is not None)
        for one, frame in zip(findings, frames, strict=True)
    ]
    ends = before_each(monitor, events, at_ms, before)
    return [*before, *(one for its, finding in zip(ends, findings, strict=True) for one in (*its, finding))]


def without_repeated_ends(emissions: Sequence[Emission]) -> tuple[Emission, ...]:
    """Return the emissions of one call with each wait's end once: the first of them stands before what shows it."""
    known: set[tuple[object, ...]] = set()
    kept: list[Emission] = []
    for one in emissions:
        word = word_of(one.telemetry) if one.telemetry.get(WAITING) == ENDED else None
        if word is None or word not in known:
            kept.append(one)
        if word is not None:
            known.add(word)
    return tuple(kept)


def ended_by_tools(monitor: SessionMonitor) -> Iterator[SupervisionFinding]:
    """Yield the ends of waits for a permission behind which every tool of the session has given its result.

    A result from before the wait says nothing, and neither does the session's file of what a sub-agent waits for.
    """
    done = monitor.tools_done_ms
    if done is None:
        return
    for one in monitor.waits:
        if one.request is None and one.waiting_for != IDLE and done >= one.since_ms and not _is_nested(monitor, one):
            yield _ended(monitor, one, TOOL_RESULT, done)


def _ended_by(
    monitor: SessionMonitor, event: LifecycleEvent, frame_id: str | None, at_ms: int, *, nested: bool
) -> list[SupervisionFinding]:
    """Return the ends of the waits that an event puts an end to, which are recorded before it."""
    how = _ENDS.get(event)
    if how is None or not monitor.waits:
        return []
    # The announcement of a session's end is followed by its end, whatever happens.
    over = monitor.waits if event is LifecycleEvent.SESSION_ENDING else None
    waits = waits_over(monitor.waits, event, frame_id, nested=nested) if over is None else over
    return [_ended(monitor, one, how, at_ms) for one in waits]


def _is_nested(monitor: SessionMonitor, wait: Wait) -> bool:
    """Whether a wait is of a frame that stands in another one, as far as that is known."""
    frame = _frame_of(monitor, wait)
    return wait.nested if frame is None else frame.parent is not None


def _frame_of(monitor: SessionMonitor, wait: Wait) -> OpenFrame | None:
    return next((one for one in monitor.state.frames if one.frame_id == wait.frame_id), None)


def _ended(monitor: SessionMonitor, wait: Wait, how: str, at_ms: int) -> SupervisionFinding:
    facts: dict[str, Any] = {
        WAITING: ENDED,
        WAITING_FOR: wait.waiting_for,
        WAITING_KIND: wait.kind,
        WAITING_ID: wait.request,
        # Named also where the frame is over, or was never seen to open.
        FRAME: wait.frame_id,
        **_end_facts(wait, how, at_ms),
    }
    return structs.replace(tick_finding(**facts), frame=_frame_of(monitor, wait))


def _end_facts(wait: Wait, how: str, at_ms: int) -> dict[str, Any]:
    # Clocks may be set back between the two.
    waited = min(max(0, at_ms - wait.since_ms), _LONGEST_MS)
    return {WAITING_SINCE: wait.since_ms, WAITED: waited, WAITING_ENDED_BY: how}


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None
