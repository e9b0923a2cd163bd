"""A model of ledger, publisher and lossy pipe, to play a view against."""

from collections.abc import Sequence

from lifebus._internal.view import Gap, View
from lifebus_transports.framing.frames import session_topic
from lifebus_transports.messages.reads import Backfill, BackfillPage, Beacon, WireReceipt
from support.clients.lossy_pipe import LossyPipe

ADAPTER = "codex"
Message = Beacon | tuple[str, list[WireReceipt]]


class ModelLedger:
    """One history: rows in position order, sequences per session, a floor."""

    def __init__(self, epoch: str) -> None:
        self.epoch = epoch
        self.floor = 0
        self.receipts: list[tuple[WireReceipt, str]] = []
        self._sequences: dict[str, int] = {}

    @property
    def head(self) -> int:
        return len(self.receipts)

    def commit(self, sessions: Sequence[str]) -> list[tuple[WireReceipt, str]]:
        new: list[tuple[WireReceipt, str]] = []
        for session in sessions:
            self._sequences[session] = self._sequences.get(session, 0) + 1
            name = f"{self.epoch}/{self.head + 1}".encode()
            new.append((WireReceipt(self.head + 1, self._sequences[session], name), session))
            self.receipts.append(new[-1])
        return new

    def wanted(self, session: tuple[str, str] | None, after: int = 0) -> list[WireReceipt]:
        return [one for one, name in self.receipts[after:] if session is None or session[1] == name]

    def page(self, query: Backfill, limit: int) -> BackfillPage:
        if query.epoch != self.epoch or query.after < self.floor:
            return self._page((), self.floor, complete=False, snapshot_required=True)
        found = self.wanted(query.session, query.after)
        if len(found) > limit:
            return self._page(found[:limit], found[limit - 1].position, complete=False)
        return self._page(found, max(query.after, self.head), complete=True)

    def _page(
        self, stored: Sequence[WireReceipt], next_: int, *, complete: bool, snapshot_required: bool = False
    ) -> BackfillPage:
        return BackfillPage(
            epoch=self.epoch,
            rows=tuple(stored),
            next=next_,
            head=self.head,
            floor=self.floor,
            complete=complete,
            snapshot_required=snapshot_required,
        )


class LossyBus(LossyPipe[Message, ModelLedger]):
    """Broker and subscriber with everything between them in the test's hands."""

    def __init__(self, session: tuple[str, str] | None, history: Sequence[str], start: int) -> None:
        super().__init__(ModelLedger)
        self.session = session
        self.log.commit(history)
        self.start = min(start, self.log.head)
        self.view = View(epoch="e1", position=self.start, session=session)
        if self.start == 0:
            self.view.sequence = 0
        self.seen: list[WireReceipt | Gap] = []
        self.page: BackfillPage | None = None

    def commit(self, sessions: Sequence[str]) -> None:
        """Commit rows and publish them as the publisher does."""
        new = self.log.commit(sessions)
        for one, session in new:
            self._changed[session_topic(ADAPTER, session).decode()] = one.sequence or 0
        published = [one for one, session in new if self.session is None or session == self.session[1]]
        if published:
            self.pipe.append((self.log.epoch, published))

    def beacon(self) -> None:
        changed, self._changed = self._changed, {}
        number = next(self._beacons)
        log = self.log
        self.pipe.append(Beacon(epoch=log.epoch, number=number, head=log.head, floor=log.floor, sessions=changed))

    def prune(self, keep: int) -> None:
        self.log.floor = max(self.log.floor, self.log.head - keep)

    def _receive(self, message: Message) -> None:
        if isinstance(message, Beacon):
            self.view.note_beacon(message)
        else:
            self.seen.extend(self.view.offer(*message))

    def cancel(self) -> None:
        """Give up the question that is under way."""
        self.page = None

    def ask(self, limit: int) -> None:
        """Ask if the view wants to; the broker reads now, the answer comes whenever it comes."""
        if self.view.behind and self.page is None:
            self.page = self.log.page(self.view.ask(), limit)

    def answer(self) -> None:
        if self.page is not None:
            page, self.page = self.page, None
            self.seen.extend(self.view.fill(page))

    def settle(self) -> None:
        """Lose what is under way; then one beacon arrives, and pages as long as they are wanted."""
        self.pipe.clear()
        self.answer()
        self.beacon()
        self.deliver(0)
        for _ in range(3 * self.log.head + 10):
            if not self.view.behind:
                return
            self.ask(3)
            self.answer()
        raise AssertionError("the view never caught up")
