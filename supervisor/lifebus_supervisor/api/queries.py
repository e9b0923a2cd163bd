"""The bodies of reads as the ledger takes them.  Pure."""

from lifebus_broker.ports import Query
from lifebus_transports.messages.reads import Backfill


def query_of(body: Backfill, after: int) -> Query:
    """Return the ledger's form of a backfill, for the receipts after a position."""
    return Query(
        after=after,
        limit=body.limit,
        adapter_id=body.adapter_id,
        session=body.session,
        event=body.event,
        status=body.status,
        since_epoch_s=body.since_epoch_s,
        waiting=body.waiting,
        failed=body.failed,
        canaries=body.canaries,
    )
