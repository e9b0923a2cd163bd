"""The verbs that read receipts: pages, session heads, the check of the ledger, and the marker of a subscription."""

from collections.abc import Callable, Sequence
from functools import partial

import structlog

from lifebus_broker.ledger.log import LedgerLog
from lifebus_broker.ports import Ledger, Page
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.session_names import session_names
from lifebus_broker.state.session_state import describe
from lifebus_contract import LifebusError
from lifebus_contract.views import SessionHead
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.queries import query_of
from lifebus_supervisor.api.table import Handlers
from lifebus_supervisor.jobs.state_follower import StateFollowerTask
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.ledger import Verify, VerifyAnswer
from lifebus_transports.messages.reads import Backfill, BackfillPage, Marker, SessionsQuery, WireReceipt
from lifebus_transports.messages.state import StateHint

_log = structlog.get_logger("lifebus.api")


class ReadVerbs:
    """Serves `backfill`, `sessions`, `verify` and `marker`.

    `publish_marker` gets the epoch and a subscriber's nonce.  `follower` has the states of sessions, where
    there are any.
    """

    def __init__(
        self,
        ledger: Ledger,
        publish_marker: Callable[[str, str], None],
        follower: StateFollowerTask | None = None,
    ) -> None:
        self._ledger = ledger
        self._follower = follower
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
        known = await self._ledger.sessions(body.session)
        heads = known if body.ended else [head for head in known if not head.ended]
        follower = self._follower
        # A broker that has far to read serves before it has: then heads are all that is known.
        if not heads or follower is None or not await follower.wait_if_near() or follower.broken is not None:
            return heads
        try:
            described = await follower.use(partial(_described, heads))
        except LifebusError as fault:
            _log.warning("sessions_undescribed", detail=fault.detail[:200])
            return heads
        is_whole = body.forgotten or body.session is not None
        return described if is_whole else [one for one in described if not one.forgotten]

    async def _verify(self, _: Call, body: Verify) -> VerifyAnswer:
        return VerifyAnswer(checked=self._ledger.head, faults=tuple(await self._ledger.verify(tail=body.tail)))

    def _mark(self, _: Call, body: Marker) -> Nothing:
        self._publish_marker(self._ledger.epoch, body.nonce)
        return Nothing()


def _described(heads: Sequence[SessionHead], follower: StateFollower, _: LedgerLog) -> list[SessionHead]:
    """Return the heads with what the states of their sessions say; blocks."""
    # To the end of the log: a session that has a row has a state.
    sessions = follower.advance().sessions
    names = session_names(sessions)
    found: list[SessionHead] = []
    for head in heads:
        key = (head.adapter_id, head.harness_session_id)
        state = sessions.get(key)
        found.append(head if state is None else describe(head, state, names[key]))
    return found


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
