"""The newest of the harness's own numbers, by session: a jump in them is a fact of its own (docs/contract.md 6.6)."""

from collections import OrderedDict
from typing import Final

from lifebus_broker.ports import Ledger
from lifebus_broker.routing.receipts import missing_range
from lifebus_contract import CallbackRequest

_MAX_SESSIONS: Final = 10_000
"""Sessions that are remembered; of others the ledger is asked again."""


class HarnessSequences:
    """Remembers the newest number of each session, as far as it was recorded."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._newest: OrderedDict[tuple[str, str], int] = OrderedDict()  # -1 for a session without any number

    def __len__(self) -> int:
        return len(self._newest)

    async def advance(self, request: CallbackRequest) -> tuple[int, int] | None:
        """Compare a request's number with the newest one and remember it; return the first and last missing number.

        None where nothing is missing, and for requests without a session or a number.

        Raises:
            LifebusError: the ledger cannot be read now.
        """
        if request.sequence is None or request.harness_session_id is None:
            return None
        session = (request.adapter_id, request.harness_session_id)
        if session not in self._newest:
            heads = await self._ledger.sessions(session)
            known = heads[0].harness_sequence if heads else None
            # Another request of the session may have come during the await; what it put in is newer.
            self._newest.setdefault(session, -1 if known is None else known)
        last = self._newest[session]
        self._newest[session] = max(last, request.sequence)
        self._newest.move_to_end(session)  # the one least recently used goes first
        if len(self._newest) > _MAX_SESSIONS:
            self._newest.popitem(last=False)
        return missing_range(None if last < 0 else last, request.sequence)

    def forget(self, request: CallbackRequest) -> None:
        """Drop what is remembered of a request's session, because the request was not recorded after all."""
        if request.harness_session_id is not None:
            self._newest.pop((request.adapter_id, request.harness_session_id), None)
