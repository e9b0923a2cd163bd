"""How full the context of a try is while it runs: by the telemetry of the session that its harness has.

Which session that is shows in the environment of the harness's process: every try has the names of its run and step
there.  Where there is no ``/proc``, or no hook has named a process, nothing is known.
"""

from collections.abc import Iterable
from functools import partial
from pathlib import Path

import anyio.to_thread

from lifebus_supervisor.runtime.rules.step_environment import PREFIX
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState

_MAX_ENVIRONMENT = 4 * 1_048_576


async def context_of_try(
    monitors: Iterable[SessionMonitor], run_id: str, step_id: str, number: int
) -> ContextUse | None:
    """Return how full the context of a try is; of several sessions the fullest one counts."""
    known = [one for one in monitors if one.is_live and one.telemetry.usage is not None and one.process.known]
    if not known:
        return None
    pids = {one.key: [process.pid for process in one.process.known] for one in known}
    wanted = {f"{PREFIX}RUN={run_id}", f"{PREFIX}STEP={step_id}", f"{PREFIX}TRY={number}"}
    of_try = await anyio.to_thread.run_sync(partial(_with_environment, pids, {one.encode() for one in wanted}))
    found = [context for one in known if one.key in of_try and (context := _context_of(one.telemetry)) is not None]
    return max(found, key=lambda context: context.used or 0, default=None)


def _with_environment(pids: dict[tuple[str, str], list[int]], wanted: set[bytes]) -> set[tuple[str, str]]:
    """Return the sessions of which a process has these variables."""
    return {key for key, of_session in pids.items() if any(wanted <= _environment(pid) for pid in of_session)}


def _environment(pid: int) -> set[bytes]:
    try:
        with Path(f"/proc/{pid}/environ").open("rb") as file:
            return set(file.read(_MAX_ENVIRONMENT).split(b"\0"))
    except OSError:  # it is gone, or another user's, or this system has no such files
        return set()


def _context_of(telemetry: TelemetryState) -> ContextUse | None:
    usage = telemetry.usage
    if usage is None:
        return None
    window, source = telemetry.window_of(usage)
    return ContextUse(
        used=usage.used_tokens,
        used_source=f"telemetry: {usage.used_source}",
        window=window,
        window_source=f"telemetry: {source}" if window is not None else "",
    )
