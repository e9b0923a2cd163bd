"""Which sources of a session are silent or broken, and which capabilities that takes away or gives back.  Pure.

An idle session loses nothing: silence counts only where something else shows that work was done.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from lifebus_broker.state.degradation import AFFECTED, Cause, Health, SilenceLimits, causes_of, lost, regained
from lifebus_broker.state.telemetry_keys import CAUSE
from lifebus_contract import AdapterManifest, Degradation, LifecycleEvent
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.rules.findings import GRACE_TICKS, Moment, SupervisionFinding

PATIENT_TICKS: Final = 15
"""For how many ticks of the first turn its telemetry may be on the way."""

_HEALTHY: Final = Health()

_BACK: Final = {
    Cause.HOOKS_SILENT: "a hook came again",
    Cause.TELEMETRY_MISSING: "the telemetry file is there again",
    Cause.TELEMETRY_UNREADABLE: "the telemetry can be read again",
    Cause.APP_SILENT: "the app was heard again",
}


def capability_findings(
    monitor: SessionMonitor,
    manifest: AdapterManifest,
    moment: Moment,
    limits: SilenceLimits,
    *,
    installed: bool,
    distrust: str | None = None,
) -> Iterator[SupervisionFinding]:
    """Yield what a session has lost or got back since its last receipt about it.

    `installed` says that the adapter has hooks, so that a session without any is silent too; `distrust` says why
    its harness does not run them, None where nothing is known that keeps it from that.
    """
    if monitor.state.ended or not monitor.loaded:
        return
    health = source_health(monitor, moment, installed=installed)
    if installed and shows_distrust(monitor, distrust):
        health = structs.replace(health, uncovered_ticks=max(health.uncovered_ticks, limits.hook_ticks))
    if health == _HEALTHY and not monitor.state.lost:
        return
    seen = {cause: text for cause, text in _evidence(monitor, moment, distrust).items() if text}
    now = causes_of(structs.replace(health, evidence=seen), limits)
    held = {one.capability: one.support for one in monitor.state.lost}
    before = {one.cause for one in monitor.state.lost}
    for cause, evidence in now.items():
        # The ledger's state knows what was recorded as lost, so a restart repeats nothing.
        if cause.value not in before:
            yield from _finding(cause, lost(manifest, cause, evidence, moment.epoch_s, held))
    for cause, evidence in _BACK.items():
        if cause.value in before and cause not in now and _is_back(cause, monitor):
            # What another cause still takes away does not come back with this one.
            still = {capability for other in now for capability in AFFECTED[other]}
            gone = [
                one.capability for one in monitor.state.lost if one.cause == cause.value and one.capability not in still
            ]
            hook = monitor.hooks.last_hook
            shown = f"{evidence}: {hook}" if cause is Cause.HOOKS_SILENT and hook else evidence
            yield from _finding(cause, regained(manifest, cause, shown, moment.epoch_s, gone))


def shows_distrust(monitor: SessionMonitor, distrust: str | None) -> bool:
    """Whether a turn is on record that no hook reported, and none will: an app-server reported it."""
    return distrust is not None and not monitor.is_hooked and bool(monitor.state.turns)


def source_health(monitor: SessionMonitor, moment: Moment, *, installed: bool) -> Health:
    """Return how the sources of a session are."""
    hooks, telemetry = monitor.hooks, monitor.telemetry
    silent_s = 0.0
    if hooks.by_app and monitor.state.frames and hooks.reported_at is not None:
        silent_s = moment.monotonic_s - hooks.reported_at
    return Health(
        missing_polls=telemetry.missing_polls if _is_missed(monitor) else 0,
        hung_polls=telemetry.hung_polls,
        unreadable_records=telemetry.unreadable,
        uncovered_ticks=_uncovered_ticks(monitor, moment) if installed or monitor.is_hooked else 0,
        app_silent_s=int(silent_s),
    )


def _is_missed(monitor: SessionMonitor) -> bool:
    """Whether a file that is not there should be: Claude Code makes its transcript after the first prompt's hooks."""
    telemetry = monitor.telemetry
    return bool(telemetry.files) or monitor.had_a_turn or telemetry.missing_polls >= PATIENT_TICKS


def _is_back(cause: Cause, monitor: SessionMonitor) -> bool:
    """Whether something shows that the source works again; that nothing is wrong now is not enough after a restart."""
    if cause is Cause.HOOKS_SILENT:
        return monitor.hooks.last_hook_at is not None
    if cause is Cause.APP_SILENT:
        return monitor.hooks.reported_at is not None
    return bool(monitor.telemetry.files)


def _uncovered_ticks(monitor: SessionMonitor, moment: Moment) -> int:
    """Return for how many ticks telemetry has shown work that no hook reported; 0 where the proof is too thin."""
    turns, hooks = monitor.turns, monitor.hooks
    if not (turns.unannounced or turns.ends or hooks.uncovered_ticks):
        return 0
    # An end that is no completion proves nothing: harnesses call no hook when a turn is interrupted.
    ends = [seen.tick for seen in turns.ends.values() if seen.fact.frame_end == "completed"]
    ticks = [tick for tick in (*turns.unannounced.values(), *ends) if moment.tick - tick >= GRACE_TICKS]
    if hooks.uncovered_since_tick is not None and hooks.proves_silence:
        ticks.append(hooks.uncovered_since_tick)
    return moment.tick - min(ticks) if ticks else 0


def _evidence(monitor: SessionMonitor, moment: Moment, distrust: str | None) -> dict[Cause, str]:
    """Return in words what was seen, for the receipt."""
    hooks, telemetry = monitor.hooks, monitor.telemetry
    since = (
        ("no hook since the broker started" if monitor.is_hooked else "no hook ever came")
        if hooks.last_hook_at is None
        else f"last hook {hooks.last_hook} {moment.monotonic_s - hooks.last_hook_at:.0f} s ago"
    )
    ticks = _uncovered_ticks(monitor, moment)
    work = f"telemetry shows work for {ticks} ticks" if ticks else "a turn began"
    why = "" if distrust is None else f": {distrust}"
    missing = "no answer from the file system" if telemetry.hung_polls else "telemetry file missing"
    polls = max(telemetry.missing_polls, telemetry.hung_polls)
    return {
        Cause.HOOKS_SILENT: f"{work}, {since}{why}",
        Cause.TELEMETRY_MISSING: f"{missing} for {polls} consecutive polls",
        Cause.TELEMETRY_UNREADABLE: telemetry.problem,
        Cause.APP_SILENT: "",
    }


def _finding(cause: Cause, changes: tuple[Degradation, ...]) -> Iterator[SupervisionFinding]:
    if changes:
        facts = {CAUSE: cause.value, "evidence": changes[0].evidence}
        yield SupervisionFinding(event=LifecycleEvent.CAPABILITY_DEGRADED, telemetry=facts, degradations=changes)
