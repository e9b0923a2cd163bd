"""How each harness is, for `status` and `doctor`: sessions, last words, files, and what has gone quiet."""

from collections.abc import Sequence

from lifebus_supervisor.supervision.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.supervisor import Supervisor
from lifebus_supervisor.tailing.events import WatchedFile
from lifebus_transports.messages.status import HarnessStatus


def harness_statuses(supervisor: Supervisor, now: float, epoch_s: float) -> tuple[HarnessStatus, ...]:
    """Return the status of every harness that was seen; `now` is monotonic, `epoch_s` wall-clock, in seconds."""
    watches: dict[str, list[SessionMonitor]] = {}
    files: dict[str, list[WatchedFile]] = {}
    for watch in supervisor.watches:
        if watch.state.sequence or watch.hook_at is not None or watch.is_live:
            watches.setdefault(watch.key[0], []).append(watch)
    for one in supervisor.watcher.files():
        files.setdefault(one.adapter_id, []).append(one)
    ticked = None if supervisor.ticked_at is None else int(now - supervisor.ticked_at)
    return tuple(
        _status(adapter_id, watches.get(adapter_id, []), files.get(adapter_id, []), (now, epoch_s, ticked))
        for adapter_id in sorted(watches.keys() | files.keys())
    )


def _status(
    adapter_id: str,
    watches: Sequence[SessionMonitor],
    files: Sequence[WatchedFile],
    times: tuple[float, float, int | None],
) -> HarnessStatus:
    now, epoch_s, ticked = times
    newest = max(watches, key=lambda watch: watch.state.last_at_epoch_s, default=None)
    hooks = [watch.hook_at for watch in watches if watch.hook_at is not None]
    ages = [one.age_s for one in files if one.age_s is not None]
    live = [watch for watch in watches if watch.is_live]
    told = newest is not None and newest.state.last_event is not None
    return HarnessStatus(
        adapter_id=adapter_id,
        sessions=len(live),
        open_frames=sum(len(watch.state.frames) for watch in live),
        last_event=None if newest is None else newest.state.last_event,
        last_event_age_s=max(0, int(epoch_s - newest.state.last_at_epoch_s)) if newest is not None and told else None,
        last_hook_age_s=int(now - max(hooks)) if hooks else None,
        last_tick_age_s=ticked,
        files=len(files),
        newest_file_age_s=min(ages, default=None),
        skipped_records=sum(one.skipped for one in files),
        silent=tuple(sorted({lost.cause for watch in live for lost in watch.state.lost if lost.cause is not None})),
        degraded=tuple(sorted({lost.capability for watch in live for lost in watch.state.lost})),
    )
