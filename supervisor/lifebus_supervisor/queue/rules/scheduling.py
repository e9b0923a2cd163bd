"""Which job begins next: priorities with aging, one running job in each project.  Pure.

Within a project an interactive job goes before a background one, the older one first.  A background job that has waited
long enough goes first once the project began as many interactive ones in a row as the settings say.  Among projects
such a forced job goes first, then interactive jobs and background ones that have waited long enough, the older one
first, then the other background ones: so nothing waits for ever.
"""

from collections.abc import Container
from typing import Final

from msgspec import Struct

from lifebus_contract.jobs import JobPriority
from lifebus_supervisor.runtime.due.keyed_heap import KeyedHeap

_FORCED: Final = 0
_DUE: Final = 1
_BACKGROUND: Final = 2


class Aging(Struct, frozen=True, kw_only=True):
    """From which wait on a background job is old, and how many interactive ones in a row may go before it."""

    background_ms: int
    interactive_burst: int


class Waiting(Struct, frozen=True, kw_only=True):
    """A job that may begin.  `since_ms` is when it was queued; `number` tells jobs of one millisecond apart."""

    job_id: str
    project_id: str
    priority: JobPriority
    since_ms: int
    number: int


_Order = KeyedHeap[str, tuple[int, int]]
"""Projects by when the job was queued that goes first in each, and its number."""


class _Lane:
    """The jobs of one project and priority, the oldest first."""

    def __init__(self) -> None:
        self.jobs: dict[str, Waiting] = {}
        self._order: _Order = KeyedHeap()

    def add(self, job: Waiting) -> None:
        self.jobs[job.job_id] = job
        self._order.put(job.job_id, (job.since_ms, job.number))

    def remove(self, job_id: str) -> bool:
        self._order.remove(job_id)
        return self.jobs.pop(job_id, None) is not None

    def first(self) -> Waiting | None:
        found = self._order.first()
        return None if found is None else self.jobs[found[1]]


class _Project:
    def __init__(self) -> None:
        self.lanes = {JobPriority.INTERACTIVE: _Lane(), JobPriority.BACKGROUND: _Lane()}
        self.burst = 0

    @property
    def is_empty(self) -> bool:
        return not any(lane.jobs for lane in self.lanes.values())

    def remove(self, job_id: str) -> bool:
        """Remove a job; return whether it was there."""
        return any(lane.remove(job_id) for lane in self.lanes.values())

    def next(self, aging: Aging, now_ms: int) -> tuple[int, Waiting] | None:
        """Return the job that goes first here, and its rank among projects."""
        interactive = self.lanes[JobPriority.INTERACTIVE].first()
        background = self.lanes[JobPriority.BACKGROUND].first()
        is_old = background is not None and now_ms - background.since_ms >= aging.background_ms
        if background is not None and is_old and self.burst >= aging.interactive_burst:
            return _FORCED, background
        if interactive is not None:
            return _DUE, interactive
        return None if background is None else (_DUE if is_old else _BACKGROUND, background)


class WaitingJobs:
    """The jobs that may begin; one with a pause before its retry is added when that is over.

    Each project has the place of the job that goes first in it, so that the next job is found among any number of
    projects at once.  A place changes with the jobs of its project, and when its background job is old.
    """

    def __init__(self, aging: Aging) -> None:
        self._aging = aging
        self._projects: dict[str, _Project] = {}
        self._ranks: tuple[_Order, ...] = (KeyedHeap(), KeyedHeap(), KeyedHeap())
        self._old_at: KeyedHeap[str, int] = KeyedHeap()
        self._passed: set[str] = set()
        self._now_ms = 0

    def add(self, job: Waiting) -> None:
        """Add a job; one that is there already gets the place that it has now."""
        self._projects.setdefault(job.project_id, _Project()).lanes[job.priority].add(job)
        self._place(job.project_id)

    def remove(self, job_id: str, project_id: str) -> None:
        """Remove a job, if it is there."""
        project = self._projects.get(project_id)
        if project is None or not project.remove(job_id):
            return
        # A burst is one while something waits: without anybody to wait for, nothing goes before its turn.
        if project.is_empty:
            del self._projects[project_id]
        self._place(project_id)

    def begun(self, job: Waiting) -> None:
        """Take note that a job begins: it is removed, and counts for the burst of its project."""
        project = self._projects.get(job.project_id)
        if project is not None:
            project.burst = project.burst + 1 if job.priority is JobPriority.INTERACTIVE else 0
        self.remove(job.job_id, job.project_id)

    def next(self, busy: Container[str], now_ms: int) -> Waiting | None:
        """Return the job that begins next, None where no project that is not `busy` has one."""
        self._now_ms = now_ms
        for name in [one for one in self._passed if one not in busy]:
            self._passed.remove(name)
            self._place(name)
        while (aged := self._old_at.first()) is not None and aged[0] <= now_ms:
            self._place(aged[1])
        for order in self._ranks:
            while (found := order.first()) is not None:
                name = found[1]
                if name not in busy:
                    return self._first_of(name)
                # It has no place until it is not busy any more.
                self._passed.add(name)
                self._place(name)
        return None

    def _first_of(self, name: str) -> Waiting | None:
        found = self._projects[name].next(self._aging, self._now_ms)
        return None if found is None else found[1]

    def _place(self, name: str) -> None:
        """Give a project the place that it has now."""
        for order in self._ranks:
            order.remove(name)
        self._old_at.remove(name)
        project = self._projects.get(name)
        found = None if project is None or name in self._passed else project.next(self._aging, self._now_ms)
        if project is None or found is None:
            return
        rank, job = found
        self._ranks[rank].put(name, (job.since_ms, job.number))
        background = project.lanes[JobPriority.BACKGROUND].first()
        if background is not None and background.since_ms + self._aging.background_ms > self._now_ms:
            self._old_at.put(name, background.since_ms + self._aging.background_ms)
