"""Which sessions get the text of `lifebus inject`, and what became of it.  Pure."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, Literal

from msgspec import Struct

from lifebus import Receipt, ReceiptStatus
from lifebus.cli.tools.receipt_facts import Key, session_of
from lifebus_contract import FailureClass, PayloadReceipt

OutcomeWord = Literal["delivered", "deferred", "refused", "taken_back"]
"""What became of a payload: it reached its place; it did not now, and is tried with the next prompt; it never will; it
was placed and turned out not to have reached the model, and is tried again."""

MAX_SESSIONS: Final = 65_536
"""Most sessions that are remembered; the oldest is forgotten first."""

_FINAL: Final = frozenset({FailureClass.PAYLOAD_TOO_LARGE, FailureClass.PLACEMENT_UNAVAILABLE})
# Such warnings are about the numbering of events, and say nothing of the text.
_OF_IDS: Final = "_id_synthesized"
_PLACED: Final = frozenset({ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED})


class InjectOutcome(Struct, frozen=True, kw_only=True):
    """What one receipt says of a payload (docs/json/inject.json).

    `name` is what the session is called, `placement` where it landed or would have; `why` is empty for what was
    delivered as it was meant.
    """

    outcome: OutcomeWord
    adapter_id: str
    session: str
    name: str
    event: str
    payload_id: str | None
    placement: str | None
    byte_size: int | None
    why: str
    receipt_id: str


class InjectProgress:
    """How far each session is.  Sessions of `before` are not new: they get nothing, unless `takes_open` says so."""

    def __init__(self, before: Iterable[Key], *, takes_open: bool) -> None:
        self._before = frozenset(before)
        self._takes_open = takes_open
        self._state: OrderedDict[Key, Literal["handed", "done"]] = OrderedDict()

    def wants(self, key: Key) -> bool:
        """Whether a session is to get the text now."""
        return key not in self._state and (self._takes_open or key not in self._before)

    def must_be_read(self, key: Key) -> bool:
        """Whether an earlier process may have given the text to a session already."""
        return key in self._before

    def hand(self, key: Key) -> None:
        """Note that the text was handed to the broker for a session; its receipt says what became of it."""
        self._note(key, "handed")

    def settle(self, key: Key) -> None:
        """Note that a session has the text, or never gets it."""
        self._note(key, "done")

    def apply(self, outcome: InjectOutcome) -> None:
        """Note what a receipt says; what did not reach its place is wanted again."""
        key = (outcome.adapter_id, outcome.session)
        if outcome.outcome in {"delivered", "refused"}:
            self.settle(key)
        elif self._state.get(key) == "handed" or outcome.outcome == "taken_back":
            self._state.pop(key, None)

    def _note(self, key: Key, state: Literal["handed", "done"]) -> None:
        self._state[key] = state
        self._state.move_to_end(key)
        if len(self._state) > MAX_SESSIONS:
            self._state.popitem(last=False)


def outcomes_of(receipt: Receipt, client_id: str) -> list[InjectOutcome]:
    """Return what a receipt says of a client's payloads; nothing where it is another's, or nothing was handed."""
    key = session_of(receipt)
    if key is None or receipt.client_id != client_id:
        return []
    # A client's own receipt without payloads is news only where it failed: its answer came too late, say.
    payloads: tuple[PayloadReceipt | None, ...] = receipt.payload_receipts or (
        (None,) if receipt.failure_class is not None else ()
    )
    return [_outcome(receipt, key, one) for one in payloads]


def _outcome(receipt: Receipt, key: Key, payload: PayloadReceipt | None) -> InjectOutcome:
    word: OutcomeWord = "deferred"
    if "corrects" in receipt.telemetry_summary:
        word = "taken_back"
    elif receipt.failure_class in _FINAL:
        word = "refused"
    elif payload is not None and payload.status in _PLACED:
        word = "delivered"
    reasons = [one.message for one in receipt.warnings if not one.code.endswith(_OF_IDS)]
    if receipt.failure_class is not None:
        reasons.insert(0, receipt.failure_class.value)
    return InjectOutcome(
        outcome=word,
        adapter_id=key[0],
        session=key[1],
        name=f"{key[0]}/{key[1]}",
        event=receipt.event.value,
        payload_id=payload.payload_id if payload else None,
        placement=payload.placement.value if payload and payload.placement else None,
        byte_size=payload.byte_size if payload else None,
        why="; ".join(dict.fromkeys(reasons)),
        receipt_id=receipt.receipt_id,
    )
