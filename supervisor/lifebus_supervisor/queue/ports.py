"""What the queue needs from its neighbours, named as protocols, and the small values they exchange."""

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import anyio
from msgspec import Struct

from lifebus_contract.fields import Metadata
from lifebus_contract.flows import RetryPause
from lifebus_contract.jobs import Dedupe, JobPriority, NewJob, SuggestionStatus
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_supervisor.queue.records import JobStanding
from lifebus_supervisor.queue.rules.attempts import AttemptEnd


class AttemptTools(Protocol):
    """What an attempt may use while it runs."""

    @property
    def cancelled(self) -> anyio.Event:
        """Set when the attempt is to end: somebody cancelled the job, its time is over, or the broker stops."""
        ...

    async def progress(self, report: Any) -> None:
        """Tell how far the job is, as JSON; returns once the event is durable.

        Raises:
            LifebusError: it cannot be told now, or is too large.
        """
        ...

    async def place(self, thread_id: str | None, turn_id: str | None, host: str | None = None) -> None:
        """Say in which thread and turn the job is done, and at whose app-server; returns once that is durable.

        Raises:
            LifebusError: it cannot be recorded now.
        """
        ...


class JobRunner(Protocol):
    """Someone who does the jobs of one type."""

    async def run(self, job: JobStanding, tools: AttemptTools) -> AttemptEnd:
        """Make the attempt that the job says is running, and return how it ended.

        When `tools.cancelled` is set it has the job's grace to end; then it is cancelled.  It leaves nothing behind.
        """
        ...

    async def recover(self, job: JobStanding) -> AttemptEnd | None:
        """Return how the attempt ended that the broker before had begun, once nothing of it runs any more.

        None where nothing says that it ended: then the job is tried again.
        """
        ...

    async def forget(self, job_ids: Sequence[str]) -> None:
        """Remove what is left of jobs that are forgotten."""
        ...


class JobType(Struct, frozen=True, kw_only=True):
    """What a type of jobs is, and what a new job of it has where the caller says nothing.

    `check` returns why a payload is none of this type, None where it is.  `dedupe_key` makes the key of a job that has
    none of its own.  Without `max_attempts` and `time_limit_ms` the settings of the queue hold.
    """

    name: str
    runner: JobRunner
    check: Callable[[Metadata], str | None]
    version: int = 1
    priority: JobPriority = JobPriority.INTERACTIVE
    dedupe: Dedupe = Dedupe.NONE
    dedupe_key: Callable[[NewJob], str | None] = lambda new: new.dedupe_key
    max_attempts: int | None = None
    time_limit_ms: int | None = None
    cancel_grace_ms: int = 1_500
    pause: RetryPause = RetryPause()


class TranscriptTargets(Protocol):
    """The transcripts, as far as jobs end entries in them."""

    async def entry(self, session_id: str, message_id: str) -> TranscriptEntry | None:
        """Return an entry as it is now, None where there is none.

        Raises:
            LifebusError: the session is deleted, or the entry cannot be read now.
        """
        ...

    async def upsert(self, session_id: str, entry: TranscriptEntry) -> object:
        """Write an entry, and return once it is durable.

        Raises:
            LifebusError: the session is deleted, or nothing can be written now.
        """
        ...


class SuggestedRequests(Protocol):
    """Where suggested requests are written (fulfilled by `transcripts.suggestions.Suggestions`)."""

    async def upsert(  # noqa: PLR0917  the fields of an upsert
        self,
        session_id: str,
        request_key: str,
        status: SuggestionStatus,
        suggestion: str | None = None,
        error: str | None = None,
        project_id: str | None = None,
    ) -> object:
        """Write how a suggested request stands; return once it is durable.

        Raises:
            LifebusError: the session is deleted or unknown, or nothing can be written now.
        """
        ...
