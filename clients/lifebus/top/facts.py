"""What `lifebus top` knows of a broker, and how long ago things were.  Pure.

Times are passed in as milliseconds since 1970.
"""

from collections import deque
from collections.abc import Iterable
from typing import Final

from lifebus._internal.view import Gap
from lifebus.cli.session_names import SessionNames
from lifebus_contract import Receipt
from lifebus_contract.consumers import ConsumerInfo
from lifebus_contract.questions import QuestionInfo
from lifebus_contract.views import SessionHead, Wait
from lifebus_transports.messages.status import BrokerStatus

Pair = tuple[str, str]
"""Adapter id and session id."""

KEPT: Final = 500
"""Most receipts that are kept to be shown."""

QUIET_MS: Final = 120_000
"""A turn without a receipt for so long is called quiet."""

_RATE_MS: Final = 10_000
"""The span of time over which receipts are counted."""
_URGENT: Final = {"permission", "input"}
_STEP_S: Final = 5
_MINUTE_S, _HOUR_S, _DAY_S = 60, 3_600, 86_400


class TopFacts:
    """What is known of a broker now; whoever reads it changes nothing, except by these methods.

    `away_since_ms` is set while no broker runs, `fault` says what could not be asked.  `history` has the receipts of
    the one session that is looked at, the oldest first.
    """

    def __init__(self) -> None:
        self.status: BrokerStatus | None = None
        self.sessions: dict[Pair, SessionHead] = {}
        self.names = SessionNames()
        self.receipts: deque[Receipt | Gap] = deque(maxlen=KEPT)
        self.consumers: tuple[ConsumerInfo, ...] = ()
        self.questions: tuple[QuestionInfo, ...] = ()
        self.history: tuple[Pair, deque[Receipt | Gap]] | None = None
        self.away_since_ms: int | None = None
        self.fault = ""
        self._arrivals: deque[int] = deque(maxlen=10_000)

    def copy(self) -> "TopFacts":
        """Return what is known now, which later receipts do not change."""
        copied = TopFacts()
        copied.__dict__.update(self.__dict__)
        copied.sessions = dict(self.sessions)
        copied.receipts = deque(self.receipts, KEPT)
        if self.history is not None:
            copied.history = (self.history[0], deque(self.history[1], KEPT))
        return copied

    def note_receipt(self, item: Receipt | Gap, now_ms: int) -> Pair | None:
        """Keep a receipt or a gap that has come; return the session that it changes."""
        self.receipts.append(item)
        if isinstance(item, Gap):
            return None
        self._arrivals.append(now_ms)
        if item.harness_session_id is None:
            return None
        pair = (item.adapter_id, item.harness_session_id)
        if self.history is not None and self.history[0] == pair:
            self._append_history(item, self.history[1])
        return pair

    def note_sessions(self, heads: Iterable[SessionHead], *, all_of_them: bool) -> None:
        """Keep what is known of sessions; with `all_of_them` there are no others any more."""
        found = {(head.adapter_id, head.harness_session_id): head for head in heads}
        self.sessions = found if all_of_them else self.sessions | found
        self.names.note(found.values())

    def note_history(self, pair: Pair, receipts: Iterable[Receipt]) -> None:
        """Keep the receipts of the session that is looked at, as they were read; what came meanwhile stays."""
        before = self.history[1] if self.history is not None and self.history[0] == pair else ()
        known: deque[Receipt | Gap] = deque(receipts, KEPT)
        self.history = (pair, known)
        for one in before:
            if isinstance(one, Receipt):
                self._append_history(one, known)

    def rate(self, now_ms: int) -> float:
        """Return how many receipts a second came in the last ten seconds."""
        return sum(at > now_ms - _RATE_MS for at in self._arrivals) * 1_000 / _RATE_MS

    def _append_history(self, receipt: Receipt, known: deque[Receipt | Gap]) -> None:
        # It may have come while the history was read.
        if not any(isinstance(one, Receipt) and one.receipt_id == receipt.receipt_id for one in known):
            known.append(receipt)


def urgent_wait(head: SessionHead) -> Wait | None:
    """Return the oldest wait for a permission or an answer; a session that waits for its next prompt has none."""
    return next((one for one in head.waiting or () if one.waiting_for in _URGENT), None)


def age_text(since_ms: int, now_ms: int) -> str:
    """Return how long ago something was, in coarse steps, so that a screen seldom changes by time alone."""
    # A clock may be set back: then it was just now.
    seconds = max(0, now_ms - since_ms) // 1_000
    if seconds < _STEP_S:
        return "now"
    if seconds < _MINUTE_S:
        return f"{seconds // _STEP_S * _STEP_S}s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S}m"
    return f"{seconds // _HOUR_S}h" if seconds < 2 * _DAY_S else f"{seconds // _DAY_S}d"
