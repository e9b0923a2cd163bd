"""The saves of a running broker: the saver at work, and the verbs `save`, `resume`, `revise` and `state`."""

import time
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.routing.bus import Bus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.snapshots.files import find_snapshot
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.revisions import REVISIONS, Revision
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError
from lifebus_supervisor.api.consumers import Later
from lifebus_supervisor.api.state import Compiled, States, compile_state, state_at_floor
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.pin_revisions import plan_revision, write_revision
from lifebus_supervisor.jobs.snapshotter import RunningMark, Snapshotter
from lifebus_supervisor.jobs.state_directory import pins_here, snapshot_files
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_transports.messages.snapshots import Revise, ReviseAnswer, Save, SaveAnswer
from lifebus_transports.zmq.requests import Caller

T = TypeVar("T")

_MARK: Final = "running"

_log = structlog.get_logger("lifebus.snapshots")


class Saves:
    """Serves the verbs of saves, and owns the saver; `keeping` is None where the ledger is kept in memory."""

    def __init__(self, settings: Settings, bus: Bus, keeping: StateFollowerTask | None) -> None:
        self._bus, self._keeping = bus, keeping
        self._files = snapshot_files(settings)
        self._mark = RunningMark(settings.state_dir / _MARK)
        self._resumes = States(bus.ledger, self._compile_now)
        self._states = States(
            bus.ledger, partial(state_at_floor, settings.ledger_path, self._pins), lambda: bus.ledger.status().floor
        )
        self.saver = None if keeping is None else Snapshotter(self._use, self._files, self._pins, time.monotonic)

    def verbs(self, later: Later) -> dict[str, Callable[[Caller, Any], None]]:
        """Return what `Service.extend` takes."""
        served: dict[str, Callable[[Any], Awaitable[object]]] = {
            "save": self._save,
            "resume": self._resumes.answer,
            "revise": self._revise,
            "state": self._states.answer,
        }
        return {verb: partial(later, "reads", work) for verb, work in served.items()}

    async def start(self, fanout: Fanout, tasks: TaskGroup) -> None:
        """Save at boundaries from now on; at once, where the broker before did not stop in order."""
        if self.saver is None or self._keeping is None:
            return
        fanout.listen(self.saver.note)
        if await anyio.to_thread.run_sync(self._mark.set):
            self.saver.ask(SaveType.SESSION)
        tasks.start_soon(self._run, self.saver, self._keeping)

    def ask(self) -> None:
        """Save soon: receipts were dropped, for instance, and older snapshots cannot be proved any more."""
        if self.saver is not None:
            self.saver.ask(SaveType.SESSION)

    async def stop(self) -> None:
        """Save a last time, if there is time for it within the deadline of who calls; the broker stopped in order.

        Everything is recorded by now.
        """
        if self.saver is None:
            return
        if self._is_ready:
            try:
                await self.saver.finish(anyio.current_effective_deadline() - anyio.current_time())
            except LifebusError as fault:
                _log.warning("save_failed", type=SaveType.SESSION, detail=fault.detail[:200])
        await anyio.to_thread.run_sync(self._mark.remove)

    def counters(self) -> dict[str, int]:
        """Return what `status` tells of saves."""
        return {} if self.saver is None else self.saver.counters()

    @property
    def _is_ready(self) -> bool:
        """Whether the keeper has read what was there at the start, so that its thread is free."""
        return self._keeping is not None and self._keeping.taken_up.is_set() and self._keeping.broken is None

    async def _run(self, saver: Snapshotter, keeping: StateFollowerTask) -> None:
        await keeping.taken_up.wait()
        await saver.run()

    async def _use(self, work: Callable[[StateFollower, LogSource], T]) -> T:
        return await self._ready().use(work)

    async def _save(self, body: Save) -> SaveAnswer:
        self._ready()
        if self.saver is None:
            raise _in_memory()
        return await self.saver.save(SaveType(body.save_type))

    async def _compile_now(self) -> Compiled:
        pins = self._pins()

        def compile_(keeper: StateFollower, _: LogSource) -> Compiled:
            return compile_state(keeper.advance(), pins)

        return await self._use(compile_)

    async def _revise(self, body: Revise) -> ReviseAnswer:
        pins = self._pins()

        def plan(_: StateFollower, log: LogSource) -> Revision:
            snapshot = find_snapshot(self._files, body.snapshot_id)
            return plan_revision(snapshot, pins, log.notes(REVISIONS), body.reason)

        return await write_revision(self._bus.ledger.journal, await self._use(plan))

    def _ready(self) -> StateFollowerTask:
        if self._keeping is None:
            raise _in_memory()
        if self._keeping.broken is not None:
            raise InvalidRequest(f"the log is damaged: {self._keeping.broken}", code="ledger_damaged")
        if not self._is_ready:
            raise BrokerBusy("the broker is still reading its ledger; try again", code="busy")
        return self._keeping

    def _pins(self) -> FrozenMap:
        return pins_here(self._bus.registry)


def _in_memory() -> InvalidRequest:
    return InvalidRequest("the ledger is kept in memory: there is nothing to save or to resume", code="no_state")
