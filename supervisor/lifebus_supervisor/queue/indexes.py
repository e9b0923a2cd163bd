"""The jobs of the queue by what they are asked for: by id, by key, by project, those that are over."""

from itertools import count
from typing import Final

from lifebus_contract.jobs import JobState
from lifebus_supervisor.queue.active_job import ActiveJob
from lifebus_supervisor.queue.records import JobDefinition
from lifebus_supervisor.queue.rules.events import suggestion_of
from lifebus_supervisor.queue.rules.retention import Ended, EndedJobs
from lifebus_supervisor.queue.rules.targets import targets_of

MAX_OVER: Final = 20_000
"""Most jobs that are over, of all projects together; beyond that those that ended first are forgotten."""

MAX_OVER_BYTES: Final = 64 * 1_048_576
"""Most bytes of records of jobs that are over, of all projects together."""

Key = tuple[str, str, str]
"""What jobs are the same by: project, type, key."""


class JobIndexes:
    """All jobs.  One whose first record is not durable yet has its place already, so that nobody else takes it."""

    def __init__(self) -> None:
        self.jobs: dict[str, ActiveJob] = {}
        self._numbers = count(1)
        self._keys: dict[Key, dict[str, ActiveJob]] = {}
        self._open: dict[str, set[str]] = {}
        self._over: dict[str, EndedJobs] = {}
        self.open_count = self.over_count = self.over_bytes = 0

    def add(self, definition: JobDefinition) -> ActiveJob:
        """Add a job that is to be queued, or was read."""
        job = ActiveJob(definition, next(self._numbers))
        self.jobs[job.job_id] = job
        if (key := key_of(definition)) is not None:
            self._keys.setdefault(key, {})[job.job_id] = job
        self._open.setdefault(job.project_id, set()).add(job.job_id)
        self.open_count += 1
        return job

    def remove(self, job: ActiveJob) -> None:
        """Remove a job that was not queued after all, or is forgotten."""
        self.jobs.pop(job.job_id, None)
        self._close(job)
        self._reopen(job)
        key = key_of(job.definition)
        if key is not None and (same := self._keys.get(key)) is not None:
            same.pop(job.job_id, None)
            if not same:
                del self._keys[key]

    def sort(self, job: ActiveJob) -> None:
        """Put a job to those that are over, or to the others, as it stands now."""
        standing = job.require()
        self._reopen(job)
        if standing.state.is_terminal:
            self._close(job)
            ended_at_ms = standing.completed_at_ms or 0
            ended = Ended(
                job_id=job.job_id, state=standing.state, ended_at_ms=ended_at_ms, number=job.number, size=job.size
            )
            self._over.setdefault(job.project_id, EndedJobs()).add(ended)
            self.over_count += 1
            self.over_bytes += job.size
        elif job.job_id not in self._open.setdefault(job.project_id, set()):
            self._open[job.project_id].add(job.job_id)
            self.open_count += 1

    def open_of(self, project_id: str) -> int:
        """Return how many jobs of a project wait or run."""
        return len(self._open.get(project_id, ()))

    def same(self, definition: JobDefinition) -> list[ActiveJob]:
        """Return the jobs with the key of another one, the oldest first."""
        key = key_of(definition)
        return [] if key is None else [*self._keys.get(key, {}).values()]

    def forgettable(self, project_id: str, keep: int) -> list[ActiveJob]:
        """Return the jobs that are over and beyond what is kept; those whose targets wait are not among them."""
        over = self._over.get(project_id)
        names = [] if over is None else over.beyond(keep)
        if self.over_count > MAX_OVER or self.over_bytes > MAX_OVER_BYTES:
            everything = (one for over in self._over.values() for one in over.jobs.values())
            # Some at once: the sorting pays for more than one.
            oldest = sorted(everything, key=lambda one: one.ended_at_ms)[: self.over_count // 100 + 1]
            names += [one.job_id for one in oldest if one.job_id not in names]
        return [job for name in names if not has_open_targets(job := self.jobs[name])]

    def _reopen(self, job: ActiveJob) -> None:
        """Take a job out of those that are over."""
        over = self._over.get(job.project_id)
        known = None if over is None else over.remove(job.job_id)
        if over is None or known is None:
            return
        self.over_count -= 1
        self.over_bytes -= known.size
        if not over.jobs:
            del self._over[job.project_id]

    def _close(self, job: ActiveJob) -> None:
        mine = self._open.get(job.project_id)
        if mine is None or job.job_id not in mine:
            return
        mine.remove(job.job_id)
        self.open_count -= 1
        if not mine:
            del self._open[job.project_id]


def key_of(definition: JobDefinition) -> Key | None:
    """Return what a job is the same by as others, None where it is the same as none."""
    key = definition.dedupe_key
    return None if key is None else (definition.project_id, definition.type, key)


def has_open_targets(job: ActiveJob) -> bool:
    """Whether the job is over and its supplemental targets are not yet as its end has them."""
    standing = job.standing
    if standing is None or not standing.state.is_terminal or standing.settled:
        return False
    return bool(targets_of(standing.payload)) or suggestion_of(standing) is not None


def runs(job: ActiveJob) -> bool:
    """Whether a job keeps its project busy: it is about to begin, runs, or something of its attempt is left."""
    return (
        job.is_starting
        or job.attempt is not None
        or (job.standing is not None and job.standing.state is JobState.RUNNING)
    )
