"""What workers answer is done: their intents in order, each under a key, told as progress (docs/actions.md)."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
import msgspec
import structlog

from lifebus_contract import LifebusError
from lifebus_contract.actions.intents import ActionIntents, IntentProgress, IntentResult
from lifebus_contract.extensions import ActionOutcome, ActionRequest, ActionStatus
from lifebus_contract.jobs import ExpectResponse
from lifebus_supervisor.actions.ports import EntryWriter
from lifebus_supervisor.actions.rules.answers import MAX_TEXT, WorkerJob, of_command, output_entry, result_of
from lifebus_supervisor.actions.rules.intents import (
    UnreadableIntents,
    convert_intents,
    failure_of,
    intent_result,
    read_intents,
    with_key,
)
from lifebus_supervisor.actions.rules.outcomes import refused
from lifebus_supervisor.extensions.pass_log import log_undeclared
from lifebus_supervisor.extensions.ports import ActionExecutor, AgentTrust
from lifebus_supervisor.extensions.rules.trust import is_tolerated, refused_action
from lifebus_supervisor.queue.ports import AttemptTools, JobRunner
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.rules.attempts import AttemptEnd

_log = structlog.get_logger("lifebus.actions")


class Agents(Protocol):
    """The extensions, as far as workers act in their name (fulfilled by `Extensions`)."""

    @property
    def loaded(self) -> anyio.Event:
        """Set once the first load is over."""
        ...

    def agent(self, agent_id: str) -> AgentTrust | None:
        """Return what the extension of an agent may ask for, None where none is loaded."""
        ...


class WorkerAnswers:
    """Makes the end of a worker's job out of its answer.  `executor` and `agents` are set before the first job runs."""

    def __init__(self, transcripts: EntryWriter, now_ms: Callable[[], int]) -> None:
        self.executor: ActionExecutor | None = None
        self.agents: Agents | None = None
        self._transcripts, self._now_ms = transcripts, now_ms

    async def end(self, job: WorkerJob, answer: Any, tools: AttemptTools | None) -> AttemptEnd:
        """Do what an answer asks for, and return how the attempt ended; `answer` is text, or JSON that was read.

        A job that is tried again and answers the same has it done once: the keys of the intents follow from them.
        """
        match job.expects:
            case ExpectResponse.NONE:
                return AttemptEnd(result={"status": "ok"})
            case ExpectResponse.ASSISTANT_TEXT:
                return AttemptEnd(result={"status": "ok", "outputText": str(answer)[:MAX_TEXT]})
            case ExpectResponse.ACTION_INTENTS:
                return await self._intents(job, answer, tools)

    async def _intents(self, job: WorkerJob, answer: Any, tools: AttemptTools | None) -> AttemptEnd:
        if self.agents is None or self.executor is None:
            return AttemptEnd(error="this broker does no action intents")
        try:
            batch = read_intents(answer) if isinstance(answer, str) else convert_intents(answer)
        except UnreadableIntents as fault:
            return AttemptEnd(error=str(fault)[:1_024])
        # A broker that goes on with a job is quicker than its extensions.
        await self.agents.loaded.wait()
        trust = self.agents.agent(job.agent)
        if trust is None:
            return AttemptEnd(error=f"no extension of the agent `{job.agent[:128]}` is loaded")
        results = await self._perform(job, batch, trust, tools)
        if len(results) < len(batch.intents):
            return AttemptEnd(error="it was asked to end before all intents were done", retryable=True)
        await self._tell(job, results)
        failure = failure_of(results)
        return AttemptEnd(result=result_of(batch, results)) if failure is None else AttemptEnd(error=failure)

    async def _perform(
        self, job: WorkerJob, batch: ActionIntents, trust: AgentTrust, tools: AttemptTools | None
    ) -> list[IntentResult]:
        """Do the intents in order, whatever one of them comes to; those behind a cancellation are not done."""
        results: list[IntentResult] = []
        for index, intent in enumerate(batch.intents, 1):
            if tools is not None and tools.cancelled.is_set():
                break
            result = await self._intent(job, intent, trust)
            results.append(result)
            await _report(tools, IntentProgress(index=index, action_type=result.action_type, status=result.status))
        return results

    async def _intent(self, job: WorkerJob, intent: ActionRequest, trust: AgentTrust) -> IntentResult:
        why = refused_action(trust.mode, trust.declared, intent.action_type)
        if why is not None:
            return intent_result(intent, refused(ActionStatus.FORBIDDEN, "undeclared_capability", why))
        if is_tolerated(trust.mode, trust.declared, intent.action_type):
            log_undeclared(trust.module_name, intent.action_type)
        try:
            keyed = with_key(intent, job.scope, job.job_kind)
        except ValueError as fault:
            return intent_result(intent, refused(ActionStatus.INVALID, "invalid_payload", str(fault)))
        return intent_result(keyed, await self._execute(keyed, job, trust))

    async def _execute(self, intent: ActionRequest, job: WorkerJob, trust: AgentTrust) -> ActionOutcome:
        if self.executor is None:
            return refused(ActionStatus.FAILED, "action_executor_unavailable", "this broker executes no actions")
        return await self.executor.execute(intent, job.scope, requested_by=trust.module_name)

    async def _tell(self, job: WorkerJob, results: list[IntentResult]) -> None:
        """Write into the session's transcript what the intents came to; the job ends without it as well."""
        entry = output_entry(job, results, self._now_ms())
        if entry is None or job.scope.source_session_id is None:
            return
        try:
            await self._transcripts.upsert(job.scope.source_session_id, entry)
        except LifebusError as fault:
            _log.info("job_output_not_told", job_id=job.job_id, code=fault.code)


class AnsweringCommands:
    """Does commands, and what those of them that are workers answer (`JobRunner`)."""

    def __init__(self, commands: JobRunner, answers: WorkerAnswers) -> None:
        self._commands, self._answers = commands, answers

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        """Make an attempt (`JobRunner.run`)."""
        return await self._ended(job, await self._commands.run(job, tools), tools)

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        """Return how an attempt ended (`JobRunner.recover`); what its answer asks for is done once."""
        end = await self._commands.recover(job)
        return None if end is None else await self._ended(job, end, None)

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove what is left of a job (`JobRunner.forget`)."""
        await self._commands.forget(job_ids)

    async def _ended(self, job: JobStanding, end: AttemptEnd, tools: AttemptTools | None) -> AttemptEnd:
        worker = of_command(job.definition, job.payload)
        if worker is None or end.error is not None or worker.expects is not ExpectResponse.ACTION_INTENTS:
            return end
        return await self._answers.end(worker, end.result, tools)


async def _report(tools: AttemptTools | None, progress: IntentProgress) -> None:
    if tools is None:
        return
    try:
        await tools.progress(msgspec.to_builtins(progress))
    except LifebusError as fault:
        _log.info("intent_progress_not_told", code=fault.code)
