"""What a client asks of the ledger, as the ledger takes it."""

from lifebus_broker.ports import Query
from lifebus_transports.messages.reads import Backfill


def query_of(asked: Backfill, after: int) -> Query:
    """Return the ledger's form of a question, for the rows after a position."""
    return Query(
        after=after,
        limit=asked.limit,
        adapter_id=asked.adapter_id,
        session=asked.session,
        event=asked.event,
        status=asked.status,
        since_epoch_s=asked.since_epoch_s,
    )
