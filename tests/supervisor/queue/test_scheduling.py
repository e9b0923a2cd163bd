"""Which job is next: the quick answer is that of somebody who looks at every job; what is over is kept in order."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_contract.jobs import JobPriority, JobState
from lifebus_supervisor.queue.rules.retention import Ended, EndedJobs
from lifebus_supervisor.queue.rules.scheduling import Aging, Waiting, WaitingJobs
from support.effort import effort

AGING = Aging(background_ms=100, interactive_burst=2)
PROJECTS = ("a", "b", "c", "d")
KEPT_FIRST = (JobState.FAILED, JobState.CANCELED, JobState.COMPLETED)

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(PROJECTS), st.sampled_from(JobPriority), st.integers(-150, 0)),
        st.tuples(st.just("remove"), st.integers(0, 99)),
        st.tuples(st.just("pass"), st.integers(0, 60)),
        st.tuples(st.just("next"), st.sets(st.sampled_from(PROJECTS), max_size=3), st.booleans()),
    ),
    max_size=effort(40, 120),
)


class Model:
    """Looks at every job, each time."""

    def __init__(self) -> None:
        self.jobs: dict[str, Waiting] = {}
        self.bursts: dict[str, int] = {}

    def gone(self, job: Waiting) -> None:
        self.jobs.pop(job.job_id)
        if not any(one.project_id == job.project_id for one in self.jobs.values()):
            self.bursts.pop(job.project_id, None)

    def begun(self, job: Waiting) -> None:
        interactive = job.priority is JobPriority.INTERACTIVE
        self.bursts[job.project_id] = self.bursts.get(job.project_id, 0) + 1 if interactive else 0
        self.gone(job)

    def next(self, busy: set[str], now_ms: int) -> Waiting | None:
        candidates: list[tuple[int, int, int, Waiting]] = []
        for project in {one.project_id for one in self.jobs.values()} - busy:
            mine = sorted(
                (one for one in self.jobs.values() if one.project_id == project),
                key=lambda one: (one.since_ms, one.number),
            )
            interactive = [one for one in mine if one.priority is JobPriority.INTERACTIVE]
            background = [one for one in mine if one.priority is JobPriority.BACKGROUND]
            old = bool(background) and now_ms - background[0].since_ms >= 100
            if old and self.bursts.get(project, 0) >= 2:
                candidates.append((0, background[0].since_ms, background[0].number, background[0]))
            elif interactive:
                candidates.append((1, interactive[0].since_ms, interactive[0].number, interactive[0]))
            else:
                candidates.append((1 if old else 2, background[0].since_ms, background[0].number, background[0]))
        return min(candidates, key=lambda one: one[:3])[3] if candidates else None


@settings(max_examples=effort(150, 5_000), deadline=None)
@given(STEPS)
def test_the_next_job_is_the_one_that_is_found_by_looking_at_all(steps: list[tuple[Any, ...]]) -> None:
    waiting, model, now_ms = WaitingJobs(AGING), Model(), 1_000
    for number, step in enumerate(steps):
        match step:
            case ("add", project, priority, ago):
                since_ms = now_ms + ago
                job = Waiting(
                    job_id=f"j{number}", project_id=project, priority=priority, since_ms=since_ms, number=number
                )
                waiting.add(job)
                model.jobs[job.job_id] = job
            case ("remove", index):
                waiting.remove("nobody", "a")
                if model.jobs:
                    gone: Waiting = [*model.jobs.values()][index % len(model.jobs)]
                    waiting.remove(gone.job_id, gone.project_id)
                    model.gone(gone)
            case ("pass", ms):
                now_ms += ms
            case _:
                _, busy, begins = step
                found = waiting.next(busy, now_ms)
                assert found == model.next(busy, now_ms)
                if found is not None and begins:
                    waiting.begun(found)
                    model.begun(found)
    while (found := waiting.next((), now_ms)) is not None:
        assert found == model.next(set(), now_ms)
        waiting.begun(found)
        model.begun(found)
    assert not model.jobs


def test_a_background_job_goes_before_younger_ones_of_other_projects_as_soon_as_it_is_old() -> None:
    waiting = WaitingJobs(AGING)
    old = Waiting(job_id="old", project_id="a", priority=JobPriority.BACKGROUND, since_ms=0, number=1)
    young = Waiting(job_id="young", project_id="b", priority=JobPriority.INTERACTIVE, since_ms=50, number=2)
    waiting.add(old)
    waiting.add(young)
    assert [waiting.next((), now_ms) for now_ms in (60, 99, 100, 500)] == [young, young, old, old]


def test_the_next_job_is_found_among_many_projects_without_looking_at_all() -> None:
    waiting, looks = WaitingJobs(AGING), 0

    class Counting:
        """Nobody is busy; counts how many projects it is asked for."""

        def __contains__(self, _: object) -> bool:
            nonlocal looks
            looks += 1
            return False

    for number in range(1_000):
        waiting.add(
            Waiting(
                job_id=f"j{number}",
                project_id=f"p{number}",
                priority=JobPriority.INTERACTIVE,
                since_ms=-number,
                number=number,
            )
        )
    for number in reversed(range(1_000)):
        found = waiting.next(Counting(), 0)
        assert found is not None
        assert found.job_id == f"j{number}"
        waiting.begun(found)
    assert looks == 1_000


@settings(max_examples=effort(100, 2_000), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(KEPT_FIRST), st.integers(0, 5)), max_size=30),
    st.sets(st.integers(0, 29)),
    st.integers(0, 30),
)
def test_failed_jobs_are_kept_first_then_canceled_then_completed_ones_of_each_the_newest(
    ends: list[tuple[JobState, int]], removed: set[int], keep: int
) -> None:
    over = EndedJobs()
    for number, (state, at_ms) in enumerate(ends):
        over.add(Ended(job_id=f"j{number}", state=state, ended_at_ms=at_ms, number=number))
    for number in removed:
        assert (over.remove(f"j{number}") is None) is (number >= len(ends))
    left = [number for number in range(len(ends)) if number not in removed]
    wanted: list[str] = []
    for state in KEPT_FIRST:
        wanted += [f"j{n}" for n in sorted(left, key=lambda n: (ends[n][1], n), reverse=True) if ends[n][0] is state]
    assert over.beyond(keep) == wanted[keep:]
