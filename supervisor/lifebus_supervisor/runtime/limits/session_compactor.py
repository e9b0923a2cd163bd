"""Sessions of steps that are compacted on request: their harness is run for it as for a try, and the end is recorded.

See docs/flows.md, "Compaction".
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

import anyio
import anyio.to_thread
import structlog
from msgspec import Struct, structs

from lifebus_adapters.shared.compaction import CompactionReport
from lifebus_contract import InvalidRequest, LifebusError, StateConflict
from lifebus_contract.flows import OutcomeKind
from lifebus_contract.runs import CompactionEnd, CostRecord, CostSummary, LogEvent
from lifebus_supervisor.runtime.limits.compaction import (
    CompactionJob,
    compaction_job,
    costs_of_compaction,
    why_not_compacted,
)
from lifebus_supervisor.runtime.limits.prices import all_priced
from lifebus_supervisor.runtime.limits.run_log import OWN
from lifebus_supervisor.runtime.output_files import output_of_compaction
from lifebus_supervisor.runtime.prompts import ends_of_output
from lifebus_supervisor.runtime.rules.step_environment import step_environment
from lifebus_supervisor.runtime.run_state import RunState
from lifebus_supervisor.runtime.step_process import StepCommand, StepEnd, run_step
from lifebus_transports.processes.redaction import redact, secrets_in

COMPACTED: Final = f"{OWN}context_compacted"
"""The event in the log of a run."""

_LONGEST_REASON: Final = 1_024

_log = structlog.get_logger("lifebus.runtime")


class Books(Protocol):
    """Where what came of a compaction is recorded; the accounts of runs fulfil it."""

    async def log(self, event: LogEvent) -> None:
        """Keep an event in the log of its run."""
        ...

    async def cost(self, record: CostRecord) -> CostSummary:
        """Count what calls to a model cost."""
        ...


class CompactionRequest(Struct, frozen=True, kw_only=True):
    """What somebody wants of a compaction; `at_ms` is when he asked."""

    instructions: str
    time_limit_ms: int
    at_ms: int


class SessionCompactor:
    """Runs the harnesses; one at a time for a session.  `environ` is what steps may ask to be passed on."""

    def __init__(self, state_dir: Path, environ: Mapping[str, str]) -> None:
        self._state_dir = state_dir
        self._environ = environ
        self._under_way: set[tuple[str, str]] = set()

    async def run(self, state: RunState, step_id: str, request: CompactionRequest, books: Books) -> CompactionEnd:
        """Have the session of a step compacted, and return how that ended, also where it was not compacted.

        A caller that is cancelled takes the harness along.

        Raises:
            InvalidRequest: ``no_step``.
            CapabilityRefused: ``compaction_unsupported``.
            StateConflict: ``no_harness_session``, ``session_in_use``, ``compacting``.
        """
        job = compaction_job(state, step_id)
        if job.session in self._under_way:
            raise StateConflict(f"the session of `{step_id[:64]}` is being compacted", code="compacting")
        self._under_way.add(job.session)
        try:
            end, report, reason = await self._run(state, step_id, job, request)
        finally:
            self._under_way.discard(job.session)
        found = CompactionEnd(
            session=job.session,
            compacted=not reason,
            reason=reason,
            tokens_before=report.tokens_before,
            tokens_after=report.tokens_after,
            duration_ms=end.duration_ms,
        )
        log = _event(state.run_id, step_id, found, request.at_ms) if found.compacted else None
        costs = costs_of_compaction(state.run_id, step_id, job, report, request.at_ms)
        await _record(costs, report, log, request.at_ms, books)
        return found

    async def _run(
        self, state: RunState, step_id: str, job: CompactionJob, request: CompactionRequest
    ) -> tuple[StepEnd, CompactionReport, str]:
        """Run the harness as it was run for the newest try: in its directory, with its variables and limits."""
        definition = state.steps[step_id].definition
        output = output_of_compaction(self._state_dir, state.run_id, step_id, state.steps[step_id].number)
        await anyio.Path(output.parent).mkdir(mode=0o700, parents=True, exist_ok=True)
        command = StepCommand(
            argv=job.compaction.command(job.prompt, job.session[1], request.instructions),
            cwd=str(Path(state.definition.root) / definition.cwd),
            environment=step_environment(state, step_id, self._environ),
            output=output,
            time_limit_ms=request.time_limit_ms,
            grace_ms=definition.grace_ms,
            limits=definition.limits,
        )
        end = await run_step(command, cancelled=anyio.Event())
        report = CompactionReport()
        if end.outcome.kind is not OutcomeKind.CANNOT_START:  # else the files are those of an earlier one
            report = job.compaction.read(*await anyio.to_thread.run_sync(ends_of_output, output))
        secrets = secrets_in(command.environment)
        reason = redact(why_not_compacted(job, end.outcome, report, end.tail), secrets, (request.instructions,))
        return end, report, reason[:_LONGEST_REASON]


def _event(run_id: str, step_id: str, end: CompactionEnd, at_ms: int) -> LogEvent:
    data = {"session": "/".join(end.session), "tokens_before": end.tokens_before, "tokens_after": end.tokens_after}
    return LogEvent(event=COMPACTED, run_id=run_id, step_id=step_id, at_ms=at_ms, data=data)


async def _record(
    costs: Sequence[CostRecord], report: CompactionReport, event: LogEvent | None, at_ms: int, books: Books
) -> None:
    """Count what the summary has cost, and log that the context is smaller; what cannot be kept is no failure of it."""
    said = {use.model: use.cost_micros for use in report.uses}
    try:
        for known in await all_priced(costs, at_ms):
            # Its own estimate is better than none.
            micros = known.cost_micros if known.cost_micros is not None else said.get(known.model) or None
            await _count(structs.replace(known, cost_micros=micros), books)
        if event is not None:
            await books.log(event)
    except LifebusError as fault:
        _log.warning("compaction_not_recorded", code=fault.code, detail=fault.detail)


async def _count(record: CostRecord, books: Books) -> None:
    try:
        await books.cost(record)
    except InvalidRequest as fault:
        if fault.code not in {"unknown_model", "no_prices"}:  # those are counted, as unpriced
            raise
