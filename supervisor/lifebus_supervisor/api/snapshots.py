"""The snapshots of a running broker: when they are taken, and the verbs `save`, `resume`, `revise` and `state`."""

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import structlog
from anyio.abc import TaskGroup

from lifebus_broker.ledger.log import LogSource
from lifebus_broker.routing.bus import EventBus
from lifebus_broker.routing.fan_out import Fanout
from lifebus_broker.snapshots.files import find_snapshot
from lifebus_broker.snapshots.frozen import FrozenMap
from lifebus_broker.snapshots.revisions import Revision
from lifebus_broker.snapshots.snapshot import SaveType
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.snapshots.supplement import pinned_revisions
from lifebus_contract import BrokerBusy, InvalidRequest, LifebusError
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.state import Compiled, States, compile_state, state_at_floor
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.configuration.settings import Settings
from lifebus_supervisor.jobs.pin_revisions import plan_revision, write_revision
from lifebus_supervisor.jobs.snapshotter import RunningMark, Snapshotter
from lifebus_supervisor.jobs.state_directory import present_pins, snapshot_files
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_transports.messages.snapshots import Revise, ReviseAnswer, Save, SaveAnswer

T = TypeVar("T")

_MARK: Final = "running"

_log = structlog.get_logger("lifebus.snapshots")


class SnapshotVerbs:
    """Serves the verbs of snapshots and runs the snapshotter.

    `follower` is None where the ledger is not kept: then nothing is saved, and the verbs are refused.
    """

    def __init__(self, settings: Settings, bus: EventBus, follower: StateFollowerTask | None) -> None:
        self._bus, self._follower = bus, follower
        self._files = snapshot_files(settings)
        self._mark = RunningMark(settings.state_dir / _MARK)
        self._resumes = States(bus.ledger, self._compile_now)
        self._states = States(
            bus.ledger, partial(state_at_floor, bus.ledger.open_log, self._pins), lambda: bus.ledger.status().floor
        )
        self._snapshotter = None
        if follower is not None:
            self._snapshotter = Snapshotter(self._use, self._files, self._pins, time.monotonic)

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "save": self._save,
            "resume": lambda _, body: self._resumes.answer(body),
            "revise": self._revise,
            "state": lambda _, body: self._states.answer(body),
        }

    async def start(self, fanout: Fanout, tasks: TaskGroup) -> None:
        """Take snapshots at boundaries from now on; at once, where the broker before did not stop in order."""
        if self._snapshotter is None or self._follower is None:
            return
        fanout.listen(self._snapshotter.on_commit)
        # The mark is still there where the broker before was killed: nothing of its end was saved.
        if await anyio.to_thread.run_sync(self._mark.set):
            self._snapshotter.ask(SaveType.SESSION)
        tasks.start_soon(self._run, self._snapshotter, self._follower)

    def ask(self) -> None:
        """Take a snapshot soon: receipts were dropped, for instance, and older snapshots cannot be proved any more."""
        if self._snapshotter is not None:
            self._snapshotter.ask(SaveType.SESSION)

    async def stop(self) -> None:
        """Take a last snapshot, if there is time for it within the caller's deadline; the broker stopped in order.

        Everything is recorded by now.
        """
        if self._snapshotter is None:
            return
        if self._is_ready:
            try:
                await self._snapshotter.finish(anyio.current_effective_deadline() - anyio.current_time())
            except LifebusError as fault:
                _log.warning("snapshot_failed", type=SaveType.SESSION, detail=fault.detail[:200])
        # Removed last: a crash until here counts as a stop out of order.
        await anyio.to_thread.run_sync(self._mark.remove)

    def counters(self) -> Mapping[str, int]:
        """Return what `status` says of snapshots."""
        return {} if self._snapshotter is None else self._snapshotter.counters()

    @property
    def _is_ready(self) -> bool:
        """Whether the follower has read what was there at the start, so that its thread is free."""
        return self._follower is not None and self._follower.caught_up.is_set() and self._follower.broken is None

    async def _run(self, snapshotter: Snapshotter, follower: StateFollowerTask) -> None:
        await follower.caught_up.wait()
        await snapshotter.run()

    async def _use(self, work: Callable[[StateFollower, LogSource], T]) -> T:
        return await self._ready().use(work)

    async def _save(self, _: Call, body: Save) -> SaveAnswer:
        self._ready()
        if self._snapshotter is None:
            raise _not_kept()
        return await self._snapshotter.save(SaveType(body.save_type))

    async def _compile_now(self) -> Compiled:
        # Taken on the event loop: the registry may change while the follower's thread works.
        pins = self._pins()

        def compile_(state: StateFollower, _: LogSource) -> Compiled:
            return compile_state(state.advance(), pins)

        return await self._use(compile_)

    async def _revise(self, _: Call, body: Revise) -> ReviseAnswer:
        pins = self._pins()

        def plan(_: StateFollower, log: LogSource) -> Revision:
            snapshot = find_snapshot(self._files, body.snapshot_id)
            revisions = pinned_revisions(log, self._files.pinned(log.head))
            return plan_revision(snapshot, pins, revisions, body.reason)

        return await write_revision(self._bus.ledger.journal, await self._use(plan))

    def _ready(self) -> StateFollowerTask:
        if self._follower is None:
            raise _not_kept()
        # Before readiness, which a broken follower never reaches.
        if self._follower.broken is not None:
            raise InvalidRequest(f"the log is damaged: {self._follower.broken}", code="ledger_damaged")
        if not self._is_ready:
            raise BrokerBusy("the broker is still reading its ledger; try again", code="busy")
        return self._follower

    def _pins(self) -> FrozenMap:
        return present_pins(self._bus.registry)


def _not_kept() -> InvalidRequest:
    return InvalidRequest("the ledger is not kept: there is nothing to save or to resume", code="no_state")
