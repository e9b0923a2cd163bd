"""Which frames have ended, so that a frame has at most one `frame.ended`, whoever reports it (docs/contract.md 2.7).

Hooks, supervision, app-servers and clients report on the same frames at the same time.  Each end is claimed here, on
the event loop, before it is handed to the ledger; a claim whose receipt was refused is given back.
"""

from collections import OrderedDict
from typing import Final

from msgspec import Struct, structs

from lifebus_broker.ports import Ledger, Query, Refusal
from lifebus_broker.state.telemetry_keys import FRAME, is_applied_before
from lifebus_contract import CallbackRequest, LifecycleEvent
from lifebus_contract.codec import decode_receipt

MAX_FRAMES: Final = 16_384
"""Most frames that are remembered, those that opened or ended last."""

_MAX_SESSIONS: Final = 4_096
_PAGE_ROWS: Final = 512
# Bound once: to look up a member of an enum costs eight times a module's name.
_ENDED: Final = LifecycleEvent.FRAME_ENDED
_NOTED: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED})

_FrameKey = tuple[str, str | None, str]
_SessionKey = tuple[str, str | None]
_ALREADY_ENDED: Final = Refusal.of("frame_ended", "the frame has ended already; its end is recorded once")


class _Claim(Struct, frozen=True):
    """Which report it is: the same one that comes again, or for another client, is no second end."""

    event_id: str
    invocation_id: str


class _Opening(Struct, frozen=True):
    """The newest opening of a frame that is not recorded yet, and what was known of the frame before."""

    claim: _Claim
    known: bool
    ended_by: _Claim | None


class FrameEnds:
    """The frames of which this process has seen the opening or the end."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        # By frame: who reported its end, None while it is open; the newest last.
        self._frames: OrderedDict[_FrameKey, _Claim | None] = OrderedDict()
        # By frame: the openings, and the claimed ends, that are on their way to the ledger.
        self._openings: dict[_FrameKey, _Opening] = {}
        self._claimed: dict[_FrameKey, bool] = {}  # whether it was known to be open
        # The sessions whose ends from before this process are known.
        self._learned: OrderedDict[_SessionKey, None] = OrderedDict()

    def is_known(self, request: CallbackRequest) -> bool:
        """Whether a claim can be decided at once; where it cannot, `learn` comes first."""
        if request.event is not _ENDED or request.frame_context is None:
            return True
        return _session_of(request) in self._learned or _frame_of(request) in self._frames

    async def learn(self, request: CallbackRequest) -> None:
        """Read from the ledger which frames of the request's session ended before this process."""
        if _session_of(request) in self._learned or request.harness_session_id is None:
            return
        after, complete = 0, False
        key = (request.adapter_id, request.harness_session_id)
        found: dict[_FrameKey, _Claim | None] = {}
        while not complete:
            page = await self._ledger.read(Query(after=after, limit=_PAGE_ROWS, session=key, past_damage=True))
            for stored in page.stored:
                receipt = decode_receipt(stored.receipt)
                facts = receipt.telemetry_summary
                frame = facts.get(FRAME)
                # A background client's opening, or a correction, may stand behind the end.
                if isinstance(frame, str) and receipt.event in _NOTED and not is_applied_before(facts):
                    claim = _Claim(receipt.event_id, receipt.invocation_id)
                    found[*key, frame] = claim if receipt.event is _ENDED else None
            after, complete = page.next, page.complete
        self._learned[key] = None
        if len(self._learned) > _MAX_SESSIONS:
            self._learned.popitem(last=False)
        asked = _frame_of(request)
        # The frame in question comes last: of very many the first ones are forgotten at once.
        for name in sorted(found, key=lambda name: name == asked):
            # What was claimed while the ledger was read is newer.
            self._remember(name, self._frames.get(name, found[name]))

    def note(self, request: CallbackRequest) -> Refusal | None:
        """Take an emission that is about to be recorded; return why it must not be, None where it may."""
        frame = _frame_of(request)
        if frame is None or request.event not in _NOTED:
            return None
        claim = _Claim(request.event_id, request.invocation_id)
        known = self._frames.get(frame)
        if request.event is not _ENDED:
            before = self._openings.get(frame) or _Opening(claim, frame in self._frames, known)
            self._openings[frame] = structs.replace(before, claim=claim)
            # A frame that opens again under the id of an ended one is another frame.
            self._remember(frame, None)
            return None
        if known is not None:
            # The ledger finds a repeated key by itself, and answers with what is stored.
            is_repeated = request.idempotency_key is not None and claim == known
            return None if is_repeated else _ALREADY_ENDED
        self._claimed[frame] = frame in self._frames
        self._remember(frame, claim)
        return None

    def settle(self, request: CallbackRequest, *, recorded: bool, replayed: bool) -> None:
        """Take what became of an emission that was noted: whether it is on record, and was so before."""
        frame = _frame_of(request)
        if frame is None or request.event not in _NOTED:
            return
        claim = _Claim(request.event_id, request.invocation_id)
        if request.event is not _ENDED:
            self._settle_opening(frame, claim, opened=recorded and not replayed)
        elif frame in self._claimed and self._frames.get(frame) == claim:
            was_open = self._claimed.pop(frame)
            # An end that comes again is that of an earlier life: the frame that was opened since stays open.
            if not recorded or (replayed and was_open):
                self._frames[frame] = None

    def forget(self, request: CallbackRequest) -> None:
        """Take that nobody knows what became of an emission that was noted: the ledger is asked about its frame."""
        frame = _frame_of(request)
        if frame is not None and request.event in _NOTED:
            self._frames.pop(frame, None)
            self._openings.pop(frame, None)
            self._claimed.pop(frame, None)
            self._learned.pop(_session_of(request), None)

    def _settle_opening(self, frame: _FrameKey, claim: _Claim, *, opened: bool) -> None:
        opening = self._openings.get(frame)
        if opening is None or not (opened or opening.claim == claim):
            return
        del self._openings[frame]
        if opened or self._frames.get(frame) is not None:
            return
        # A repeated or refused opening says nothing new of its frame.
        if opening.known:
            self._remember(frame, opening.ended_by)
        else:
            self._frames.pop(frame, None)

    def _remember(self, frame: _FrameKey, claim: _Claim | None) -> None:
        self._frames[frame] = claim
        self._frames.move_to_end(frame)
        if len(self._frames) > MAX_FRAMES:
            (adapter_id, session, _), _ = self._frames.popitem(last=False)
            self._learned.pop((adapter_id, session), None)  # the ledger knows what is forgotten here


def _session_of(request: CallbackRequest) -> _SessionKey:
    return request.adapter_id, request.harness_session_id


def _frame_of(request: CallbackRequest) -> _FrameKey | None:
    """Return the key of the frame that a request is about, None where it is about none."""
    context = request.frame_context
    return None if context is None else (request.adapter_id, request.harness_session_id, context.frame_id)
