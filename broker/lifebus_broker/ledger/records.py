"""Write records into the journal and wait until they are durable."""

import asyncio
from collections.abc import Sequence

from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_contract import LifebusError, error_for


async def append_records(journal: Journal, records: Sequence[NewRecord]) -> list[Record]:
    """Append the records and return them once they are committed; who is cancelled cannot know whether they are.

    Raises:
        LifebusError: nothing was written: the queue or the disk is full, or the ledger is closed.
    """
    answer: asyncio.Future[list[Record] | Refusal] = asyncio.get_running_loop().create_future()

    def done(result: list[Record] | Refusal) -> None:
        # the caller may have been cancelled before its records were committed
        if not answer.done():
            answer.set_result(result)

    refusal = journal.append(records, done)
    result = await answer if refusal is None else refusal
    if isinstance(result, Refusal):
        raise error_of(result)
    return result


def error_of(refusal: Refusal) -> LifebusError:
    """Return the exception that stands for a refusal."""
    return error_for(refusal.failure_class, refusal.detail, retry_class=refusal.asked_retry, code=refusal.code)
