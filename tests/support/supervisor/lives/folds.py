"""Every fold that says whether a session and its frames are open, held against one another."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self, cast

from msgspec import Struct

from lifebus._internal.view import Gap, View
from lifebus_broker.ports import EMITTER, Query, StoredReceipt
from lifebus_broker.snapshots.state_follower import StateFollower
from lifebus_broker.state.receipt_view import ReceiptLike, read_receipt
from lifebus_broker.state.session_state import SessionState
from lifebus_broker.state.stores import Stores, dump_stores, load_stores, reduce_event
from lifebus_broker.state.working_set import compile_working_set
from lifebus_contract.views import SessionHead
from lifebus_supervisor.api.calls import Call
from lifebus_supervisor.api.reads import ReadVerbs, page_of
from lifebus_supervisor.api.status import StatusVerbs
from lifebus_supervisor.supervision.report import harness_statuses
from lifebus_transports.messages.common import Nothing
from lifebus_transports.messages.reads import SessionsQuery, WireReceipt
from lifebus_transports.messages.status import BrokerStatus
from support.paths import REPOSITORY
from support.supervisor.supervised import SupervisedBus

STRANGER = "somebody"
"""The client that says of others' sessions what it likes."""

_BEGINS = {"session.starting", "session.started", "frame.opening", "frame.opened"}


class Told(Struct, kw_only=True):
    """What receipts say of one session, by a fold that shares nothing with the product's."""

    open_frames: list[str] = []
    ends: dict[str, object] = {}
    session_ends: list[object] = []
    ended: bool = False
    is_strange_end: bool = False
    unsure: set[str] = set()

    def take(self, receipt: ReceiptLike) -> None:
        """Take one receipt; the rules that hold at every moment are checked."""
        event, facts = receipt.event.value, receipt.telemetry_summary
        frame = facts.get("frame_id")
        is_foreign = STRANGER in {receipt.client_id, facts.get(EMITTER)}
        is_overdue = self.is_strange_end and event in {"frame.ending", "frame.ended"}
        if self.ended and not is_foreign and not is_overdue:
            assert event in {"session.starting", "session.started"}, f"{event} is recorded behind the end"
            assert facts.get("resumed") or facts.get("source_hook") or facts.get("source"), "a start without a reason"
        if event == "session.ended":
            assert is_foreign or not self.ended, "a session that has ended ends again"
            self.is_strange_end = is_foreign
            assert is_foreign or not self.open_frames, "a session ends around an open frame"
            self.session_ends.append(facts.get("session_end"))
        self.ended = event == "session.ended" or (self.ended and event not in _BEGINS)
        if event in {"frame.opening", "frame.opened"} and frame not in self.open_frames:
            if frame in self.unsure:  # another frame, to whoever is not told that the first one was no end
                self.ends.pop(str(frame), None)
            assert frame not in self.ends, "a frame that has ended opens again"
            self.open_frames.append(str(frame))
        elif event == "frame.ended":
            assert frame not in self.ends, "a frame ends twice"
            self.ends[str(frame)] = facts.get("frame_end")
            self.open_frames = [one for one in self.open_frames if one != frame]
        elif event == "context.pressure_observed":
            _check_numbers(facts)

    @property
    def word(self) -> tuple[bool, list[str]]:
        """Whether the session has ended, and which frames are open."""
        return self.ended, self.open_frames


def _check_numbers(facts: dict[str, Any]) -> None:
    used, window = facts.get("context_used_tokens"), facts.get("context_window_tokens")
    level, percent = facts.get("context_pressure"), facts.get("context_used_pct")
    assert (level is None) == (window is None) == (percent is None)
    if isinstance(window, int) and isinstance(used, int):
        assert percent == used * 100 // window


class Folds:
    """Follows a bus the way each reader of it does; a context, which closes what it opened."""

    def __init__(self, rig: SupervisedBus, key: tuple[str, str]) -> None:
        self.unsure: set[str] = set()
        self.told = Told(unsure=self.unsure)
        self.receipts: list[ReceiptLike] = []
        self.state: SessionState | None = None
        self._rig, self._key = rig, key
        self._log = rig.bus.ledger.open_log()
        self._follower = StateFollower(self._log)
        self._views = [View(epoch=rig.bus.ledger.epoch, position=0, session=one) for one in (None, key)]
        self._clients = [Told(unsure=self.unsure) for _ in self._views]
        self._published = 0
        rig.bus.fanout.listen(self._publish)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._log.close()

    def _publish(self, stored: Sequence[StoredReceipt]) -> None:
        """Be the stream to clients, which loses a third of what it carries."""
        self._published += 1
        if self._published % 3 == 0:
            return
        rows = [WireReceipt(one.position, one.sequence, one.receipt) for one in stored]
        mine = [row for row, one in zip(rows, stored, strict=True) if self._is_own(one)]
        for view, told, its in zip(self._views, self._clients, (rows, mine), strict=True):
            self._apply(told, view.offer(view.epoch, its))

    def _is_own(self, stored: StoredReceipt) -> bool:
        return (stored.adapter_id, stored.harness_session_id) == self._key

    def _apply(self, told: Told, items: Sequence[WireReceipt | Gap]) -> None:
        for item in items:
            assert isinstance(item, WireReceipt), "a client has lost receipts"
            receipt = read_receipt(item.receipt, item.position)
            if (receipt.adapter_id, receipt.harness_session_id) == self._key:
                told.take(receipt)

    async def check(self) -> Told:
        """Bring every fold to the head; they say the same.  Return it."""
        ledger = self._rig.bus.ledger
        page = await ledger.read(Query(after=len(self.receipts), limit=1_000))
        for stored in page.stored:
            receipt = read_receipt(stored.receipt, stored.position)
            self.receipts.append(receipt)
            if self._is_own(stored):
                self.told.take(receipt)
        word = self.told.word
        await self._check_clients(word)
        self._check_state(word)
        await self._check_answers(word)
        return self.told

    async def _check_clients(self, word: tuple[bool, list[str]]) -> None:
        for view, told in zip(self._views, self._clients, strict=True):
            view.note_head(self._rig.bus.ledger.head)
            while view.behind:
                asked = view.ask()
                page = await self._rig.bus.ledger.read(Query(after=asked.after, limit=7, session=asked.session))
                self._apply(told, view.fill(page_of(page, has_state=True)))
            assert told.word == word, "a client's view"

    def _check_state(self, word: tuple[bool, list[str]]) -> None:
        stores = self._follower.advance()
        state = self.state = stores.sessions.get(self._key)
        frames = [] if state is None else [frame.frame_id for frame in state.frames]
        assert (state is not None and state.ended, frames) == word, "the state follower"
        live = {(one.adapter_id, one.harness_session_id) for one in compile_working_set(stores, {}).sessions}
        assert (self._key in live) is (state is not None and word != (True, [])), "the working set of a boot"

    async def _check_answers(self, word: tuple[bool, list[str]]) -> None:
        call = cast("Call", None)
        verbs = ReadVerbs(self._rig.bus.ledger, lambda _, __: None).handlers()
        heads: list[SessionHead] = await verbs["sessions"](call, SessionsQuery())
        shown = [(head.ended, list(head.open_frames)) for head in heads if head.harness_session_id == self._key[1]]
        assert shown in ([], [word]), "`sessions`"
        monitor = self._rig.supervisor.monitors.get(self._key)
        if monitor is None or not monitor.loaded or monitor.position < monitor.newest:
            return
        assert [one.frame_id for one in monitor.state.frames] == word[1], "the monitor"
        assert not (monitor.is_live and word[0]), "the monitor"
        status = self._status().harnesses
        shown_live = [(one.sessions, one.open_frames) for one in status if one.adapter_id == self._key[0]]
        assert shown_live == [(int(monitor.is_live), len(word[1]) if monitor.is_live else 0)], "`status`"
        assert monitor.is_live is not word[0] or not monitor.has_begun or monitor.telemetry.only_history

    def _status(self) -> BrokerStatus:
        rig = self._rig
        status = StatusVerbs(
            rig.bus,
            (REPOSITORY, REPOSITORY),
            counters=dict,
            unknown_adapters=tuple,
            waiting=lambda: (),
            harnesses=lambda: harness_statuses(rig.supervisor, rig.clock.now(), rig.clock.epoch()),
            retention=lambda: None,
            scrub=lambda: None,
            backup=lambda: None,
        )
        return cast("BrokerStatus", status.handlers()["status"](cast("Call", None), Nothing()))

    def check_replay(self) -> None:
        """The log from its first line gives the state that was followed, also where one stopped and went on."""
        followed = dump_stores(self._follower.advance())
        stores = Stores()
        for line in self._log.lines(0, self._log.head):
            reduce_event(stores, line)
            if line.position == self._log.head // 2:
                stores = load_stores(dump_stores(stores))
        assert dump_stores(stores) == followed
