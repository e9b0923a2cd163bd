"""What is pending in a session: questions to an operator, and payloads that were accepted and have no place yet.

A question is open from the receipt that asks an operator (failure class `operator_required` or retry class
`retry_after_operator`) until a receipt of the same client for the same event of the session bears no failure.  A
harness's own question is open from `operator: asked` until it has any other state, or its frame ends.  A payload is
pending from a receipt without failure that skipped it until a receipt of the same client gives it a placement.  The end
of the session settles them all.
"""

from typing import Final, TypeVar

from msgspec import Struct

from lifebus_broker.ports import EMITTER
from lifebus_broker.state.receipt_view import ReceiptLike
from lifebus_broker.state.telemetry_keys import BACKGROUND_CLIENT, FRAME, OPERATOR, OPERATOR_KIND, REQUEST
from lifebus_contract import FailureClass, LifecycleEvent, ReceiptStatus, RetryClass

MAX_WAITING: Final = 32
"""Most questions, and most payloads, that one session remembers; the oldest is forgotten first."""

_ASKED: Final = "asked"
_FRAME_ENDED: Final = LifecycleEvent.FRAME_ENDED
_OPERATOR_REQUIRED: Final = FailureClass.OPERATOR_REQUIRED
_AFTER_OPERATOR: Final = RetryClass.RETRY_AFTER_OPERATOR
_SKIPPED: Final = ReceiptStatus.SKIPPED

_Item = TypeVar("_Item", "OperatorQuestion", "Handout")


class OperatorQuestion(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Something that only an operator can settle.

    `about` is the event that the client could not do without one, or the harness's own request; `frame_id` the frame
    that waits, `position` the receipt that asks.
    """

    about: str
    client_id: str
    frame_id: str | None = None
    position: int


class Handout(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A payload that was accepted and not placed; `position` is the newest receipt that says so."""

    client_id: str
    payload_id: str
    payload_kind: str
    position: int


def next_questions(
    known: tuple[OperatorQuestion, ...], position: int, receipt: ReceiptLike
) -> tuple[OperatorQuestion, ...]:
    """Return the open questions of a session after one more receipt; the same object if nothing changed."""
    facts = receipt.telemetry_summary
    if receipt.event is _FRAME_ENDED and known:
        frame = facts.get(FRAME)
        known = _without(known, [one for one in known if one.about not in _EVENTS and one.frame_id == frame])
    about, client_id = receipt.event.value, receipt.client_id
    asks = receipt.failure_class is _OPERATOR_REQUIRED or receipt.retry_class is _AFTER_OPERATOR
    settled = receipt.failure_class is None
    # A background client's receipt repeats a question that may be settled by now.
    if OPERATOR in facts and BACKGROUND_CLIENT in facts:
        return known
    if OPERATOR in facts:
        about, client_id = _request(receipt), str(facts.get(EMITTER, client_id))
        asks, settled = facts[OPERATOR] == _ASKED, facts[OPERATOR] != _ASKED
    # A question that is asked again replaces itself, with its new position.
    same = [one for one in known if one.about == about and one.client_id == client_id]
    if not asks:
        return _without(known, same) if settled else known
    frame = facts.get(FRAME)
    frame_id = frame if isinstance(frame, str) else None
    asked = OperatorQuestion(about=about, client_id=client_id, frame_id=frame_id, position=position)
    return (*_without(known, same), asked)[-MAX_WAITING:]


def next_handouts(known: tuple[Handout, ...], position: int, receipt: ReceiptLike) -> tuple[Handout, ...]:
    """Return the pending payloads of a session after one more receipt; the same object if nothing changed."""
    for payload in receipt.payload_receipts:
        same = [one for one in known if (one.client_id, one.payload_id) == (receipt.client_id, payload.payload_id)]
        if payload.placement is not None:
            known = _without(known, same)
        elif payload.status is _SKIPPED and receipt.failure_class is None:
            waits = Handout(
                client_id=receipt.client_id,
                payload_id=payload.payload_id,
                payload_kind=payload.payload_kind,
                position=position,
            )
            known = (*_without(known, same), waits)[-MAX_WAITING:]
    return known


def _request(receipt: ReceiptLike) -> str:
    """Return what identifies a harness's question; the type is part of it, as ids may be text or numbers."""
    facts = receipt.telemetry_summary
    # JSON-RPC has ids of both types, and 1 is not "1".
    number = facts.get(REQUEST)
    return f"{facts.get(OPERATOR_KIND)}:{type(number).__name__}:{number}"


def _without(known: tuple[_Item, ...], gone: list[_Item]) -> tuple[_Item, ...]:
    return tuple(one for one in known if one not in gone) if gone else known


_EVENTS: Final = frozenset(event.value for event in LifecycleEvent)
