"""When a new job is one that is there already, and what of the call is compared.  Pure."""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec
from msgspec import structs

from lifebus_contract.jobs import Dedupe, JobState, NewJob

_LIVE: Final = (Dedupe.SINGLE_FLIGHT, Dedupe.MERGE_DUPLICATE)


def digest_of(new: NewJob) -> str:
    """Return what two equal calls have in common, whatever the order of their keys."""
    plain = structs.replace(new, job_id=None)
    return sha256(msgspec.json.encode(plain, order="sorted")).hexdigest()


def duplicate_of(dedupe: Dedupe, known: Iterable[tuple[str, JobState]]) -> str | None:
    """Return the job that a new one is, of those with its key (the oldest first); None where it is a job of its own.

    One that runs or waits goes before one that is over.
    """
    if dedupe is Dedupe.NONE:
        return None
    jobs = [*known]
    live = next((job_id for job_id, state in jobs if not state.is_terminal), None)
    if live is not None or dedupe in _LIVE:
        return live
    return jobs[-1][0] if jobs else None
