"""Which jobs that are over are forgotten.  Pure."""

from collections.abc import Iterable
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


def to_forget(ended: Iterable[Ended], keep: int) -> list[str]:
    """Return the jobs beyond the `keep` that stay.

    Failed ones are kept first, then canceled ones, then completed ones, of each the newest.
    """
    order = sorted(ended, key=lambda job: (_ORDER[job.state], -job.ended_at_ms, -job.number))
    return [job.job_id for job in order[keep:]]
