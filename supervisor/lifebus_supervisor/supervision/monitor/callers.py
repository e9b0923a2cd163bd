"""Which process a hook call shows to be a session's: one that calls now, called some time ago, or ends.

A call from the spool was made some time ago.  Its process takes part in what is known of the session, and shows no
life: it may be gone since.
"""

from collections.abc import Callable, Iterable

from lifebus_adapters.adapter import CallerProcess, HookCall, HookReading
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.environment import Environment
from lifebus_supervisor.supervision.monitor import process
from lifebus_supervisor.supervision.monitor.process import ProcessState
from lifebus_supervisor.supervision.monitor.session_monitor import SessionMonitor


def note_caller(monitor: SessionMonitor, call: HookCall, reading: HookReading, environment: Environment) -> None:
    """Take who made a call whose receipts have been applied, and that somebody is alive if it was made just now."""
    now = environment.now()
    if call.spooled_at_epoch_s is None:
        if not reading.display:
            monitor.hook_seen(reading.hook, now)
        monitor.called_by(call.process, call.call_id, by_harness=reading.by_harness)
        return
    last_hook_at, caller = monitor.hooks.last_hook_at, _known_caller(monitor.process, call.process, environment)
    # Spooled calls tell whole seconds: in doubt the call that came at once is the newer one.
    called_at = now - (environment.epoch() - call.spooled_at_epoch_s)
    is_outdated = last_hook_at is not None and called_at <= last_hook_at
    monitor.process = process.on_late_call(
        monitor.process, caller, call.call_id, is_outdated=is_outdated, is_over=monitor.state.ended
    )


def announce_exit(
    monitors: Iterable[SessionMonitor], call: HookCall, reading: HookReading, environment: Environment
) -> bool:
    """Take that a process ends with all its sessions, where it names none of them; return whether the call says so."""
    if call.process is None or all(
        emission.request.event != LifecycleEvent.SESSION_ENDED for emission in reading.emissions
    ):
        return False
    for monitor in monitors:
        exiting = _known_caller(monitor.process, call.process, environment)
        if monitor.key[0] != call.adapter_id or exiting is None:
            continue
        alive = _living(monitor.process, environment.is_alive)
        if process.ends_with(monitor.process, exiting, alive):
            evidence = f"the harness reported that it ends: {reading.hook}"
            monitor.process = process.on_exit_announced(monitor.process, evidence)
    return True


def _known_caller(state: ProcessState, caller: CallerProcess | None, environment: Environment) -> CallerProcess | None:
    """Return the process that made a call, as it is known; a late caller that is gone has but its id to go by."""
    if caller is None or environment.is_alive(caller):
        return caller
    # One with the same id that still runs has taken the id over.
    for one in (state.harness, state.candidate, state.caller, *state.others):
        if one is not None and one.pid == caller.pid and not environment.is_alive(one):
            return one
    return caller


def _living(state: ProcessState, is_alive: Callable[[CallerProcess], bool]) -> frozenset[CallerProcess]:
    return frozenset(one for one in state.known if is_alive(one))
