"""How a session that has ended is started again where no hook reports a start (docs/supervision.md, "Ends").  Pure."""

from typing import Final

from lifebus_broker.state.telemetry_keys import SOURCE
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.rules.findings import GRACE_TICKS, Moment, SupervisionFinding

RESUMED: Final = (LifecycleEvent.SESSION_STARTING, LifecycleEvent.SESSION_STARTED)
"""The events of a start, in order."""


def resumed_starts(sign: str, source: str) -> list[SupervisionFinding]:
    """Return the start of a session that goes on after its end; `sign` is what came, and `source` who reported it."""
    facts = {"synthesized": True, "resumed": True, "evidence": f"{sign} came after the session's end", SOURCE: source}
    return [SupervisionFinding(event=event, telemetry=dict(facts)) for event in RESUMED]


def reopening(monitor: SessionMonitor, moment: Moment) -> list[SupervisionFinding]:
    """Return the start of an ended session in whose files another turn has begun; who reports on it has time first."""
    resumed = monitor.turns.resumed
    if resumed is None or (not monitor.is_unreported and moment.tick - resumed.tick < GRACE_TICKS):
        return []
    return resumed_starts("a turn", resumed.source)
