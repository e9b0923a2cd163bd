"""What follows from what is known of a session: pressure, compactions, frames and sessions that nobody closed.  Pure.

A finding that becomes a receipt changes the ledger's state of the session, so that the next evaluation does not find it
again.
"""

from collections.abc import Iterator
from typing import Any

from lifebus_broker.state.pressure import Thresholds, next_level, percent_of
from lifebus_broker.state.telemetry_keys import LEVEL, SOURCE, USED
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.endings import SessionEnd, overdue_closings, session_closings, turn_endings
from lifebus_supervisor.supervision.findings import GRACE_TICKS, Moment, SupervisionFinding
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor


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
        return overdue_closings(monitor)
    if end is not None:
        # No hook comes any more for what the files prove.
        measured = [*pressure_change(monitor, moment, thresholds), *proved_compactions(monitor)]
        return [*measured, *session_closings(monitor, end)]
    measured = [*pressure_change(monitor, moment, thresholds), *_compactions(monitor, moment, awaits_hook=awaits_hook)]
    return [*measured, *turn_endings(monitor, moment, settle_s)]


def pressure_facts(monitor: SessionMonitor) -> dict[str, Any]:
    """Return the newest numbers as receipts carry them, nulls where nothing is known (docs/contract.md 2.5)."""
    usage, (window, window_source) = monitor.telemetry.usage, monitor.telemetry.window
    used = None if usage is None else usage.used_tokens
    facts: dict[str, Any] = {
        USED: used,
        "context_window_tokens": window,
        "context_used_pct": None if used is None else percent_of(used, window),
    }
    if usage is not None:
        facts["used_source"] = usage.used_source
        if usage.model is not None:
            facts["model"] = usage.model[:128]
    if window_source is not None:
        facts["window_source"] = window_source
    return facts


def pressure_change(monitor: SessionMonitor, moment: Moment, thresholds: Thresholds) -> Iterator[SupervisionFinding]:
    """Yield a change of level; where no window is reported in time, the first numbers only."""
    telemetry, state = monitor.telemetry, monitor.state
    usage, (window, _) = telemetry.usage, telemetry.window
    if usage is None:
        return
    level = next_level(state.level, usage.used_tokens, window, thresholds)
    if state.measured and level in {None, state.level}:
        return
    if level is None and moment.tick - (telemetry.first_usage_tick or 0) < GRACE_TICKS:
        return  # a hook reports its numbers before the file has the window
    facts = {LEVEL: None if level is None else level.value, SOURCE: usage.used_source, **pressure_facts(monitor)}
    yield SupervisionFinding(event=LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, telemetry=facts)


def proved_compactions(monitor: SessionMonitor) -> Iterator[SupervisionFinding]:
    """Yield the compactions that are proved and not recorded."""
    for key, proof in monitor.compactions.unrecorded_proofs(monitor.state.compactions).items():
        known = {
            "trigger": proof.fact.trigger,
            "tokens_before": proof.fact.tokens_before,
            "tokens_after": proof.fact.tokens_after,
        }
        facts = {SOURCE: proof.source} | {name: value for name, value in known.items() if value is not None}
        yield SupervisionFinding(event=LifecycleEvent.CONTEXT_COMPACTED, telemetry=facts, key=f"compacted:{key}"[:256])


def _compactions(monitor: SessionMonitor, moment: Moment, *, awaits_hook: bool) -> Iterator[SupervisionFinding]:
    """Yield the compactions that files prove and no hook reported, after the hook had its time."""
    since = monitor.compactions.waiting_since_tick
    if awaits_hook and since is not None and moment.tick - since < GRACE_TICKS:
        return
    yield from proved_compactions(monitor)
