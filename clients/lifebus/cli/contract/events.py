"""`lifebus events`."""

from typing import Final

from lifebus.cli.exit_codes import ExitCode
from lifebus.cli.terminal import put_json, put_table
from lifebus_contract import FRAME_EVENTS, LifecycleEvent

_MEANINGS: Final = {
    LifecycleEvent.SESSION_STARTING: "a harness session is about to start",
    LifecycleEvent.SESSION_STARTED: "a harness session runs",
    LifecycleEvent.FRAME_OPENING: "a frame (a prompt's work, or a sub-agent's) is about to open",
    LifecycleEvent.FRAME_OPENED: "a frame is open",
    LifecycleEvent.CONTEXT_PRESSURE_OBSERVED: "the context window fills up",
    LifecycleEvent.CONTEXT_COMPACTED: "the context was compacted",
    LifecycleEvent.FRAME_ENDING: "a frame is about to end",
    LifecycleEvent.FRAME_ENDED: "a frame has ended",
    LifecycleEvent.SESSION_ENDING: "a harness session is about to end",
    LifecycleEvent.SESSION_ENDED: "a harness session has ended",
    LifecycleEvent.SUPERVISOR_TICK: "a supervisor looked",
    LifecycleEvent.CAPABILITY_DEGRADED: "a capability became weaker than it was",
    LifecycleEvent.RECEIPT_EMITTED: "a receipt was emitted: a notification, never a receipt itself",
    LifecycleEvent.RECEIPT_GAP_DETECTED: "the harness's own numbers jumped",
}


def events(*, json: bool = False) -> ExitCode:
    """List the 14 lifecycle events: what each says, and what it needs.

    Args:
        json: Answer in JSON.
    """
    rows = [
        {
            "event": event.value,
            "meaning": _MEANINGS[event],
            "needs_frame": event in FRAME_EVENTS,
            "can_be_emitted": event is not LifecycleEvent.RECEIPT_EMITTED,
        }
        for event in LifecycleEvent
    ]
    if json:
        put_json(rows)
    else:
        put_table(
            ("event", "frame", "meaning"),
            [(str(row["event"]), "needed" if row["needs_frame"] else "", str(row["meaning"])) for row in rows],
        )
    return ExitCode.OK
