"""The verbs of flows and their runs (docs/flows.md, "Verbs")."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import structs

from lifebus_contract import InvalidRequest
from lifebus_contract.runs import CompactionEnd, ContextSignals, CostSummary, RunInfo, StepInfo, StepStatus
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.run_output import read_output
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.runtime.limits.session_compactor import CompactionRequest
from lifebus_supervisor.runtime.ports import Progress
from lifebus_supervisor.runtime.run_names import no_step
from lifebus_supervisor.runtime.run_records import BROKER, RunRecord
from lifebus_supervisor.runtime.run_table import RunTable
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.flows import (
    FlowAbort,
    FlowClaim,
    FlowCompact,
    FlowCost,
    FlowCosts,
    FlowEventPage,
    FlowEvents,
    FlowListing,
    FlowLog,
    FlowLogs,
    FlowOutput,
    FlowPage,
    FlowProgress,
    FlowRecord,
    FlowResume,
    FlowRetry,
    FlowShow,
    FlowSignalsQuery,
    FlowStanding,
    FlowSubmit,
    FlowWait,
    RunSummary,
)

_MAX_CURRENT: Final = 8
"""Most steps that a line of a list names."""

_MAX_PROGRESS: Final = 512
"""Most records in one answer."""


class FlowVerbs:
    """Serves the verbs of `runs`; what their tries wrote lies below `state_dir`."""

    def __init__(self, runs: RunTable, state_dir: Path) -> None:
        self._runs, self._state_dir = runs, state_dir

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "flow_submit": self._submit,
            "flow_list": self._list,
            "flow_show": self._show,
            "flow_wait": self._wait,
            "flow_resume": self._resume,
            "flow_abort": self._abort,
            "flow_retry": self._retry,
            "flow_signals": self._signals,
            "flow_logs": self._logs,
            "flow_log": self._log,
            "flow_cost": self._cost,
            "flow_costs": self._costs,
            "flow_events": self._events,
            "flow_compact": self._compact,
            "flow_claim": self._claim,
            "flow_record": self._record,
        }

    async def _submit(self, _: Call, body: FlowSubmit) -> RunInfo:
        return await self._runs.submit(body.definition, run_id=body.run_id, owner=body.owner or BROKER, by=body.by)

    async def _list(self, _: Call, body: FlowListing) -> FlowPage:
        runs = self._runs.list(body.status)
        if body.before is not None:
            border = self._runs.info(body.before)
            # By the time and the id: runs that begin in one millisecond have an order, too.
            runs = [one for one in runs if _place(one) < _place(border)]
        newest = sorted(runs, key=_place, reverse=True)
        return FlowPage(runs=tuple(summary_of(one) for one in newest[: body.limit]), complete=len(newest) <= body.limit)

    async def _show(self, _: Call, body: FlowShow) -> FlowStanding:
        return FlowStanding(run=self._runs.info(body.run_id), definition=self._runs.definition(body.run_id))

    async def _wait(self, _: Call, body: FlowWait) -> RunInfo:
        run = self._runs.info(body.run_id)
        # Of a run that is over nothing comes any more.
        if not run.status.is_over and run.number <= body.after_number:
            run = await self._runs.wait(body.run_id, body.after_number, body.wait_ms / 1000)
        return with_newest_tries(run)

    async def _resume(self, _: Call, body: FlowResume) -> RunInfo:
        return with_newest_tries(await self._runs.resume(body.run_id, body.by))

    async def _abort(self, _: Call, body: FlowAbort) -> RunInfo:
        return with_newest_tries(await self._runs.abort(body.run_id, body.by, body.reason))

    async def _retry(self, _: Call, body: FlowRetry) -> RunInfo:
        return with_newest_tries(await self._runs.retry(body.run_id, body.step_id, body.by))

    async def _signals(self, _: Call, body: FlowSignalsQuery) -> ContextSignals:
        step_id = body.step_id or step_in_question(self._runs.info(body.run_id).steps)
        return await self._runs.accounts.signals(body.run_id, step_id)

    async def _logs(self, _: Call, body: FlowLogs) -> FlowOutput:
        step = _step_of(self._runs.info(body.run_id), body.step_id)
        number = body.number or (step.tries[-1].number if step.tries else 0)
        if not number:
            raise InvalidRequest(f"`{body.step_id[:64]}` was not tried yet", code="no_output")
        running = any(one.number == number and one.ended_at_ms is None for one in step.tries)
        return await read_output(self._state_dir, body, number, running=running)

    async def _log(self, _: Call, body: FlowLog) -> Nothing:
        await self._runs.accounts.log(body.event)
        return Nothing()

    async def _cost(self, _: Call, body: FlowCost) -> CostSummary:
        return await self._runs.accounts.cost(body.record)

    async def _costs(self, _: Call, body: FlowCosts) -> CostSummary:
        return self._runs.accounts.costs(body.run_id)

    async def _events(self, _: Call, body: FlowEvents) -> FlowEventPage:
        events = await self._runs.accounts.events(body.run_id)
        end = body.after + body.limit
        return FlowEventPage(events=tuple(events[body.after : end]), complete=len(events) <= end)

    async def _compact(self, _: Call, body: FlowCompact) -> CompactionEnd:
        at_ms = self._runs.engine.clocks.now_ms()
        request = CompactionRequest(instructions=body.instructions, time_limit_ms=body.time_limit_ms, at_ms=at_ms)
        return await self._runs.accounts.compact(body.run_id, body.step_id, request)

    async def _claim(self, _: Call, body: FlowClaim) -> FlowProgress:
        return _on_the_wire(await self._runs.claim(body.run_id, body.owner))

    async def _record(self, _: Call, body: FlowRecord) -> FlowProgress:
        try:
            records = [msgspec.convert(one, RunRecord) for one in body.records]
        except msgspec.ValidationError as fault:
            raise InvalidRequest(f"records: {fault}", code="against_contract", field="records") from None
        return _on_the_wire(await self._runs.record(body.run_id, body.owner, body.after_number, records))


def _on_the_wire(progress: Progress) -> FlowProgress:
    """Return how far a run is, with as many of the records as one answer may have."""
    records: list[dict[str, Any]] = [msgspec.to_builtins(one) for one in progress.records[:_MAX_PROGRESS]]
    return FlowProgress(number=progress.number, appended=progress.appended, records=tuple(records))


def summary_of(run: RunInfo) -> RunSummary:
    """Return a run as a line of a list."""
    current = [one for one in run.steps if not one.status.is_over and one.status is not StepStatus.PENDING]
    asked = (run.question_id, *(one.question_id for one in current))
    return RunSummary(
        run_id=run.run_id,
        name=run.name,
        root=run.root,
        owner=run.owner,
        status=run.status,
        started_at_ms=run.started_at_ms,
        ended_at_ms=run.ended_at_ms,
        steps=len(run.steps),
        steps_over=sum(one.status.is_over for one in run.steps),
        current=tuple((one.step_id, one.status) for one in current[:_MAX_CURRENT]),
        questions=tuple(one for one in asked if one is not None)[:_MAX_CURRENT],
        interruptions=run.interruptions,
        reason=run.reason,
    )


def with_newest_tries(run: RunInfo) -> RunInfo:
    """Return a run with the newest try of each step: whoever follows it has seen the others."""
    steps = tuple(structs.replace(one, tries=one.tries[-1:]) for one in run.steps)
    return structs.replace(run, steps=steps)


def step_in_question(steps: Sequence[StepInfo]) -> str:
    """Return the step that signals are about where none is named: what runs, what is under way, what comes next."""
    ranks = (StepStatus.RUNNING, StepStatus.BACKING_OFF, StepStatus.ASKING, StepStatus.PENDING)
    for status in ranks:
        for step in steps:
            if step.status is status:
                return step.step_id
    return steps[-1].step_id


def _step_of(run: RunInfo, step_id: str) -> StepInfo:
    found = next((one for one in run.steps if one.step_id == step_id), None)
    if found is None:
        raise no_step(step_id, [one.step_id for one in run.steps])
    return found


def _place(run: RunInfo) -> tuple[int, str]:
    return run.started_at_ms, run.run_id
