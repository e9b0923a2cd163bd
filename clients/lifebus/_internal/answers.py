"""What a broker answered, read: an answer that cannot be read is no mistake of the caller."""

from typing import TypeVar

from lifebus_contract import InternalError, InvalidRequest, Receipt, decode_msgpack
from lifebus_contract.codec import decode_receipt

T = TypeVar("T")


def decode_answer(body: bytes, kind: type[T]) -> T:
    """Return the message that a broker sent.

    Raises:
        InternalError: it is none (`unreadable_answer`).
    """
    try:
        return decode_msgpack(body, kind)
    except InvalidRequest as fault:
        raise unreadable(fault) from None


def decode_recorded(body: bytes) -> Receipt:
    """Return the receipt that a broker sent.

    Raises:
        InternalError: it is none (`unreadable_answer`).
    """
    try:
        return decode_receipt(body)
    except InvalidRequest as fault:
        raise unreadable(fault) from None


def unreadable(why: InvalidRequest | str) -> InternalError:
    """Return the error of an answer that cannot be read."""
    detail = why.detail if isinstance(why, InvalidRequest) else why
    return InternalError(
        f"the broker's answer cannot be read: {detail}; whether something was recorded is unknown",
        code="unreadable_answer",
    )
