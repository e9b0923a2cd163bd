"""Whose receipts a ledger in memory has dropped, so that nobody is told of a loss that is not theirs."""

from collections import OrderedDict

from lifebus_broker.ports import Query, StoredReceipt


class Dropped:
    """The newest dropped position of at most `most` sessions; older ones count as lost to everybody."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._newest: OrderedDict[tuple[str, str | None], int] = OrderedDict()
        self._forgotten = 0

    def note(self, row: StoredReceipt) -> None:
        """Take a row that is dropped now."""
        self._newest[row.adapter_id, row.harness_session_id] = row.position
        self._newest.move_to_end((row.adapter_id, row.harness_session_id))
        if len(self._newest) > self._most:
            _, self._forgotten = self._newest.popitem(last=False)

    def concerns(self, query: Query) -> bool:
        """Whether a receipt of the session or adapter asked for was dropped after `query.after`."""
        if query.session is not None:
            return max(self._newest.get(query.session, 0), self._forgotten) > query.after
        if query.adapter_id is not None:
            of_adapter = (position for (adapter, _), position in self._newest.items() if adapter == query.adapter_id)
            return max(self._forgotten, *of_adapter, 0) > query.after
        return True
