"""Which sources of a session are silent or broken, and which capabilities that takes away or gives back.

An idle session loses nothing: silence counts only where something else shows that work was done.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import structs

from lifebus_broker.state.degradation import AFFECTED, Cause, Health, SilenceLimits, causes_of, lost, regained
from lifebus_broker.state.telemetry_keys import CAUSE
from lifebus_contract import AdapterManifest, Degradation, LifecycleEvent
from lifebus_supervisor.supervision.evaluation import GRACE_TICKS, Finding, Moment
from lifebus_supervisor.supervision.session_monitor import SessionMonitor

ENOUGH_TICKS: Final = 2
"""In how many ticks telemetry must show work outside any frame before it counts: a file's last lines come late."""

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
    watch: SessionMonitor, manifest: AdapterManifest, moment: Moment, limits: SilenceLimits, *, hooks_expected: bool
) -> Iterator[Finding]:
    """Yield what a session has lost or got back since its last receipt about it.

    `hooks_expected` says that hooks are installed for the adapter, so that a session without any is silent too.
    """
    if watch.state.ended or not watch.loaded:
        return
    health = health_of(watch, moment, hooks_expected=hooks_expected)
    if health == _HEALTHY and not watch.state.lost:
        return
    seen = {cause: text for cause, text in _evidence(watch, moment).items() if text}
    now = causes_of(structs.replace(health, evidence=seen), limits)
    held = {one.capability: one.support for one in watch.state.lost}
    before = {one.cause for one in watch.state.lost}
    for cause, evidence in now.items():
        if cause.value not in before:
            yield from _finding(cause, lost(manifest, cause, evidence, moment.epoch_s, held))
    for cause, evidence in _BACK.items():
        if cause.value in before and cause not in now and _is_back(cause, watch):
            still = {capability for other in now for capability in AFFECTED[other]}
            gone = [
                one.capability for one in watch.state.lost if one.cause == cause.value and one.capability not in still
            ]
            said = f"{evidence}: {watch.hook}" if cause is Cause.HOOKS_SILENT and watch.hook else evidence
            yield from _finding(cause, regained(manifest, cause, said, moment.epoch_s, gone))


def health_of(watch: SessionMonitor, moment: Moment, *, hooks_expected: bool) -> Health:
    """Return how the sources of a session are."""
    silent = 0.0
    if watch.app and watch.state.frames and watch.heard_at is not None:
        silent = moment.now - watch.heard_at
    return Health(
        missing_polls=watch.missing if _is_missed(watch) else 0,
        hung_polls=watch.hung,
        unreadable_records=watch.unreadable,
        uncovered_ticks=_uncovered_ticks(watch, moment) if hooks_expected or watch.hooked else 0,
        app_silent_s=int(silent),
    )


def _is_missed(watch: SessionMonitor) -> bool:
    """Whether a file that is not there should be: Claude Code makes its transcript after the first prompt's hooks."""
    return bool(watch.files) or watch.had_a_turn or watch.missing >= PATIENT_TICKS


def _is_back(cause: Cause, watch: SessionMonitor) -> bool:
    """Whether something shows that the source works again; that nothing is wrong now is not enough after a restart."""
    if cause is Cause.HOOKS_SILENT:
        return watch.hook_at is not None
    if cause is Cause.APP_SILENT:
        return watch.heard_at is not None
    return bool(watch.files)


def _uncovered_ticks(watch: SessionMonitor, moment: Moment) -> int:
    """Return for how many ticks telemetry has shown work that no hook told of; 0 where the proof is too thin."""
    if not (watch.started or watch.ended or watch.work_ticks):
        return 0
    turns = [tick for tick in watch.started.values() if moment.tick - tick >= GRACE_TICKS]
    turns += [
        seen.tick
        for seen in watch.ended.values()
        if seen.fact.frame_end == "completed" and moment.tick - seen.tick >= GRACE_TICKS
    ]
    if len(watch.work_ticks) >= ENOUGH_TICKS and watch.work_tick is not None:
        turns.append(watch.work_tick)
    return moment.tick - min(turns) if turns else 0


def _evidence(watch: SessionMonitor, moment: Moment) -> dict[Cause, str]:
    """Return in words what was seen, for the receipt."""
    since = (
        ("no hook since the broker started" if watch.hooked else "no hook ever came")
        if watch.hook_at is None
        else f"last hook {watch.hook} {moment.now - watch.hook_at:.0f} s ago"
    )
    ticks = _uncovered_ticks(watch, moment)
    missing = "no answer from the file system" if watch.hung else "telemetry file missing"
    return {
        Cause.HOOKS_SILENT: f"telemetry shows work for {ticks} ticks, {since}",
        Cause.TELEMETRY_MISSING: f"{missing} for {max(watch.missing, watch.hung)} consecutive polls",
        Cause.TELEMETRY_UNREADABLE: watch.problem,
        Cause.APP_SILENT: "",
    }


def _finding(cause: Cause, changes: tuple[Degradation, ...]) -> Iterator[Finding]:
    if changes:
        facts = {CAUSE: cause.value, "evidence": changes[0].evidence}
        yield Finding(event=LifecycleEvent.CAPABILITY_DEGRADED, telemetry=facts, degradations=changes)
