"""The verbs that read receipts: pages, session heads, the check of the ledger, and the marker of a subscription."""

from collections.abc import Callable, Sequence

from lifebus_broker.ports import Ledger, Page
from lifebus_contract.views import SessionHead
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.queries import query_of
from lifebus_supervisor.api.table import Handlers
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.ledger import Verify, VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage, Marker, SessionsQuery, WireReceipt
from lifebus_transports.messages.state import StateHint


class ReadVerbs:
    """Serves `backfill`, `sessions`, `verify` and `marker`.

    `publish_marker` gets the epoch and a subscriber's nonce.
    """

    def __init__(self, ledger: Ledger, publish_marker: Callable[[str, str], None]) -> None:
        self._ledger = ledger
        self._publish_marker = publish_marker

    def handlers(self) -> Handlers:
        """Return what serves each verb."""
        return {
            "backfill": self._backfill,
            "sessions": self._sessions,
            "verify": self._verify,
            "marker": self._mark,
        }

    async def _backfill(self, _: Call, body: Backfill) -> BackfillPage:
        ledger = self._ledger
        if body.epoch is not None and body.epoch != ledger.epoch:
            # Nothing is read: receipts of another history would be taken for the ones that were missed.
            status = ledger.status()
            page = _page_of_another_epoch(ledger.epoch, status.head, status.floor)
        else:
            page = await ledger.read(query_of(body, body.after))
        return page_of(page, has_state=ledger.capabilities.durable)

    async def _sessions(self, _: Call, body: SessionsQuery) -> Sequence[SessionHead]:
        return await self._ledger.sessions(body.session)

    async def _verify(self, _: Call, body: Verify) -> VerifyAnswer:
        return VerifyAnswer(checked=self._ledger.head, faults=tuple(await self._ledger.verify(tail=body.tail)))

    def _mark(self, _: Call, body: Marker) -> Nothing:
        self._publish_marker(self._ledger.epoch, body.nonce)
        return Nothing()


def page_of(page: Page, *, has_state: bool) -> BackfillPage:
    """Return the wire form of a page.

    Where a `state` is kept, its position is named where a snapshot is required.
    """
    return BackfillPage(
        epoch=page.epoch,
        rows=tuple([WireReceipt(one.position, one.sequence, one.receipt) for one in page.stored]),
        next=page.next,
        head=page.head,
        floor=page.floor,
        complete=page.complete,
        snapshot_required=page.snapshot_required,
        snapshot=StateHint(position=page.floor) if has_state and page.snapshot_required else None,
    )


def _page_of_another_epoch(epoch: str, head: int, floor: int) -> Page:
    """Return the answer to a position of another history: numbers of two epochs must not be compared."""
    return Page(epoch=epoch, stored=(), next=floor, head=head, floor=floor, complete=False, snapshot_required=True)
