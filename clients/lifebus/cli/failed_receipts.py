"""What a receipt that says `failed` means to the user who caused it, and what to do; the class is for programs."""

from typing import Final

from lifebus_contract import Receipt
from lifebus_contract.failure import FailureClass

_ADVICE: Final = {
    FailureClass.ADAPTER_UNAVAILABLE: (
        "there is no such adapter",
        "`lifebus contract manifest list` shows the adapters",
    ),
    FailureClass.CAPABILITY_UNSUPPORTED: (
        "the harness cannot do what was required",
        "`lifebus contract manifest show {adapter}` shows what it can do; --prefer asks without insisting",
    ),
    FailureClass.CAPABILITY_DEGRADED: (
        "the harness has lost what was required",
        "`lifebus status` shows what is lost; it may come back",
    ),
    FailureClass.PLACEMENT_UNAVAILABLE: (
        "the harness has no such place for the payload",
        "`lifebus contract negotiate {adapter}` shows where payloads land",
    ),
    FailureClass.PAYLOAD_TOO_LARGE: (
        "the payload is larger than the harness takes",
        "make it smaller; `lifebus contract negotiate {adapter}` shows the limits",
    ),
    FailureClass.PAYLOAD_REJECTED: (
        "the harness does not take the payload",
        "`lifebus contract validate payload FILE` checks it",
    ),
    FailureClass.IDENTITY_UNAVAILABLE: (
        "it does not say which session it is about",
        "name the session: --session",
    ),
    FailureClass.TRANSPORT_ERROR: (
        "its command or connection failed",
        "`lifebus receipts show {receipt}` has its exit code and the end of its errors",
    ),
    FailureClass.TIMEOUT: (
        "it did not answer in time",
        "`lifebus clients` shows whether it is there; --deadline of `lifebus serve` gives it longer",
    ),
    FailureClass.OPERATOR_REQUIRED: (
        "a person has to put something right first",
        "`lifebus doctor` says what",
    ),
    FailureClass.STATE_CONFLICT: (
        "it does not fit to what was recorded before",
        "`lifebus sessions` shows how things are now",
    ),
    FailureClass.INVALID_REQUEST: (
        "its answer is against the contract",
        "`lifebus contract validate response FILE` checks an answer",
    ),
    FailureClass.INTERNAL_ERROR: (
        "a defect of lifebus",
        "please report it, with the broker's log",
    ),
}


def failure_lines(receipt: Receipt) -> list[str]:
    """Return what a failed receipt means and what to do about it; nothing for one that did not fail."""
    failure = receipt.failure_class
    if failure is None:
        return []
    meaning, advice = _ADVICE[failure]
    # Below another receipt stands what became of it at one client.
    who = f"client {receipt.client_id}" if receipt.parent_receipt_id is not None else receipt.event.value
    names = {"adapter": receipt.adapter_id, "receipt": receipt.receipt_id}
    return [f"{who} failed, which is recorded: {meaning}", advice.format(**names)]
