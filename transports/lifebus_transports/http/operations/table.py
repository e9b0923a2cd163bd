"""Every route of the gateway.  Pure."""

from collections.abc import Iterable
from typing import Final

from lifebus_transports.http.operations import (
    approvals,
    broker,
    closing,
    consumers,
    extensions,
    flows,
    inbox,
    jobs,
    ledger,
    logins,
    metrics,
    receipts,
    reports,
    sessions,
    signals,
    suggestions,
    transcripts,
)
from lifebus_transports.http.operations.operation import Operation, Serve, Served

OPERATIONS: Final[tuple[Operation, ...]] = (
    *broker.OPERATIONS,
    *logins.OPERATIONS,
    *metrics.OPERATIONS,
    *receipts.OPERATIONS,
    *sessions.OPERATIONS,
    *signals.OPERATIONS,
    *jobs.OPERATIONS,
    *transcripts.OPERATIONS,
    *closing.OPERATIONS,
    *suggestions.OPERATIONS,
    *approvals.OPERATIONS,
    *inbox.OPERATIONS,
    *flows.OPERATIONS,
    *consumers.OPERATIONS,
    *ledger.OPERATIONS,
    *reports.OPERATIONS,
    *extensions.OPERATIONS,
)
"""In the order in which they are described."""


def bind(families: Iterable[Served]) -> dict[str, Serve]:
    """Return what serves every operation of the table.

    Raises:
        ValueError: an operation is served by nothing or twice, or there is no such operation.
    """
    bound: dict[str, Serve] = {}
    known = {operation.name for operation in OPERATIONS}
    for family in families:
        for name, serve in family.items():
            if name not in known or name in bound:
                raise ValueError(f"`{name}` is no operation of the table, or is served twice")
            bound[name] = serve
    # Checked when the gateway starts: a route that nobody serves would be found by a client.
    if missing := known - bound.keys():
        raise ValueError(f"nothing serves {', '.join(sorted(missing))}")
    return bound
