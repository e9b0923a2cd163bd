"""What a subscriber has applied and what it must still fetch: a plain state machine without I/O (design 4.6).

Live rows may be lost; positions over the whole ledger, or sequences within one session, show it.  Then the view is
`behind`, holds live rows back, and wants backfill pages until one is complete.

Above: subscription.  Below: lifebus_transports.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Literal

from msgspec import Struct

from lifebus_transports.messages import Backfill, BackfillPage, Beacon, RowInfo
from lifebus_transports.wire import session_topic

__all__ = ["Cursor", "Gap", "View"]

_MAX_HELD: Final = 4_096


class Cursor(Struct, frozen=True):
    """A place in a ledger's order: the epoch names the history, the position the last row applied (design 3.4)."""

    epoch: str
    position: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}"

    @classmethod
    def parse(cls, text: str) -> "Cursor":
        """Read the form `epoch:position`.

        Raises:
            ValueError: the text has another form.
        """
        epoch, _, position = text.rpartition(":")
        return cls(epoch, int(position))


class Gap(Struct, frozen=True, kw_only=True):
    """Receipts that this subscriber will never see, said out loud.

    `after` is the last position it had, `until` the last lost one (None when the history itself is another one).
    `reason` is ``pruned`` (the ledger keeps less), ``epoch_changed`` (another history) or ``hole`` (the ledger itself
    lacks rows).
    """

    epoch: str
    after: int
    until: int | None
    reason: Literal["pruned", "epoch_changed", "hole"]


class View:
    """Applies rows in order, each once.

    With a `session` (adapter_id, harness_session_id) it counts in that session's sequences, otherwise in positions.
    `position` is the last position applied or skipped; `sequence` the last session sequence applied, None while it is
    not known yet.  While it is `behind`, it wants the answer to `ask`.
    """

    def __init__(self, *, epoch: str, position: int, session: tuple[str, str] | None = None) -> None:
        self.epoch = epoch
        self.position = position
        self.session = session
        self.sequence: int | None = None
        self.behind = True
        self._topic = "" if session is None else session_topic(*session).decode("ascii")
        self._doubt = False
        self._held: deque[RowInfo] = deque()
        self._beacon: int | None = None

    def ask(self) -> Backfill:
        """Return the question for the next page."""
        self._doubt = False
        return Backfill(epoch=self.epoch, after=self.position, session=self.session)

    def offer(self, epoch: str, rows: Iterable[RowInfo]) -> list[RowInfo]:
        """Take live rows; return those that follow what was applied."""
        if epoch != self.epoch:
            self.lose()
            return []
        if self.behind:
            self._hold(rows)
            return []
        return self._apply(rows)

    def fill(self, page: BackfillPage) -> list[RowInfo | Gap]:
        """Take the page that `ask` asked for; return what follows, gaps in their place.

        A complete page ends the catching up, unless something heard since the question may be newer than the page.
        """
        if page.epoch != self.epoch:
            return [self._start_over(page)]
        if page.snapshot_required:
            lost = Gap(epoch=self.epoch, after=self.position, until=page.floor, reason="pruned")
            self.position, self.sequence = page.floor, None
            return [lost]
        result: list[RowInfo | Gap] = []
        for row in page.rows:
            if row.position > self.position:
                result.extend(self._step(row))
        self.position = max(self.position, page.next)
        if page.complete and not self._doubt:
            self.behind = False
            held, self._held = self._held, deque()
            result.extend(self._apply(held))
        return result

    def note_beacon(self, beacon: Beacon) -> None:
        """Compare the heads with what was applied: the loss of a last message shows here."""
        missed_one = self._beacon is None or beacon.number != self._beacon + 1
        self._beacon = beacon.number
        if beacon.epoch != self.epoch:
            self._fall_behind()
        elif self.session is None or self.sequence is None:
            if beacon.head > self.position:
                self._fall_behind()
        elif missed_one or beacon.sessions.get(self._topic, 0) > self.sequence:
            self._fall_behind()

    def lose(self) -> None:
        """Forget live rows that could not be kept; the ledger has them."""
        self._held.clear()
        self._fall_behind()

    def _fall_behind(self) -> None:
        self.behind = self._doubt = True

    def _hold(self, rows: Iterable[RowInfo]) -> None:
        self._held.extend(rows)
        if len(self._held) > _MAX_HELD:
            self.lose()

    def _apply(self, rows: Iterable[RowInfo]) -> list[RowInfo]:
        """Return the rows that follow without a hole; at a hole become behind and hold the rest."""
        applied: list[RowInfo] = []
        pending = deque(rows)
        while pending:
            row = pending.popleft()
            number, last = self._number(row)
            if number <= last or row.position <= self.position:
                continue
            if number != last + 1:
                self._fall_behind()
                self._hold([row, *pending])
                break
            self._advance(row)
            applied.append(row)
        return applied

    def _step(self, row: RowInfo) -> Sequence[RowInfo | Gap]:
        """Apply a row of a page, which the ledger promises to be the next; say so if it is not."""
        number, last = self._number(row)
        unknown = self.session is not None and (self.sequence is None or row.sequence is None)
        before = self.position
        self._advance(row)
        if unknown or number == last + 1:
            return (row,)
        return (Gap(epoch=self.epoch, after=before, until=row.position - 1, reason="hole"), row)

    def _number(self, row: RowInfo) -> tuple[int, int]:
        """Return the row's number in the order this view counts in, and the last one applied."""
        if self.session is not None and row.sequence is not None:
            return row.sequence, self.sequence or 0
        return row.position, self.position

    def _advance(self, row: RowInfo) -> None:
        self.position = row.position
        if row.sequence is not None:
            self.sequence = row.sequence

    def _start_over(self, page: BackfillPage) -> Gap:
        lost = Gap(epoch=self.epoch, after=self.position, until=None, reason="epoch_changed")
        self.epoch, self.position, self.sequence = page.epoch, page.floor, None
        self._held.clear()
        return lost
