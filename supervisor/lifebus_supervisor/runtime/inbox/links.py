"""Signed links by which a question can be answered without an account.  Pure.

No server of lifebus takes them: what they look like is settled here for whoever serves them (docs/inbox.md, "Answer
links").  A token is ``v1.PAYLOAD.SIGNATURE``, both parts in URL-safe Base64 without padding; the signature is the
HMAC-SHA256, under the key of the state directory, of ``lifebus-answer-link`` and a zero byte before what stands in
front of the second dot.
"""

import base64
import binascii
import hashlib
import hmac
from typing import Final

import msgspec
from msgspec import Struct

from lifebus_contract import InvalidRequest
from lifebus_contract.fields import Identifier
from lifebus_contract.questions import AnswerAction

KEY_BYTES: Final = 32
"""How long the key is."""

MAX_TOKEN_CHARACTERS: Final = 4_096
"""Longest token that is looked at."""

_VERSION: Final = "v1"
_PURPOSE: Final = b"lifebus-answer-link\0"


class AnswerLink(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a token allows: to answer one question, by one action or any, as somebody named, until a second.

    It can be used once, because a question is answered once.
    """

    question_id: Identifier
    action: AnswerAction | None = None
    responder: Identifier | None = None
    expires_at_s: int | None = None


def link_token(link: AnswerLink, key: bytes) -> str:
    """Return the token of a link.

    Raises:
        ValueError: the key is too short.
    """
    head = f"{_VERSION}.{_text(msgspec.json.encode(link, order='sorted'))}"
    return f"{head}.{_text(_signature(head, key))}"


def read_link(token: str, key: bytes, *, now_s: float) -> AnswerLink:
    """Return what a token allows.

    Raises:
        InvalidRequest: `link_refused`: it is none of ours, was changed, or has expired.
        ValueError: the key is too short.
    """
    head, dot, signature = token.rpartition(".")
    version, _, payload = head.partition(".")
    # The signature first: nothing of a token that is not ours is decoded.
    if len(token) > MAX_TOKEN_CHARACTERS or not dot or version != _VERSION:
        raise _refused("it is none of ours")
    if not hmac.compare_digest(_text(_signature(head, key)).encode(), signature.encode(errors="replace")):
        raise _refused("its signature is wrong")
    try:
        link = msgspec.json.decode(_bytes(payload), type=AnswerLink)
    except (msgspec.MsgspecError, ValueError) as fault:
        raise _refused(f"it cannot be read: {fault}") from None
    if link.expires_at_s is not None and now_s >= link.expires_at_s:
        raise _refused("it has expired")
    return link


def _signature(head: str, key: bytes) -> bytes:
    if len(key) < KEY_BYTES:
        raise ValueError(f"a key has at least {KEY_BYTES} bytes")
    return hmac.digest(key, _PURPOSE + head.encode(errors="replace"), hashlib.sha256)


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    try:
        return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except binascii.Error as fault:
        raise ValueError(str(fault)) from None


def _refused(why: str) -> InvalidRequest:
    return InvalidRequest(f"the link is refused: {why}", code="link_refused")
