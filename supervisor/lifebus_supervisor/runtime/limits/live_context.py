"""How full the contexts of tries are while they run: by the telemetry of the sessions that their harnesses have.

Which session that is shows in the environment of the harness's process: every try has the names of its run and step
there.  Where there is no ``/proc``, or no hook has named a process, nothing is known.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final

import anyio.to_thread

from lifebus_contract.flows import FLOW_VARIABLES
from lifebus_supervisor.runtime.limits.accounts import TryName
from lifebus_supervisor.runtime.limits.run_limits import TELEMETRY
from lifebus_supervisor.runtime.run_records import ContextUse
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor
from lifebus_supervisor.supervision.monitor.telemetry import TelemetryState

_MAX_ENVIRONMENT: Final = 4 * 1_048_576
_NAMES: Final = tuple(f"{FLOW_VARIABLES}{name}=".encode() for name in ("RUN", "STEP", "TRY"))


async def contexts_of_tries(monitors: Iterable[SessionMonitor]) -> dict[TryName, ContextUse]:
    """Return how full the contexts of tries are; of several sessions of a try the fullest one counts."""
    known = [one for one in monitors if one.is_live and one.telemetry.usage is not None and one.process.known]
    if not known:
        return {}
    pids = [[process.pid for process in one.process.known] for one in known]
    tries = await anyio.to_thread.run_sync(partial(_tries_of, pids))
    found: dict[TryName, ContextUse] = {}
    for monitor, of_session in zip(known, tries, strict=True):
        context = _context_of(monitor.telemetry)
        for one in of_session if context is not None else ():
            before = found.get(one)
            if context is not None and (before is None or (before.used or 0) < (context.used or 0)):
                found[one] = context
    return found


def _tries_of(pids: Sequence[Sequence[int]]) -> list[set[TryName]]:
    """Return for each session the tries that its processes belong to: one, as a rule, or none."""
    return [set(chain.from_iterable(_tries_named(_environment(pid)) for pid in of_session)) for of_session in pids]


def _tries_named(environment: set[bytes]) -> Iterable[TryName]:
    """Yield the try that the variables of a process name, where they name one."""
    values = [
        [word.removeprefix(name).decode(errors="replace") for word in environment if word.startswith(name)]
        for name in _NAMES
    ]
    if all(values) and values[2][0].isdecimal():
        yield values[0][0], values[1][0], int(values[2][0])


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
        used_source=TELEMETRY + usage.used_source,
        window=window,
        window_source=f"{TELEMETRY}{source}" if window is not None else "",
    )
