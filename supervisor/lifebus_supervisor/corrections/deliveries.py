"""Which receipts promised a delivery that turned out false, and the receipts that say so.  Pure.

A correction is a receipt in the client's own name, about the same event and of the same invocation as the receipt that
it corrects; its key is made of that receipt's id, so that each delivery is corrected once.
"""

import hashlib
from collections.abc import Collection, Sequence
from typing import Final

from msgspec import Struct, structs

from lifebus_broker.ports import EMITTER, NewReceipt, Refusal
from lifebus_broker.routing.receipts import warning_of
from lifebus_broker.state.telemetry_keys import CAUSE, CORRECTS, FRAME, PARENT_FRAME, SUPERVISOR, is_applied_before
from lifebus_contract import IdSource, LifecycleEvent, PayloadReceipt, PlacementClass, Receipt, ReceiptStatus
from lifebus_contract.fields import FactKey, FactValue
from lifebus_contract.ids import RECEIPT

BLOCKED: Final = "blocked"
"""The `frame_end` of a frame whose prompt was refused."""

PROMPT_BLOCKED: Final = Refusal.of(
    "prompt_blocked", "the prompt was refused before the model got it, and what was placed for it with it"
)
"""Why a payload never reached the model: the prompt that it was placed for did not either."""

ANSWER_NOT_TAKEN: Final = Refusal.of(
    "answer_not_taken", "the payload was placed in a hook's answer, and the harness did not get that answer"
)
"""Why a payload never reached the harness."""

_OPENS: Final = frozenset({LifecycleEvent.FRAME_OPENING, LifecycleEvent.FRAME_OPENED})
_PROMISES: Final = frozenset({ReceiptStatus.DELIVERED, ReceiptStatus.DEGRADED})
_PLACED: Final = frozenset(PlacementClass) - {PlacementClass.RECEIPT_ONLY}


class Mistake(Struct, frozen=True, kw_only=True):
    """Why the deliveries of some calls turned out false: the refusal that says it, and what shows it."""

    refusal: Refusal
    evidence: str


class PromptCalls(Struct, frozen=True):
    """The invocations of the hook calls that reported a prompt; `complete` unless an older receipt may belong to it."""

    invocations: frozenset[str]
    complete: bool


def blocked_frame(receipt: Receipt) -> str | None:
    """Return the frame of which a receipt says that its prompt was refused; None of any other receipt."""
    facts = receipt.telemetry_summary
    if receipt.event is not LifecycleEvent.FRAME_ENDED or facts.get("frame_end") != BLOCKED:
        return None
    frame = facts.get(FRAME)
    return frame if isinstance(frame, str) and not is_applied_before(facts) else None


def calls_of_prompt(before: Sequence[Receipt], end: Receipt) -> PromptCalls:
    """Return the calls that opened the frame of an `end`; `before` are its session's receipts up to there, in order.

    What is delivered with the frame's end is no part of them: it is in the answer to another hook.
    """
    opened: list[Receipt] = []
    frame_id = end.telemetry_summary.get(FRAME)
    for receipt in before:
        facts = receipt.telemetry_summary
        if facts.get(FRAME) != frame_id or is_applied_before(facts):
            continue
        if receipt.event is LifecycleEvent.FRAME_ENDED and receipt.event_id != end.event_id:
            opened = []  # a life before this one, under the same id
        elif receipt.event in _OPENS:
            opened.append(receipt)
    invocations = frozenset(receipt.invocation_id for receipt in opened)
    known = {receipt.receipt_id for receipt in before}
    parents = {receipt.parent_receipt_id for receipt in before if receipt.invocation_id in invocations} - {None}
    begins = any(receipt.event is LifecycleEvent.FRAME_OPENING for receipt in opened)
    return PromptCalls(invocations, begins and parents <= known)


def corrections(
    receipts: Sequence[Receipt], invocations: Collection[str], mistake: Mistake, ids: IdSource, at_epoch_s: int
) -> list[NewReceipt]:
    """Return one correction for each of the receipts that promised a delivery in one of the invocations."""
    return [
        _correction(receipt, promised, mistake, ids.make(RECEIPT), at_epoch_s)
        for receipt in receipts
        if receipt.invocation_id in invocations and (promised := _promised(receipt))
    ]


def _promised(receipt: Receipt) -> tuple[PayloadReceipt, ...]:
    """Return the payloads of which a receipt says that they were placed in front of the model."""
    return tuple(one for one in receipt.payload_receipts if one.status in _PROMISES and one.placement in _PLACED)


def _correction(
    receipt: Receipt, promised: tuple[PayloadReceipt, ...], mistake: Mistake, receipt_id: str, at_epoch_s: int
) -> NewReceipt:
    refusal, known = mistake.refusal, receipt.telemetry_summary
    facts: dict[FactKey, FactValue] = {name: known[name] for name in (FRAME, PARENT_FRAME) if name in known}
    facts |= {EMITTER: SUPERVISOR, CORRECTS: receipt.receipt_id, CAUSE: refusal.code, "evidence": mistake.evidence}
    corrected = structs.replace(
        receipt,
        at_epoch_s=at_epoch_s,
        capability_degradations=(),
        failure_class=refusal.failure_class,
        idempotency_key=f"correction:{receipt.receipt_id}"[:256],
        parent_receipt_id=receipt.receipt_id,
        payload_receipts=tuple(structs.replace(one, status=ReceiptStatus.FAILED) for one in promised),
        receipt_id=receipt_id,
        retry_class=refusal.retry_class,
        sequence=None,
        status=ReceiptStatus.FAILED,
        telemetry_summary=facts,
        warnings=(warning_of(refusal),),
    )
    # Of the delivery alone: whatever is found out about it later, its first correction stands.
    return NewReceipt(corrected, hashlib.sha256(f"correction of {receipt.receipt_id}".encode()).digest())
