"""The runs of a broker: submitted, listed, steered.

See docs/flows.md, "States".
"""

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import anyio.to_thread

from lifebus_contract import BrokerBusy, InvalidRequest, StateConflict
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.questions import AnswerAction, QuestionAnswer, QuestionInfo
from lifebus_contract.runs import (
    RunInfo,
    RunStatus,
    StepStatus,
)
from lifebus_supervisor.runtime.active_run import ActiveRun, Input
from lifebus_supervisor.runtime.limits.accounts import RunAccounts
from lifebus_supervisor.runtime.limits.session_compactor import SessionCompactor
from lifebus_supervisor.runtime.ports import Progress
from lifebus_supervisor.runtime.prompts import resolve_prompts
from lifebus_supervisor.runtime.root_lock import ways_on
from lifebus_supervisor.runtime.roots import Roots
from lifebus_supervisor.runtime.rules.run_inputs import (
    aborted,
    answered,
    attached,
    checked,
    not_retriable,
    owner_gone,
    retried,
)
from lifebus_supervisor.runtime.run_engine import RunEngine
from lifebus_supervisor.runtime.run_info import info_of
from lifebus_supervisor.runtime.run_records import BROKER, RunAttached, RunRecord, RunSubmitted
from lifebus_supervisor.runtime.run_state import RunState, is_retriable, require_step, start_state

RUN: Final = "run_"
"""What the ids of runs begin with."""

MAX_OPEN: Final = 4_096
"""Most runs that are not over."""

MAX_OVER: Final = 256
"""Most runs that are over and still listed; the oldest are forgotten."""


class RunTable:
    """The runs of a broker, by id.  `make_id` returns a new id with a prefix."""

    def __init__(self, engine: RunEngine, state_dir: Path, make_id: Callable[[str], str]) -> None:
        self.engine = engine
        self.on_active: Callable[[bool], None] = lambda _: None
        self._make_id = make_id
        self._runs: dict[str, ActiveRun] = {}
        self._roots = Roots(state_dir)
        self.accounts = RunAccounts(engine, self._require, SessionCompactor(state_dir, os.environ))
        self._making: set[str] = set()
        engine.on_change = self._changed
        engine.questions.listen(self._on_question)

    async def submit(
        self, definition: FlowDefinition, *, run_id: str | None = None, owner: str = BROKER, by: str
    ) -> RunInfo:
        """Begin a run, and return it once it is durable; the same `run_id` with the same definition is the same run.

        Another `owner` than the broker holds the lock of the root already (`root_lock`).

        Raises:
            StateConflict: ``root_taken``: another run holds the root; ``run_exists``: the id is another run's.
            InvalidRequest: a prompt is to a harness that cannot run one.
            LifebusError: it cannot be made durable now.
        """
        definition = resolve_prompts(definition)
        name = run_id or self._make_id(RUN)
        if (known := self._runs.get(name)) is not None:
            return _same(known, definition)
        if name in self._making or len(self._roots) >= MAX_OPEN:
            raise BrokerBusy("too many runs are open, or this one is being made right now; try again", code="busy")
        self._making.add(name)
        try:
            now_ms = self.engine.clocks.now_ms()
            first = RunSubmitted(at_ms=now_ms, definition=definition, by=by)
            run = ActiveRun(start_state(name, first), await _real_path(definition.root), unwritten=(first,))
            await self._roots.hold(run, owner)
            try:
                await self.engine.record(run, lambda _, now: (RunAttached(at_ms=now, owner=owner, by=by),))
            except BaseException:
                # It may have been written: then it is on record, and the next start goes on with it.
                if run.unwritten:
                    self._roots.release(run)
                else:
                    self._runs[name] = run
                raise
            self._runs[name] = run
            self.on_active(True)
        finally:
            self._making.discard(name)
        return info_of(run.state)

    def add(self, run: ActiveRun) -> None:
        """Take a run that was read from the journal; one that is not over has its root from here on."""
        self._runs[run.run_id] = run
        if run.state.ended is None:
            self._roots.keep(run)
            self.on_active(True)

    async def hold(self, run: ActiveRun) -> None:
        """Have the broker hold a run's root.

        Raises:
            LifebusError: another one does.
        """
        await self._roots.hold(run, BROKER)

    def runs(self) -> list[ActiveRun]:
        """Return the runs as they are in memory."""
        return [*self._runs.values()]

    def list(self, status: RunStatus | None = None) -> list[RunInfo]:
        """Return the runs that are known, the newest last; those of one status where one is given."""
        states = sorted((run.state for run in self._runs.values()), key=_by_start)
        found = [info_of(state) for state in states]
        return [info for info in found if status is None or info.status is status]

    def info(self, run_id: str) -> RunInfo:
        """Return how a run stands.

        Raises:
            InvalidRequest: ``no_run``.
        """
        return info_of(self._require(run_id).state)

    def definition(self, run_id: str) -> FlowDefinition:
        """Return what a run runs.

        Raises:
            InvalidRequest: ``no_run``.
        """
        return self._require(run_id).state.definition

    async def wait(self, run_id: str, after_number: int, wait_s: float) -> RunInfo:
        """Return how a run stands once it is over or has more than `after_number` records, or after `wait_s`.

        Raises:
            InvalidRequest: ``no_run``.
        """
        run = self._require(run_id)
        with anyio.move_on_after(wait_s):
            while run.state.number <= after_number and run.state.ended is None:
                await run.wait()
        return info_of(run.state)

    async def resume(self, run_id: str, by: str) -> RunInfo:
        """Have the broker go on with a run whose owner is gone; one that goes on already stays as it is.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``; ``root_taken``: its owner is still there, or another run holds the root.
        """
        run = self._require_open(run_id)
        if run.is_ours:
            return info_of(run.state)
        await self._roots.hold(run, BROKER)
        await self.engine.record(run, partial(attached, BROKER, by))
        return info_of(run.state)

    async def abort(self, run_id: str, by: str, reason: str = "") -> RunInfo:
        """End a run: what runs is stopped, open questions are withdrawn.  Returns when the request is durable.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``.
        """
        run = self._require_open(run_id)
        await self.engine.record(run, partial(aborted, by, reason))
        return info_of(run.state)

    async def retry(self, run_id: str, step_id: str, by: str) -> RunInfo:
        """Have a step tried again with a fresh series; an open question about it is answered with that.

        Raises:
            InvalidRequest: ``no_run``, ``no_step``.
            StateConflict: ``not_retriable``: the step is neither failed, nor asking, nor backing off.
        """
        run = self._require(run_id)
        step = require_step(run.state, step_id)
        if step.status is StepStatus.ASKING and step.question_id is not None:
            now_ms = self.engine.clocks.now_ms()
            answer = QuestionAnswer(action=AnswerAction.RETRY, responder=by, responded_at_ms=now_ms, channel="flow")
            await self.engine.questions.answer(step.question_id, answer)
            await self.engine.record(run, lambda _, __: ())  # behind the answer, which is recorded first
            return info_of(run.state)
        if not is_retriable(run.state, step):
            raise not_retriable(step_id, step.status)
        if run.state.ended is not None:
            await self._roots.hold(run, BROKER)
        await self.engine.record(run, partial(retried, step_id, by))
        self.on_active(True)
        return info_of(run.state)

    async def claim(self, run_id: str, owner: str) -> Progress:
        """Make a client the one that runs it; returns all records of the run.

        The client holds the lock of the root (`root_lock`) before it asks.

        Raises:
            InvalidRequest: ``no_run``.
            StateConflict: ``run_over``; ``root_taken``: somebody else runs it.
        """
        run = self._require_open(run_id)
        if run.state.is_attached and run.state.owner != owner:
            raise StateConflict(f"`{run.state.owner}` runs it; {ways_on(run_id)}", code="root_taken")
        await self._roots.hold(run, owner)
        await self.engine.record(run, partial(attached, owner, owner))
        records = await self.engine.journal.read(run_id)
        return Progress(number=len(records), appended=True, records=tuple(records))

    async def record(self, run_id: str, owner: str, after_number: int, records: Sequence[RunRecord]) -> Progress:
        """Record what happened in a run that a client executes; without records, read what others recorded.

        A question ends an append: records behind one in the same call are refused.

        Raises:
            InvalidRequest: ``no_run``; ``unrecordable``: a record cannot follow those before it.
            StateConflict: ``not_owner``: another one runs it by now.
        """
        run = self._require(run_id)
        stale = False

        def make(state: RunState, now_ms: int) -> Sequence[RunRecord]:  # noqa: ARG001  the client's own times hold
            nonlocal stale
            if state.owner != owner or not state.is_attached:
                raise StateConflict(f"`{owner[:64]}` does not run it any more", code="not_owner")
            stale = state.number != after_number
            return () if stale else checked(state, records)

        if records:
            await self.engine.record(run, make)
        else:
            stale = run.state.number != after_number
        missed = await self.engine.journal.read(run_id, after_number) if stale else []
        number = after_number + len(missed) if stale else after_number + len(records)
        return Progress(number=number, appended=not stale, records=tuple(missed))

    async def check_owners(self) -> None:
        """Take note of clients that ran a run and are gone: the lock of the root is free."""
        for run in self.runs():
            if not run.state.is_attached or run.is_ours:
                continue
            if not await self._roots.is_locked(run):
                self.engine.put(run, Input(partial(owner_gone, run.state.owner)))

    def close(self) -> None:
        """Let go of every root; the runs go on with the next broker."""
        self.engine.stop()
        for run in self._runs.values():
            run.release()

    @property
    def is_finishing(self) -> bool:
        """Whether the end of some try is known, and is not durable yet."""
        return self.engine.runner.is_finishing or any(run.is_writing for run in self._runs.values())

    @property
    def has_foreign(self) -> bool:
        """Whether a client runs some run."""
        return any(run.state.is_attached and not run.is_ours for run in self._runs.values())

    def _changed(self, run: ActiveRun) -> None:
        if run.state.ended is not None:
            self._roots.release(run)
            self.on_active(len(self._roots) > 0)
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        over = [run for run in self._runs.values() if run.state.ended is not None]
        for run in sorted(over, key=lambda run: run.state.ended_at_ms or 0)[: max(0, len(over) - MAX_OVER)]:
            del self._runs[run.run_id]
            self.engine.forget(run)

    def _on_question(self, info: QuestionInfo) -> None:
        """Take a settled question."""
        run = self._runs.get(info.question.run_id or "")
        if run is not None and info.answer is not None:
            self.engine.put(run, Input(partial(answered, info)))

    def _require(self, run_id: str) -> ActiveRun:
        run = self._runs.get(run_id)
        if run is None:
            raise InvalidRequest(f"there is no run `{run_id[:64]}`; `lifebus flow list` lists them", code="no_run")
        return run

    def _require_open(self, run_id: str) -> ActiveRun:
        run = self._require(run_id)
        if run.state.ended is not None:
            raise StateConflict(f"run `{run_id[:64]}` is {run.state.ended.value}", code="run_over")
        return run


def _same(run: ActiveRun, definition: FlowDefinition) -> RunInfo:
    if run.state.definition != definition:
        raise StateConflict(f"`{run.run_id[:64]}` is the id of another run", code="run_exists")
    return info_of(run.state)


def _by_start(state: RunState) -> tuple[int, str]:
    return state.started_at_ms, state.run_id


async def _real_path(root: str) -> str:
    return await anyio.to_thread.run_sync(os.path.realpath, root)
