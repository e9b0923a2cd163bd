"""From the updates of telemetry files to what the monitors know."""

from collections.abc import Sequence
from typing import Final

from lifebus_adapters.adapter import HookCall, HookReading
from lifebus_contract import LifecycleEvent
from lifebus_supervisor.supervision.environment import TelemetryTail
from lifebus_supervisor.supervision.monitor import compactions, telemetry
from lifebus_supervisor.supervision.monitor.session_monitor import SessionKey, SessionMonitor
from lifebus_supervisor.supervision.monitor_table import MonitorTable
from lifebus_supervisor.tailing.events import FileProblem, FileUpdate

_MOST_POLLS: Final = 5
"""How often files that go on growing are polled before a session's end is decided."""

_READ_TIMEOUT_S: Final = 0.06
"""How long a hook call that is about the context or decides an end waits for the session's files, in seconds."""

_ABOUT_CONTEXT: Final = frozenset({LifecycleEvent.CONTEXT_PRESSURE_OBSERVED, LifecycleEvent.CONTEXT_COMPACTED})
"""The events before which the session's files are read to where they are now."""

MatchedUpdate = tuple[SessionMonitor, FileUpdate]
"""An update, and a session that it is about."""


class TelemetryInbox:
    """What was read of telemetry files and the monitors have not taken yet.

    Passes and hook calls both read, and whoever takes first takes what the other one read.  Each update is kept here in
    the order of the polls and taken once: nothing waits between the end of a poll and the inbox.
    """

    def __init__(self, telemetry: TelemetryTail, monitors: MonitorTable) -> None:
        self._telemetry = telemetry
        self._monitors = monitors
        self._waiting: list[MatchedUpdate] = []

    async def poll(self, *, to_end: bool) -> list[MatchedUpdate]:
        """Poll all files and return what that found; `to_end` reads on where one poll could not take everything."""
        found: list[MatchedUpdate] = []
        polls, grows = 0, True
        while polls == 0 or (to_end and grows and polls < _MOST_POLLS):
            updates = await self._telemetry.poll()
            polls, grows = polls + 1, any(one.grown for one in updates)
            found += self._keep(updates)
        return found

    async def poll_before(self, call: HookCall, reading: HookReading, *, decides_end: bool) -> bool:
        """Poll the session's files before a call is recorded that is about its context, or that `decides_end`.

        Return whether it is such a call.  The harness waits for it: what the files do not give in time is left to the
        next pass.
        """
        session = reading.session
        if session is None:
            return False
        # What the file held when a late call about the context was made is not known; an end is one all the same.
        asks = call.spooled_at_epoch_s is None and any(one.request.event in _ABOUT_CONTEXT for one in reading.emissions)
        if not asks and not decides_end:
            return False
        if reading.transcript is not None:
            self._telemetry.follow(call.adapter_id, session, reading.transcript)
        self._keep(await self._telemetry.poll_session(call.adapter_id, session, _READ_TIMEOUT_S))
        return True

    def _keep(self, updates: Sequence[FileUpdate]) -> list[MatchedUpdate]:
        matched = match_updates(updates, self._monitors)
        self._waiting += matched
        return matched

    def take(self, *, tick: int, now: float, settle_s: float, only: SessionMonitor | None = None) -> None:
        """Let the monitors take what waits for them, or the `only` one; `settle_s` as for `ingest`."""
        taken = [one for one in self._waiting if only is None or one[0] is only]
        self._waiting = [] if only is None else [one for one in self._waiting if one[0] is not only]
        ingest(taken, tick=tick, now=now, settle_s=settle_s)


def match_updates(updates: Sequence[FileUpdate], monitors: MonitorTable) -> list[tuple[SessionMonitor, FileUpdate]]:
    """Return each update with the sessions it is about.

    A session that nobody knew gets a monitor of which only history is known.  What is wrong with a database concerns
    all sessions that it has reported on; a problem with a file that belongs to nobody is nobody's.
    """
    matched: list[tuple[SessionMonitor, FileUpdate]] = []
    for update in updates:
        sessions = _sessions_of(update)
        for session in sorted(sessions):
            monitor = monitors.get((update.adapter_id, session))
            if monitor is None and update.facts:
                monitor = monitors.open((update.adapter_id, session))
                monitor.telemetry = telemetry.with_history_only(monitor.telemetry, True)
            if monitor is not None:
                matched.append((monitor, update))
        if update.session is None:  # a database of many sessions
            # Sessions without new records too: that the database can be read, or cannot, concerns them as well.
            others = (one for one in monitors if _has_file(one, update) and one.key[1] not in sessions)
            matched += [(monitor, update) for monitor in others]
    return matched


def ingest(matched: Sequence[tuple[SessionMonitor, FileUpdate]], *, tick: int, now: float, settle_s: float) -> None:
    """Let the monitors take the updates; `settle_s` is for how long after a hook its telemetry may be on the way."""
    for monitor, update in matched:
        if monitor.key[1] in _sessions_of(update):
            _ingest_facts(monitor, update, tick=tick, now=now, settle_s=settle_s)
        if update.problem is None:
            monitor.telemetry = telemetry.on_read(
                monitor.telemetry, update.path, update.unreadable_run, has_facts=bool(update.facts)
            )
        if update.problem or update.unreadable_run:
            unreadable = f"{update.source_id}: {update.unreadable_run} unreadable records in a row"
            monitor.telemetry = telemetry.on_problem(monitor.telemetry, update.evidence or unreadable)


def count_problems(matched: Sequence[tuple[SessionMonitor, FileUpdate]], monitors: MonitorTable) -> None:
    """Count, once a tick, for how many polls the sessions have been without their telemetry.

    Of several files the one that reported last counts.  One that was never there is not missed before the first turn.
    """
    problems: dict[SessionKey, dict[str, FileProblem]] = {}
    for monitor, update in matched:
        if update.problem is not None:
            problems.setdefault(monitor.key, {})[update.path] = update.problem
    for monitor in monitors:
        own, newest = problems.get(monitor.key, {}), monitor.telemetry.newest_file
        problem = own.get(newest) if newest is not None else next(iter(own.values()), None)
        # Harnesses name their transcript before they make it.
        is_due = newest is not None or bool(monitor.state.turns)
        monitor.telemetry = telemetry.on_polled(
            monitor.telemetry,
            missing=is_due and problem not in {None, "hung"},
            hung=is_due and problem == "hung",
        )


def _ingest_facts(monitor: SessionMonitor, update: FileUpdate, *, tick: int, now: float, settle_s: float) -> None:
    history = update.history and not monitor.telemetry.is_new
    # After a restart a whole file is history; for a session that the ledger has open it counts all the same.
    is_known_open = monitor.state.last_event is not None and not monitor.state.ended
    if not history or is_known_open:
        monitor.telemetry = telemetry.with_history_only(monitor.telemetry, False)
    hook_at = monitor.hooks.last_hook_at
    settled = hook_at is None or now - hook_at > settle_s
    for fact in update.facts:
        if fact.session == monitor.key[1]:
            monitor.observe(fact, update.source_id, tick, settled=settled, history=history)
    if update.grown:
        monitor.telemetry = telemetry.on_growth(monitor.telemetry, now)
        monitor.idle_ticks = 0
    if history:
        monitor.compactions = compactions.on_history_read(monitor.compactions)


def _sessions_of(update: FileUpdate) -> set[str]:
    return {fact.session for fact in update.facts} | ({update.session} if update.session else set())


def _has_file(monitor: SessionMonitor, update: FileUpdate) -> bool:
    return monitor.key[0] == update.adapter_id and update.path in monitor.telemetry.files
