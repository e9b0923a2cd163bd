"""The entries and suggested requests that end when their job does, also where the broker died in between."""

from collections.abc import Callable, Sequence
from typing import Final

import anyio
import structlog

from lifebus_contract import LifebusError
from lifebus_contract.jobs import SupplementalTarget
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.queue.active_job import ActiveJob, JobInput
from lifebus_supervisor.queue.ports import SuggestedRequests, TranscriptTargets
from lifebus_supervisor.queue.records import JobRecord, JobStanding, TargetsSettled
from lifebus_supervisor.queue.rules.events import suggestion_of
from lifebus_supervisor.queue.rules.targets import ended, placeholder, session_of, targets_of

_AGAIN_S: Final = 1.0
_BEGIN_S: Final = 10.0
"""Longest time that a job waits for its placeholders, in seconds: it is done without them as well."""

_FINAL: Final = frozenset({"session_deleted", "no_session"})
"""Nothing of the session is kept: there is no entry to end."""

_log = structlog.get_logger("lifebus.queue")

Rule = Callable[[JobStanding, SupplementalTarget, TranscriptEntry | None, int], TranscriptEntry | None]


class TargetSettler:
    """Writes the entries that jobs have as targets, and the suggested requests that they answer.

    `run` must run beside.  Without transcripts it does nothing.
    """

    def __init__(
        self,
        transcripts: TranscriptTargets | None,
        now_ms: Callable[[], int],
        suggestions: SuggestedRequests | None = None,
    ) -> None:
        self.put: Callable[[ActiveJob, JobInput], None] = lambda _, __: None
        self._transcripts, self._now_ms, self._suggestions = transcripts, now_ms, suggestions
        self._waiting: dict[str, ActiveJob] = {}
        self._added = anyio.Event()

    def add(self, job: ActiveJob) -> None:
        """Have the targets of a job that is over end."""
        self._waiting[job.job_id] = job
        self._added.set()

    async def begin(self, standing: JobStanding) -> None:
        """Put the placeholders there that a job begins with; where they cannot be written it begins without."""
        if not targets_of(standing.payload) and suggestion_of(standing) is None:
            return
        with anyio.move_on_after(_BEGIN_S):
            try:
                await self._write(standing, placeholder)
            except LifebusError as fault:
                _log.warning("job_targets_not_begun", job_id=standing.job_id, code=fault.code)

    async def run(self) -> None:
        """End the targets of every job that is over, until cancelled."""
        while True:
            self._added = anyio.Event()
            for job in [*self._waiting.values()]:
                await self._settle(job)
            if self._waiting:
                await anyio.sleep(_AGAIN_S)
            else:
                await self._added.wait()

    async def _settle(self, job: ActiveJob) -> None:
        standing = job.require()
        if not standing.state.is_terminal or standing.settled:
            self._waiting.pop(job.job_id, None)
            return
        try:
            await self._write(standing, ended)
        except LifebusError as fault:
            if fault.code not in _FINAL:
                _log.warning("job_targets_not_ended", job_id=job.job_id, code=fault.code, detail=fault.detail)
                return
        self._waiting.pop(job.job_id, None)

        def settled(now: JobStanding | None, now_ms: int) -> Sequence[JobRecord]:
            # Somebody may have had it tried again meanwhile: then it ends once more.
            if now is None or now.settled or now.completed_at_ms != standing.completed_at_ms:
                return ()
            return (TargetsSettled(at_ms=now_ms),)

        self.put(job, JobInput(settled))

    async def _write(self, standing: JobStanding, rule: Rule) -> None:
        await self._suggest(standing)
        session = session_of(standing)
        if self._transcripts is None or session is None:
            return
        for target in targets_of(standing.payload):
            before = await self._transcripts.entry(session, target.message_id)
            entry = rule(standing, target, before, self._now_ms())
            if entry is not None:
                await self._transcripts.upsert(session, entry)

    async def _suggest(self, standing: JobStanding) -> None:
        """Write how the suggested request stands that a job answers."""
        found = suggestion_of(standing)
        if self._suggestions is None or found is None:
            return
        await self._suggestions.upsert(
            found.session_id, found.request_key, found.status, found.suggestion, found.error, standing.project_id
        )
