"""The records of runs in the journal: written in one append, read back as a whole."""

from collections.abc import Callable, Sequence

from lifebus_broker.ledger.records import pages_of
from lifebus_broker.ports import Journal, NewRecord, Record, Refusal
from lifebus_supervisor.runtime.run_records import STREAM, RunRecord, decode_record, encode_record, run_stream


class RunJournal:
    """The streams of runs in a journal."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def append(
        self, run_id: str, records: Sequence[RunRecord], done: Callable[[list[Record] | Refusal], None]
    ) -> Refusal | None:
        """Take records for one atomic append; call `done` afterwards, unless it is refused at once."""
        return self._journal.append(new_records(run_id, records), done)

    async def run_ids(self) -> list[str]:
        """Return the ids of the runs that have records.

        Raises:
            LifebusError: the journal cannot be read.
        """
        streams = await self._journal.streams(STREAM)
        # A stream whose records were all dropped is that of a forgotten run.
        return [one.stream.removeprefix(STREAM) for one in streams if one.head > one.floor]

    async def read(self, run_id: str, after: int = 0) -> list[RunRecord]:
        """Return the records of a run behind a number.

        Raises:
            LifebusError: the journal cannot be read.
            msgspec.DecodeError: a record is none that this program knows.
        """
        pages = pages_of(self._journal, run_stream(run_id), after)
        return [decode_record(one.body) async for page in pages for one in page.records]

    async def forget(self, run_id: str, through: int) -> None:
        """Drop the records of a run that is over.

        Raises:
            LifebusError: the journal takes no writes now.
        """
        await self._journal.drop(run_stream(run_id), through)


def new_records(run_id: str, records: Sequence[RunRecord]) -> list[NewRecord]:
    """Return records of a run as the journal takes them."""
    stream = run_stream(run_id)
    return [NewRecord(stream, encode_record(one)) for one in records]
