"""A job in memory: its durable state, what came in and is not recorded yet, and its attempt in this process."""

from collections.abc import Callable, Sequence

import anyio
from msgspec import Struct, field

from lifebus_supervisor.queue.attempt import Attempt
from lifebus_supervisor.queue.records import JobDefinition, JobRecord, JobStanding
from lifebus_supervisor.runtime.active_run import Settle

Make = Callable[[JobStanding | None, int], Sequence[JobRecord]]
"""Returns what is to be recorded, by the state at that time and the milliseconds since the epoch; nothing is fine.

Raises a `LifebusError` where the state does not allow it.
"""

Event = tuple[str, bytes]
"""A signal: its name, and its envelope as JSON."""


class JobInput(Struct, frozen=True):
    """Something that came in for a job; `event` is told beside what is recorded, where there is something to tell.

    With `settle` somebody waits: it is dropped when it cannot be written, and he is told why.  Without, it is a fact
    that is kept and written later.
    """

    make: Make
    settle: Settle | None = None
    event: Event | None = None


class ActiveJob(Struct, eq=False):
    """A job.  `standing` is what is durable, None as long as nothing is; `number` tells jobs in order of their coming.

    `records` counts those in its stream, `size` their bytes; `is_starting` says that the record of its start is on its
    way.  `changed` is set, and replaced, with each durable change.
    """

    definition: JobDefinition
    number: int
    standing: JobStanding | None = None
    records: int = 0
    size: int = 0
    inputs: list[JobInput] = field(default_factory=list[JobInput])
    is_writing: bool = False
    is_starting: bool = False
    attempt: Attempt | None = None
    changed: anyio.Event = field(default_factory=anyio.Event)

    @property
    def job_id(self) -> str:
        """Its id."""
        return self.definition.job_id

    @property
    def project_id(self) -> str:
        """Its project."""
        return self.definition.project_id

    def notify(self) -> None:
        """Wake who waits for a change."""
        self.changed.set()
        self.changed = anyio.Event()

    def require(self) -> JobStanding:
        """Return how the job stands.

        Raises:
            RuntimeError: nothing of it is durable; a defect.
        """
        if self.standing is None:
            raise RuntimeError(f"`{self.job_id}` is not durable")
        return self.standing
