"""What a subscriber has applied, and what it must still fetch.  Pure.

See docs/wire-protocol.md, "Joining without a hole".

Live items (receipts or signals) may be lost; their numbers show it: positions over the whole ledger, sequences within
one session or thread.  Then the view is `behind`, holds live items back, and wants pages until one is complete.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, Generic, Literal, Protocol, TypeVar

from msgspec import Struct, structs

from lifebus_transports.framing.frames import session_topic
from lifebus_transports.messages.reads import Backfill, BackfillPage, Beacon, WireReceipt

_MAX_HELD: Final = 4_096


class Position(Struct, frozen=True):
    """A place in a ledger's order: `epoch` names the history, and `position` is the last receipt applied.

    See docs/contract.md 6.4.
    """

    epoch: str
    position: int

    def __str__(self) -> str:
        return f"{self.epoch}:{self.position}"

    @classmethod
    def parse(cls, text: str) -> "Position":
        """Read the form `epoch:position`.

        Raises:
            ValueError: the text has another form.
        """
        epoch, _, position = text.rpartition(":")
        return cls(epoch, int(position))


class Gap(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Receipts or signals that this subscriber will never see.

    `after` is the last position that it had, and `until` the last lost one (None if the ledger's history is another
    one).  `state_at` is the position of the state that replaces what is lost, if there is one: `state()` of the
    iterator that reported this gap returns it, and continues after it.  `reason` is ``pruned`` (the ledger no longer
    keeps them), ``deleted`` (the thread was deleted), ``epoch_changed`` (another history) or ``hole`` (the ledger
    itself lacks receipts).  `thread` names the thread whose signals are lost, and is None for receipts.
    """

    epoch: str
    after: int  # the last position before it
    until: int | None
    reason: Literal["pruned", "deleted", "epoch_changed", "hole"]
    thread: str | None = None  # whose signals are gone; None for receipts
    state_at: int | None = None


class Placed(Protocol):
    """A receipt or signal as it was published, with its number."""

    @property
    def position(self) -> int:
        """Its number: 1, 2, 3 … in the order of publishing."""
        ...


R = TypeVar("R", bound=Placed)
R_co = TypeVar("R_co", bound=Placed, covariant=True)


class PageOf(Protocol[R_co]):
    """An answer with items, which the wire calls `rows` (see `lifebus_transports.messages.reads.BackfillPage`)."""

    @property
    def epoch(self) -> str:
        """The history that it is of."""
        ...

    @property
    def rows(self) -> Sequence[R_co]:
        """The items in order."""
        ...

    @property
    def next(self) -> int:
        """The position up to which nothing is missing."""
        ...

    @property
    def floor(self) -> int:
        """The last position that is no longer kept."""
        ...

    @property
    def complete(self) -> bool:
        """Whether nothing is missing up to the newest item."""
        ...

    @property
    def snapshot_required(self) -> bool:
        """Whether what was asked for is gone."""
        ...


class NumberedView(Generic[R]):
    """Applies items in order, each once, by their positions.

    `position` is the last position applied or skipped.  While it is `behind`, it wants a page of what follows.
    """

    def __init__(self, *, epoch: str, position: int) -> None:
        self.epoch = epoch
        self.position = position
        self.behind = True
        self._doubt = False
        self._held: deque[R] = deque()

    def expect_page(self) -> None:
        """Note that the next page is asked for now: what arrives from here on may be newer than the page."""
        self._doubt = False

    def offer(self, epoch: str, items: Iterable[R]) -> list[R]:
        """Take live items; return those that follow what was applied."""
        # Items of another history follow nothing here; the next page says what became of it.
        if epoch != self.epoch:
            self.lose()
            return []
        if self.behind:
            self._hold(items)
            return []
        return self._apply(items)

    def fill(self, page: PageOf[R]) -> list[R | Gap]:
        """Take the page that was asked for; return what follows, gaps in their place.

        A complete page ends the catching up, unless what arrived since the request may be newer than the page.
        """
        if page.epoch != self.epoch:
            return [self._start_over(page)]
        if page.snapshot_required:
            lost = Gap(epoch=self.epoch, after=self.position, until=page.floor, reason="pruned")
            self._jump(page.floor)
            return [lost]
        result: list[R | Gap] = []
        for item in page.rows:
            if item.position > self.position:
                result.extend(self._step(item))
        self.position = max(self.position, page.next)
        # A head or item that arrived since the page was asked for may lie behind its end: then one more page is due.
        if page.complete and not self._doubt:
            self.behind = False
            held, self._held = self._held, deque()
            result.extend(self._apply(held))
        return result

    def start_from(self, epoch: str, position: int) -> None:
        """Go on after a place further on: what lies before it is known by other means."""
        if epoch != self.epoch or position > self.position:
            self.epoch = epoch
            self._jump(position)
            self.lose()

    def note_head(self, head: int) -> None:
        """Compare the newest position there is with what was applied."""
        if head > self.position:
            self._fall_behind()

    def lose(self) -> None:
        """Forget live items that could not be kept; the ledger has them."""
        self._held.clear()
        self._fall_behind()

    def _fall_behind(self) -> None:
        self.behind = self._doubt = True

    def _hold(self, items: Iterable[R]) -> None:
        self._held.extend(items)
        if len(self._held) > _MAX_HELD:  # bounded: the ledger has what is dropped here
            self.lose()

    def _apply(self, items: Iterable[R]) -> list[R]:
        """Return the items that follow without a hole; at a hole become behind and hold the rest."""
        applied: list[R] = []
        pending = deque(items)
        while pending:
            item = pending.popleft()
            number, last = self._number(item)
            # Seen already: the page and the live stream overlap.
            if number <= last or item.position <= self.position:
                continue
            if number != last + 1:
                self._fall_behind()
                self._hold([item, *pending])
                break
            self._advance(item)
            applied.append(item)
        return applied

    def _step(self, item: R) -> Sequence[R | Gap]:
        """Apply an item of a page, which the ledger promises to be the next; return a gap before it if it is not."""
        follows, before = self._follows(item), self.position
        self._advance(item)
        if follows:
            return (item,)
        return (Gap(epoch=self.epoch, after=before, until=item.position - 1, reason="hole"), item)

    def _start_over(self, page: PageOf[R]) -> Gap:
        lost = Gap(epoch=self.epoch, after=self.position, until=None, reason="epoch_changed")
        self.epoch = page.epoch
        self._jump(page.floor)
        self._held.clear()
        return lost

    def _number(self, item: R) -> tuple[int, int]:
        """Return the item's number in the order this view counts in, and the last one applied."""
        return item.position, self.position

    def _follows(self, item: R) -> bool:
        number, last = self._number(item)
        return number == last + 1

    def _advance(self, item: R) -> None:
        self.position = item.position

    def _jump(self, position: int) -> None:
        self.position = position


class View(NumberedView[WireReceipt]):
    """Receipts: of the whole ledger by position, or of a `session` (adapter_id, harness_session_id) by its sequences.

    `sequence` is the last session sequence applied, None while it is not known yet.
    """

    def __init__(self, *, epoch: str, position: int, session: tuple[str, str] | None = None) -> None:
        super().__init__(epoch=epoch, position=position)
        self.session = session
        self.sequence: int | None = None
        self._topic = "" if session is None else session_topic(*session).decode("ascii")
        self._beacon: int | None = None

    def ask(self) -> Backfill:
        """Return the question for the next page."""
        self.expect_page()
        return Backfill(epoch=self.epoch, after=self.position, session=self.session)

    def fill(self, page: PageOf[WireReceipt]) -> list[WireReceipt | Gap]:
        """Take the page that was asked for; a gap names the state that stands for what is lost."""
        items = super().fill(page)
        if isinstance(page, BackfillPage) and page.snapshot is not None:
            at = page.snapshot.position
            return [structs.replace(item, state_at=at) if isinstance(item, Gap) else item for item in items]
        return items

    def note_beacon(self, beacon: Beacon) -> None:
        """Compare the heads with what was applied: the loss of a last message shows here."""
        # A lost beacon may have been the only one that named this session's newest receipt.
        missed_one = self._beacon is None or beacon.number != self._beacon + 1
        self._beacon = beacon.number
        if beacon.epoch != self.epoch:
            self._fall_behind()
        elif self.session is None or self.sequence is None:
            self.note_head(beacon.head)
        elif missed_one or beacon.sessions.get(self._topic, 0) > self.sequence:
            self._fall_behind()

    def _number(self, item: WireReceipt) -> tuple[int, int]:
        if self.session is not None and item.sequence is not None:
            return item.sequence, self.sequence or 0
        return super()._number(item)

    def _follows(self, item: WireReceipt) -> bool:
        unknown = self.session is not None and (self.sequence is None or item.sequence is None)
        return unknown or super()._follows(item)

    def _advance(self, item: WireReceipt) -> None:
        super()._advance(item)
        if item.sequence is not None:
            self.sequence = item.sequence

    def _jump(self, position: int) -> None:
        super()._jump(position)
        self.sequence = None  # the next receipt sets it: what was passed over had numbers too
