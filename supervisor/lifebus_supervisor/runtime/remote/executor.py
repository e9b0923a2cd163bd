"""Executes a run whose records a broker keeps: the same decisions and the same processes, in another process.

What happens is recorded before it is acted on, as in the broker.  Where others have recorded something meanwhile, an
answer or a request to abort, nothing is written, and it is decided again.
"""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
from anyio.abc import TaskGroup

from lifebus_contract import BrokerBusy, DeadlineExceeded, StateConflict, TransportError
from lifebus_contract.flows import OutcomeKind
from lifebus_contract.runs import StepStatus
from lifebus_supervisor.runtime.clocks import Clocks
from lifebus_supervisor.runtime.ports import RunPort, TryRunner
from lifebus_supervisor.runtime.rules.decisions import ObservedEnd, carry_on, decide, detach, end_records
from lifebus_supervisor.runtime.rules.run_reducer import apply_all, reduce_run
from lifebus_supervisor.runtime.run_records import RunRecord
from lifebus_supervisor.runtime.run_state import RunState

_AGAIN_S: Final = 0.3
"""After so many seconds a broker that does not answer is asked again."""

_WAIT_S: Final = 20.0
"""So long one question for changes waits."""

_SETTLE_S: Final = 0.05
"""So long the loop has to read what is new before it is looked again."""

_GONE: Final = (TransportError, DeadlineExceeded, BrokerBusy)


class RemoteExecutor:
    """Runs one run for `owner`.  `on_change` is called with every state that is durable."""

    def __init__(
        self,
        port: RunPort,
        runner: TryRunner,
        clocks: Clocks,
        owner: str,
        on_change: Callable[[RunState], None] = lambda _: None,
    ) -> None:
        self._port, self._runner, self._clocks, self._owner = port, runner, clocks, owner
        self._on_change = on_change
        self._tries: dict[str, tuple[int, anyio.Event]] = {}
        self._ends: list[tuple[str, int, ObservedEnd]] = []
        self._is_stale = False
        self._number = 0
        self._wake = anyio.Event()

    async def run(self, run_id: str, stop: anyio.Event) -> RunState:
        """Run it to its end, and return how it stands then; after `stop` is set: once what runs has been ended.

        A run that another one took over is left alone.

        Raises:
            LifebusError: the broker does not let this owner run it.
        """
        progress = await self._port.claim(run_id, self._owner)
        state = reduce_run(run_id, progress.records)
        self._note(state)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(self._watch_stop, stop)
            tasks.start_soon(self._watch_changes, run_id)
            state = await self._loop(state, stop, tasks)
            tasks.cancel_scope.cancel()
        return state

    async def _loop(self, state: RunState, stop: anyio.Event, tasks: TaskGroup) -> RunState:
        while self._is_ours(state):
            if stop.is_set():
                return await self._interrupt(state)
            wake = self._wake = anyio.Event()
            state, is_settled = await self._advance(state)
            self._begin(state, tasks)
            if is_settled:
                await self._rest(state, wake)
        for _, cancelled in self._tries.values():
            cancelled.set()
        await self._until_ended()
        return state

    def _is_ours(self, state: RunState) -> bool:
        return state.ended is None and state.is_attached and state.owner == self._owner

    async def _advance(self, state: RunState) -> tuple[RunState, bool]:
        """Record what has happened and what follows; return the durable state, and whether nothing is left to do."""
        if self._is_stale:
            self._is_stale = False
            return await self._record(state, ()), False
        now_ms = self._clocks.now_ms()
        ends = list(self._ends)
        records = self._ends_of(state, ends, now_ms)
        after = apply_all(state, records)
        following, _ = carry_on(after, now_ms)
        records += following
        if not records:
            del self._ends[: len(ends)]
            return state, not self._ends
        found = await self._record(state, records)
        return found, False

    def _ends_of(self, state: RunState, ends: Sequence[tuple[str, int, ObservedEnd]], now_ms: int) -> list[RunRecord]:
        """Return the records of the ends that are not on record."""
        records: list[RunRecord] = []
        for name, number, seen in ends:
            step = state.steps[name]
            if step.status is StepStatus.RUNNING and step.number == number:
                ended = end_records(state, name, seen, now_ms=now_ms, fraction=self._clocks.draw())
                records += ended
                state = apply_all(state, ended)
        return records

    async def _record(self, state: RunState, records: Sequence[RunRecord]) -> RunState:
        """Return the state once the records are durable, or that of what others recorded in their place."""
        while True:
            try:
                progress = await self._port.record(state.run_id, self._owner, state.number, records)
            except _GONE:
                # Whether it was written shows when the broker answers again: then these records are behind ours.
                await anyio.sleep(_AGAIN_S)
                continue
            except StateConflict as fault:
                if fault.code != "not_owner":
                    raise
                # Our last record ended the run and its answer was lost, or another one runs it: reading tells which.
                records = ()
                continue
            # What others record from here on is seen by the next wait.
            self._is_stale = False
            state = apply_all(state, records if progress.appended else progress.records)
            self._note(state)
            return state

    def _note(self, state: RunState) -> None:
        self._number = state.number
        self._on_change(state)

    def _begin(self, state: RunState, tasks: TaskGroup) -> None:
        """Begin the tries that are durable and do not run yet: only this owner begins any."""
        ended = {(name, number) for name, number, _ in self._ends}
        for name, step in state.steps.items():
            is_running = step.status is StepStatus.RUNNING and self._is_ours(state)
            if is_running and name not in self._tries and (name, step.number) not in ended:
                self._tries[name] = (step.number, anyio.Event())
                tasks.start_soon(self._run_try, state, name)

    async def _run_try(self, state: RunState, name: str) -> None:
        number, cancelled = self._tries[name]
        seen = await self._runner.run(state, name, cancelled)
        del self._tries[name]
        self._ends.append((name, number, seen))
        self._wake.set()

    async def _rest(self, state: RunState, wake: anyio.Event) -> None:
        """Wait until a try has ended, somebody has recorded something, a pause is over, or the run is to stop."""
        now_ms = self._clocks.now_ms()
        found = decide(state, now_ms)
        for name in found.stops:
            if name in self._tries:
                self._tries[name][1].set()
        due_s = None if found.due_at_ms is None else max(0, found.due_at_ms - now_ms) / 1000
        with anyio.move_on_after(due_s):
            await wake.wait()

    async def _watch_stop(self, stop: anyio.Event) -> None:
        await stop.wait()
        self._wake.set()

    async def _watch_changes(self, run_id: str) -> None:
        """Wake the loop when others have recorded something."""
        while True:
            try:
                run = await self._port.wait(run_id, self._number, _WAIT_S)
            except _GONE:
                await anyio.sleep(_AGAIN_S)
                continue
            if run.number > self._number:
                self._is_stale = True
                self._wake.set()
            # The loop reads what is new; asked again at once, the broker would say the same.
            await anyio.sleep(_SETTLE_S)

    async def _interrupt(self, state: RunState) -> RunState:
        """End what runs, and record that nobody runs the run any more; tries that ended by themselves count."""
        for _, cancelled in self._tries.values():
            cancelled.set()
        await self._until_ended()
        self._ends = [one for one in self._ends if one[2].outcome.kind is not OutcomeKind.ABORTED]
        while self._is_ours(state):
            now_ms = self._clocks.now_ms()
            ends = self._ends_of(state, self._ends, now_ms)
            left = detach(apply_all(state, ends), f"`{self._owner}` was told to end", now_ms)
            state = await self._record(state, [*ends, *left])
        return state

    async def _until_ended(self) -> None:
        while self._tries:
            wake = self._wake = anyio.Event()
            await wake.wait()
