"""Write records into the journal and wait until they are durable; read streams whole."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence

from lifebus_broker.ports import Journal, NewRecord, Record, RecordPage, RecordStream, Refusal
from lifebus_contract import LifebusError, error_for


async def append_records(
    journal: Journal, records: Sequence[NewRecord], on_commit: Callable[[list[Record]], None] | None = None
) -> list[Record]:
    """Append the records and return them once they are committed; who is cancelled cannot know whether they are.

    `on_commit` is called with them in the turn of the commit, also where the caller was cancelled: what is durable
    holds.

    Raises:
        LifebusError: nothing was written: the queue or the disk is full, or the ledger is closed.
    """
    answer: asyncio.Future[list[Record] | Refusal] = asyncio.get_running_loop().create_future()

    def done(result: list[Record] | Refusal) -> None:
        # the caller may have been cancelled before its records were committed
        if not answer.done():
            answer.set_result(result)
        if on_commit is not None and not isinstance(result, Refusal):
            on_commit(result)

    refusal = journal.append(records, done)
    result = await answer if refusal is None else refusal
    if isinstance(result, Refusal):
        raise error_of(result)
    return result


async def pages_of(journal: Journal, stream: str, after: int = 0) -> AsyncGenerator[RecordPage]:
    """Yield every page of a stream behind a number.

    Raises:
        LifebusError: the journal cannot be read.
    """
    complete = False
    while not complete:
        page = await journal.read(stream, after)
        yield page
        complete, after = page.complete, page.records[-1].number if page.records else page.head


async def records_of(journal: Journal, prefix: str) -> AsyncGenerator[Record]:
    """Yield the kept records of all streams whose name begins with `prefix`, by name and number.

    Raises:
        LifebusError: the journal cannot be read.
    """
    after = ("", 0)
    while page := await journal.read_all(prefix, after):
        for record in page:
            yield record
        after = (page[-1].stream, page[-1].number)


async def find_stream(journal: Journal, name: str) -> RecordStream | None:
    """Return how a stream stands, None where it never had a record.

    Raises:
        LifebusError: the journal cannot be read.
    """
    # What is asked for is a prefix, which longer names have as well.
    return next((one for one in await journal.streams(name) if one.stream == name), None)


def error_of(refusal: Refusal) -> LifebusError:
    """Return the exception that stands for a refusal."""
    return error_for(refusal.failure_class, refusal.detail, retry_class=refusal.asked_retry, code=refusal.code)
