"""The runs of flows at a running broker: begun, followed, steered (docs/flows.md, "The library")."""

import re
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, Final, Literal

import anyio.to_thread

from lifebus._internal.connection import Connection
from lifebus._internal.liveness import broker_returns
from lifebus.flows.reading import read_flow
from lifebus_contract import StateConflict, TransportError
from lifebus_contract.flows import FlowDefinition
from lifebus_contract.runs import CompactionEnd, ContextSignals, CostRecord, CostSummary, LogEvent, RunInfo, RunStatus
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.flows import (
    COMPACTION_MS,
    MAX_WAIT_MS,
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

_LETTERS: Final = "0123456789abcdefghjkmnpqrstvwxyz"
_DRAWN: Final = 8
"""Letters at the end of an id: 40 bits, beside the name of the flow."""

_LONGEST_NAME: Final = 100

_LEAST_S: Final = 0.1
"""How long an answer is waited for at the least."""


class Flows:
    """The flows of a broker; every call is bounded by `timeout` seconds.

    `run_id` names a run, and `step_id` a phase of it.  `by` says who asks for something (default: the bus's
    `client_id`); it is recorded, and so is `reason`.
    """

    def __init__(self, connection: Connection, client_id: str, timeout: float) -> None:
        self._connection, self._client_id, self._timeout = connection, client_id, timeout

    async def submit(
        self, flow: FlowDefinition | Path, *, run_id: str | None = None, owner: str | None = None, by: str | None = None
    ) -> RunInfo:
        """Begin a run of a flow, or of a flow file, and return it once it is durable.

        If you give a `run_id`, you may submit it again: the same id with the same flow is the same run.  `owner` names
        a client that will run it itself; by default the broker runs it.  If the broker dies before it answers, the call
        asks the next broker that comes within the timeout.

        Raises:
            FlowFileError: the file has mistakes.
            StateConflict: another run holds the root (`root_taken`), or the id is another run's (`run_exists`).
            TransportError: the broker died and no other came; it is not known whether the run has begun.
        """
        if isinstance(flow, Path):
            flow = await anyio.to_thread.run_sync(read_flow, flow)
        body = FlowSubmit(run_id=run_id or make_run_id(flow.name), definition=flow, owner=owner, by=self._by(by))
        try:
            return await self._submit(body)
        except StateConflict as fault:
            # Eight letters may be drawn twice; an id of the caller's is his own to change.
            if run_id is not None or fault.code != "run_exists":
                raise
        return await self.submit(flow, run_id=make_run_id(flow.name), owner=owner, by=by)

    async def _submit(self, body: FlowSubmit) -> RunInfo:
        end = time.monotonic() + self._timeout
        while True:
            left_s = max(_LEAST_S, end - time.monotonic())
            try:
                # As what is lasting: ended at once where the broker dies, also where another one takes its place.
                return await self._connection.ask("flow_submit", body, RunInfo, timeout=left_s, lasting=True)
            except TransportError as fault:
                # The same id with the same flow is the same run, so that nothing is begun twice.
                if fault.code != "no_broker" or not await broker_returns(
                    self._connection.runtime_dir, end - time.monotonic()
                ):
                    raise

    async def list(self, status: RunStatus | str | None = None) -> "list[RunSummary]":
        """Return the runs, the newest first; with `status` only those of this status."""
        runs: list[RunSummary] = []
        wanted = None if status is None else RunStatus(status)
        while True:
            body = FlowListing(status=wanted, before=runs[-1].run_id if runs else None)
            page = await self._connection.ask("flow_list", body, FlowPage, timeout=self._timeout)
            runs += page.runs
            if page.complete:
                return runs

    async def show(self, run_id: str) -> FlowStanding:
        """Return the state of a run, and its definition.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        return await self._connection.ask("flow_show", FlowShow(run_id=run_id), FlowStanding, timeout=self._timeout)

    async def wait(self, run_id: str, after: int = 0, seconds: float = MAX_WAIT_MS / 1000) -> RunInfo:
        """Return the state of a run once it has more than `after` records (`RunInfo.number`), or after `seconds`.

        It has only the newest try of each step.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
        """
        end = time.monotonic() + seconds
        while True:
            left_ms = max(0, min(MAX_WAIT_MS, round((end - time.monotonic()) * 1000)))
            body = FlowWait(run_id=run_id, after_number=after, wait_ms=left_ms)
            timeout = self._timeout + left_ms / 1000
            run = await self._connection.ask("flow_wait", body, RunInfo, timeout=timeout, lasting=True)
            if run.number > after or run.status.is_over or time.monotonic() >= end:
                return run

    async def follow(self, run_id: str, after: int = 0) -> AsyncIterator[RunInfo]:
        """Yield the state of a run at once and after each change until it is over; changes at one time come as one.

        Raises:
            InvalidRequest: there is no such run (`no_run`).
            TransportError: the broker is gone; the run is not, and can be followed again later.
        """
        while True:
            run = await self.wait(run_id, after)
            if run.number > after or run.status.is_over:
                yield run
            if run.status.is_over:
                return
            after = run.number

    async def resume(self, run_id: str, *, by: str | None = None) -> RunInfo:
        """Have the broker continue a run whose owner is gone.

        Raises:
            StateConflict: it is over (`run_over`), or its owner is still there (`root_taken`).
        """
        body = FlowResume(run_id=run_id, by=self._by(by))
        return await self._connection.ask("flow_resume", body, RunInfo, timeout=self._timeout)

    async def abort(self, run_id: str, reason: str = "", *, by: str | None = None) -> RunInfo:
        """End a run.  When this returns, that is durable, and the running steps are being ended.

        Raises:
            StateConflict: it is over (`run_over`).
        """
        body = FlowAbort(run_id=run_id, reason=reason, by=self._by(by))
        return await self._connection.ask("flow_abort", body, RunInfo, timeout=self._timeout)

    async def retry(self, run_id: str, step_id: str, *, by: str | None = None) -> RunInfo:
        """Try a step again, with a fresh series of tries.  This also answers an open question about the step.

        Raises:
            StateConflict: it is not in a state for that (`not_retriable`).
        """
        body = FlowRetry(run_id=run_id, step_id=step_id, by=self._by(by))
        return await self._connection.ask("flow_retry", body, RunInfo, timeout=self._timeout)

    async def claim(self, run_id: str, owner: str) -> FlowProgress:
        """Take over a run as `owner`, to run it yourself, and return its records, or the first of them.

        The caller must hold the lock of the root, and record what happens with `record`.

        Raises:
            StateConflict: it is over (`run_over`), or somebody else runs it (`root_taken`).
        """
        body = FlowClaim(run_id=run_id, owner=owner)
        return await self._connection.ask("flow_claim", body, FlowProgress, timeout=self._timeout, watch=True)

    async def record(self, run_id: str, owner: str, after: int, records: Sequence[dict[str, Any]] = ()) -> FlowProgress:
        """Record what happened in a run that `owner` runs, after the record `after`; without `records`, only read.

        Raises:
            StateConflict: another one runs it by now (`not_owner`).
        """
        body = FlowRecord(run_id=run_id, owner=owner, after_number=after, records=tuple(records))
        return await self._connection.ask("flow_record", body, FlowProgress, timeout=self._timeout, watch=True)

    async def signals(self, run_id: str, step_id: str | None = None) -> ContextSignals:
        """Return what is left for a step (default: the step that runs, or otherwise the next one)."""
        body = FlowSignalsQuery(run_id=run_id, step_id=step_id)
        return await self._connection.ask("flow_signals", body, ContextSignals, timeout=self._timeout)

    async def logs(
        self,
        run_id: str,
        step_id: str,
        *,
        number: int | None = None,
        stream: Literal["stdout", "stderr"] = "stdout",
        offset: int = 0,
    ) -> FlowOutput:
        """Return a piece of what a try wrote, from the byte `offset` on; `number` is the try (default: the newest).

        `stream` says which of its two outputs is meant.

        Raises:
            InvalidRequest: nothing of it is kept (`no_output`).
        """
        body = FlowLogs(run_id=run_id, step_id=step_id, number=number, stream=stream, offset=offset)
        return await self._connection.ask("flow_logs", body, FlowOutput, timeout=self._timeout)

    async def log(self, event: LogEvent) -> None:
        """Keep a structured log event of a run."""
        await self._connection.ask("flow_log", FlowLog(event=event), Nothing, timeout=self._timeout)

    async def cost(self, record: CostRecord) -> CostSummary:
        """Count the cost of calls to a model, as `record` says, and return what the run has cost so far.

        A key counts only once.
        """
        return await self._connection.ask("flow_cost", FlowCost(record=record), CostSummary, timeout=self._timeout)

    async def costs(self, run_id: str) -> CostSummary:
        """Return what a run has cost so far, in all and by step."""
        return await self._connection.ask("flow_costs", FlowCosts(run_id=run_id), CostSummary, timeout=self._timeout)

    async def events(self, run_id: str) -> tuple[LogEvent, ...]:
        """Return the log of a run in order: what happened to it, and what clients have logged."""
        events: tuple[LogEvent, ...] = ()
        while True:
            body = FlowEvents(run_id=run_id, after=len(events))
            page = await self._connection.ask("flow_events", body, FlowEventPage, timeout=self._timeout)
            events += page.events
            if page.complete:
                return events

    async def compact(
        self, run_id: str, step_id: str, instructions: str = "", *, seconds: float = COMPACTION_MS / 1000
    ) -> CompactionEnd:
        """Have the harness of a step make the context of its session smaller, and return how that ended.

        The session is that of the newest try, which must have ended.  `instructions` say what the harness is to keep.
        The harness is ended if it takes longer than `seconds`.

        Raises:
            CapabilityRefused: the step is no prompt, or its harness compacts nothing on request (the detail says why).
            StateConflict: no session is known (`no_harness_session`), a try has it (`session_in_use`), or it is being
                compacted (`compacting`).
        """
        body = FlowCompact(
            run_id=run_id, step_id=step_id, instructions=instructions, time_limit_ms=max(1, round(seconds * 1000))
        )
        # Its process is given time to end, and what it has cost is recorded.
        timeout = 2 * self._timeout + seconds
        return await self._connection.ask("flow_compact", body, CompactionEnd, timeout=timeout, lasting=True)

    def _by(self, by: str | None) -> str:
        return by or self._client_id


def make_run_id(name: str) -> str:
    """Return an id for a run of a flow: its name, and letters that are drawn."""
    # A command's reader types it, and it names files: hence no ULID.
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", name)[:_LONGEST_NAME].strip("-._") or "run"
    return f"{plain}-{''.join(secrets.choice(_LETTERS) for _ in range(_DRAWN))}"
