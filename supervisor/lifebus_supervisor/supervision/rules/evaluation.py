"""What follows from what is known of a session: pressure, compactions, frames and sessions that nobody closed.  Pure.

A finding that becomes a receipt changes the ledger's state of the session, so that the next evaluation does not find it
again.
"""

from collections.abc import Iterator

from lifebus_adapters.shared.telemetry import Usage
from lifebus_broker.state.pressure import Thresholds
from lifebus_broker.state.telemetry_keys import SOURCE
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.monitor.compactions import CompactionProof
from lifebus_supervisor.supervision.monitor.pressure import pressure_facts, read_pressure
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.rules.endings import SessionEnd, overdue_closings, session_closings, turn_endings
from lifebus_supervisor.supervision.rules.findings import GRACE_TICKS, Moment, SupervisionFinding
from lifebus_supervisor.supervision.rules.reopening import reopening
from lifebus_supervisor.supervision.rules.waiting import ended_by_tools, with_ended_waits


def evaluate(
    monitor: SessionMonitor,
    moment: Moment,
    thresholds: Thresholds,
    *,
    end: SessionEnd | None,
    awaits_hook: bool,
    settle_s: float,
) -> list[SupervisionFinding]:
    """Return what is to be recorded of a session now.

    `end` says that it is over (`endings.session_end`); `awaits_hook` says that a hook reports compactions too, and has
    its time before a file is believed; `settle_s` is how long an announced end waits for a sign of life.
    """
    if monitor.state.ended:  # nothing is measured behind an end
        return [*overdue_closings(monitor), *reopening(monitor, moment)]
    is_over = end is not None
    measured = _measured(monitor, moment, thresholds, awaits_hook=awaits_hook, is_last=is_over)
    endings = turn_endings(monitor, moment, settle_s) if end is None else session_closings(monitor, end)
    return with_ended_waits(monitor, [*measured, *endings], moment.epoch_ms, [*ended_by_tools(monitor)])


def pressure_change(monitor: SessionMonitor, moment: Moment, thresholds: Thresholds) -> list[SupervisionFinding]:
    """Return a change of level that can be recorded now; what was measured behind a compaction waits for that."""
    if monitor.state.ended:
        return []
    changes = _PressureChanges(monitor, moment, thresholds)
    pending = monitor.compactions.unrecorded_proofs(monitor.state.compactions)
    first = next(iter(pending.values()), None)
    return [*changes.up_to(monitor.telemetry.usage if first is None else first.before)]


def proved_compactions(monitor: SessionMonitor) -> Iterator[SupervisionFinding]:
    """Yield the compactions that are proved and not recorded."""
    for key, proof in monitor.compactions.unrecorded_proofs(monitor.state.compactions).items():
        yield _compaction(key, proof)


def _measured(
    monitor: SessionMonitor, moment: Moment, thresholds: Thresholds, *, awaits_hook: bool, is_last: bool
) -> Iterator[SupervisionFinding]:
    """Yield compactions and changes of pressure in the order in which they were observed.

    Nothing comes after what `is_last`: no hook for what the files prove, and no window for what was measured.
    """
    changes = _PressureChanges(monitor, moment, thresholds, is_last=is_last)
    pending = monitor.compactions.unrecorded_proofs(monitor.state.compactions)
    since = monitor.compactions.waiting_since_tick
    waits = not is_last and awaits_hook and since is not None and moment.tick - since < GRACE_TICKS
    for key, proof in pending.items():
        yield from changes.up_to(proof.before)
        if waits:  # what was measured behind it waits too
            return
        yield _compaction(key, proof)
    yield from changes.up_to(monitor.telemetry.usage)


class _PressureChanges:
    """The changes of level that one evaluation finds, each compared with the one before."""

    def __init__(
        self, monitor: SessionMonitor, moment: Moment, thresholds: Thresholds, *, is_last: bool = False
    ) -> None:
        self._telemetry, self._thresholds = monitor.telemetry, thresholds
        self._level, self._measured = monitor.state.level, monitor.state.measured
        # A hook reports its numbers before the file has the window.
        waited = moment.tick - (monitor.telemetry.first_usage_tick or 0) >= GRACE_TICKS
        self._takes_unknown = waited or is_last

    def up_to(self, usage: Usage | None) -> Iterator[SupervisionFinding]:
        """Yield the change of level that a usage shows; where no window is known in time, the first numbers only."""
        if usage is None:
            return
        reading = read_pressure(self._telemetry, usage, self._level, self._thresholds)
        if self._measured and reading.level in {None, self._level}:
            return
        if reading.level is None and not self._takes_unknown:
            return
        self._level, self._measured = reading.level, True
        facts = {SOURCE: usage.used_source, **pressure_facts(reading)}
        yield SupervisionFinding(event=LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, telemetry=facts)


def _compaction(key: str, proof: CompactionProof) -> SupervisionFinding:
    known = {
        "trigger": proof.fact.trigger,
        "tokens_before": proof.fact.tokens_before,
        "tokens_after": proof.fact.tokens_after,
    }
    facts = {SOURCE: proof.source} | {name: value for name, value in known.items() if value is not None}
    return SupervisionFinding(event=LifecycleEvent.CONTEXT_COMPACTED, telemetry=facts, key=f"compacted:{key}"[:256])
