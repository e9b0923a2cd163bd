"""Rows on their way out: each is checked against its link before anybody gets it (docs/ledger.md D4).

A link is the hash of the link before it and of the row, so one row is checked by itself, whatever lies between the
two.  What a row says is taken from the receipt alone, because the other columns are in no hash.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec
from msgspec import Struct

from lifebus_broker.ledger.refusals import damaged_row
from lifebus_broker.ports import DamagedReceipt, Query, StoredReceipt
from lifebus_broker.state.stream_digests import link_after
from lifebus_contract import InternalError
from lifebus_contract.facts.selections import is_canary, is_failure, is_question

# typeof: a value of another storage class becomes NULL here, where it cannot raise in the middle of a page
COLUMNS: Final = """
r.position, iif(typeof(r.link) = 'blob', r.link, NULL), iif(typeof(r.receipt) = 'blob', r.receipt, NULL),
iif(r.previous = 0, zeroblob(32), coalesce(
  (SELECT iif(typeof(p.link) = 'blob', p.link, NULL) FROM rows p WHERE p.position = r.previous),
  (SELECT iif(typeof(b.link) = 'blob', b.link, NULL) FROM bases b
    WHERE b.stream = r.stream AND b.position = r.previous)))"""
"""What `sound` is given of ``rows r``: position, link, receipt, and the link before, which may be that of a base."""


class _Telemetry(Struct, frozen=True):
    emitter: Any = None
    frame_end: Any = None
    session_end: Any = None
    source_hook: Any = None
    waiting_for: Any = None


class RowFacts(Struct, frozen=True):
    """What of a receipt a query asks for."""

    adapter_id: str
    client_id: str
    harness_session_id: str | None
    sequence: int | None
    at_epoch_s: int
    event: str
    status: str
    failure_class: str | None
    telemetry_summary: _Telemetry = _Telemetry()

    @property
    def tells_of_wait(self) -> bool:
        """Whether it says that somebody is waited for, or not any more."""
        return self.telemetry_summary.waiting_for is not None

    @property
    def tells_of_failure(self) -> bool:
        """Whether it tells of a failure."""
        facts = self.telemetry_summary
        if is_question(self.failure_class, facts.waiting_for):
            return False
        return is_failure(self.event, self.status, facts.frame_end, facts.session_end)

    @property
    def tells_of_canary(self) -> bool:
        """Whether it comes from a canary."""
        facts = self.telemetry_summary
        return is_canary(self.client_id, facts.emitter, facts.source_hook)


_FACTS: Final = msgspec.json.Decoder(RowFacts)


class DamagedRow(InternalError):
    """A row is not what was written, or is missing; `refusal` names it, and is what callers are answered."""

    def __init__(self, refusal: DamagedReceipt) -> None:
        """Take the refusal."""
        super().__init__(refusal.detail, code=refusal.code)
        self.refusal = refusal


def sound(values: Sequence[Any]) -> tuple[RowFacts, StoredReceipt] | DamagedReceipt:
    """Return a row that `COLUMNS` selects, and what it says; a refusal where it is not what was written."""
    position, link, receipt, before = values
    if link is None or receipt is None:
        return damaged_row(position, "does not hold a receipt")
    if before is None:
        return damaged_row(position, "the row that it continues is missing or cannot be read")
    if link_after(before, receipt) != link:
        return damaged_row(position, "link (hash chain) does not match")
    try:
        facts = _FACTS.decode(receipt)
    except (msgspec.DecodeError, UnicodeError):
        return damaged_row(position, "does not hold a receipt")
    stored = StoredReceipt(
        position=position,
        adapter_id=facts.adapter_id,
        harness_session_id=facts.harness_session_id,
        sequence=facts.sequence,
        receipt=receipt,
    )
    return facts, stored


def missing_rows(first: int, last: int) -> DamagedReceipt:
    """Return why rows are not returned that are not there."""
    return damaged_row(first, "is missing", last)


def row_filter(query: Query) -> Callable[[RowFacts], bool]:
    """Return whether a row passes the filters of a query."""
    names = ("adapter_id", "event", "status")
    wanted: list[tuple[str, object]] = [(name, value) for name in names if (value := getattr(query, name)) is not None]
    if query.session is not None:
        wanted += [("adapter_id", query.session[0]), ("harness_session_id", query.session[1])]
    if query.waiting:
        wanted.append(("tells_of_wait", True))
    if query.failed:
        wanted.append(("tells_of_failure", True))
    if not query.canaries:
        wanted.append(("tells_of_canary", False))
    since = query.since_epoch_s
    if not wanted:
        return lambda facts: since is None or facts.at_epoch_s >= since
    return lambda facts: (
        (since is None or facts.at_epoch_s >= since) and all(getattr(facts, name) == value for name, value in wanted)
    )
