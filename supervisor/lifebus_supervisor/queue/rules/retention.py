"""Which jobs that are over are forgotten.  Pure."""

from bisect import bisect_left, insort
from typing import Final

from msgspec import Struct

from lifebus_contract.jobs import JobState

_ORDER: Final = {JobState.FAILED: 0, JobState.CANCELED: 1, JobState.COMPLETED: 2}
"""What is kept first: a person is likely to ask for what failed."""


class Ended(Struct, frozen=True, kw_only=True):
    """A job that is over; `size` are the bytes of its records."""

    job_id: str
    state: JobState
    ended_at_ms: int
    number: int
    size: int = 0

    @property
    def place(self) -> tuple[int, int, int]:
        """Where it stands among those of its project: the first ones are kept."""
        return _ORDER[self.state], -self.ended_at_ms, -self.number


class EndedJobs:
    """The jobs of one project that are over, by id.

    Failed ones are kept first, then canceled ones, then completed ones, of each the newest.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, Ended] = {}
        # Kept in order: to sort them at each end of a job costs more than all else that is done then.
        self._places: list[tuple[tuple[int, int, int], str]] = []

    def add(self, job: Ended) -> None:
        """Add a job that is not among them."""
        self.jobs[job.job_id] = job
        insort(self._places, (job.place, job.job_id))

    def remove(self, job_id: str) -> Ended | None:
        """Remove a job and return it, None where it is not among them."""
        job = self.jobs.pop(job_id, None)
        if job is not None:
            del self._places[bisect_left(self._places, (job.place, job_id))]
        return job

    def beyond(self, keep: int) -> list[str]:
        """Return the jobs beyond the `keep` that stay."""
        return [job_id for _, job_id in self._places[keep:]]
