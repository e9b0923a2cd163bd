"""How each harness is, for `status` and `doctor`: sessions, last receipts, files, and silent sources."""

from collections.abc import Sequence

from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.tailing.events import TailedFile
from lifebus_transports.messages.status import HarnessStatus, WaitingSession


def harness_statuses(supervisor: Supervisor, now: float, epoch_s: float) -> tuple[HarnessStatus, ...]:
    """Return the status of every harness that was seen; `now` is monotonic, `epoch_s` wall-clock, in seconds."""
    monitors: dict[str, list[SessionMonitor]] = {}
    files: dict[str, list[TailedFile]] = {}
    for monitor in supervisor.monitors:
        if monitor.state.sequence or monitor.hooks.last_hook_at is not None or monitor.is_live:
            monitors.setdefault(monitor.key[0], []).append(monitor)
    for one in supervisor.telemetry.files():
        files.setdefault(one.adapter_id, []).append(one)
    ticked = None if supervisor.ticked_at is None else int(now - supervisor.ticked_at)
    return tuple(
        _status(adapter_id, monitors.get(adapter_id, []), files.get(adapter_id, []), (now, epoch_s, ticked))
        for adapter_id in sorted(monitors.keys() | files.keys())
    )


def waiting_sessions(supervisor: Supervisor) -> tuple[WaitingSession, ...]:
    """Return the sessions that wait for somebody, those first that have waited longest."""
    waiting = [
        WaitingSession(adapter_id=one.key[0], harness_session_id=one.key[1], waiting=one.state.waits)
        for one in supervisor.monitors
        if one.loaded and one.state.waits
    ]
    return tuple(sorted(waiting, key=lambda one: (one.waiting[0].since_ms, one.adapter_id, one.harness_session_id)))


def _status(
    adapter_id: str,
    monitors: Sequence[SessionMonitor],
    files: Sequence[TailedFile],
    times: tuple[float, float, int | None],
) -> HarnessStatus:
    now, epoch_s, ticked = times
    newest = max(monitors, key=lambda monitor: monitor.state.last_at_epoch_s, default=None)
    hooks = [one.hooks.last_hook_at for one in monitors if one.hooks.last_hook_at is not None]
    ages = [one.age_s for one in files if one.age_s is not None]
    live = [monitor for monitor in monitors if monitor.is_live]
    has_receipt = newest is not None and newest.state.last_event is not None
    return HarnessStatus(
        adapter_id=adapter_id,
        sessions=len(live),
        open_frames=sum(len(monitor.state.frames) for monitor in live),
        last_event=None if newest is None else newest.state.last_event,
        last_event_age_s=max(0, int(epoch_s - newest.state.last_at_epoch_s))
        if newest is not None and has_receipt
        else None,
        last_hook_age_s=int(now - max(hooks)) if hooks else None,
        last_tick_age_s=ticked,
        files=len(files),
        newest_file_age_s=min(ages, default=None),
        skipped_records=sum(one.skipped for one in files),
        silent=tuple(sorted({lost.cause for monitor in live for lost in monitor.state.lost if lost.cause is not None})),
        degraded=tuple(sorted({lost.capability for monitor in live for lost in monitor.state.lost})),
    )
