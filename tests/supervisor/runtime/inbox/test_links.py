"""Signed answer links: the form is fixed, and what was changed is refused."""

import base64
import hashlib
import hmac
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import InternalError, InvalidRequest
from lifebus_contract.questions import AnswerAction
from lifebus_supervisor.runtime.inbox.composing import read_key
from lifebus_supervisor.runtime.inbox.links import AnswerLink, link_token, read_link

KEY = bytes(range(32))
LINK = AnswerLink(question_id="q_1", action=AnswerAction.RETRY, responder="alice", expires_at_s=1_790_000_000)


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def made_by_hand(payload: bytes, key: bytes = KEY) -> str:
    """Make a token as docs/inbox.md says, without the product."""
    head = f"v1.{encoded(payload)}"
    return (
        f"{head}.{encoded(hmac.new(key, b'lifebus-answer-link' + bytes(1) + head.encode(), hashlib.sha256).digest())}"
    )


def test_a_token_is_made_as_documented_and_read_back() -> None:
    token = link_token(LINK, KEY)
    payload = {"action": "retry", "expires_at_s": 1_790_000_000, "question_id": "q_1", "responder": "alice"}
    assert token == made_by_hand(json.dumps(payload, separators=(",", ":")).encode())
    assert read_link(token, KEY, now_s=1_789_999_999.9) == LINK
    assert read_link(made_by_hand(b'{"question_id":"q"}'), KEY, now_s=0) == AnswerLink(question_id="q")


def refused(token: str, now_s: float = 0) -> str:
    with pytest.raises(InvalidRequest) as caught:
        read_link(token, KEY, now_s=now_s)
    assert caught.value.code == "link_refused"
    return caught.value.detail


def test_an_expired_token_is_refused() -> None:
    assert "expired" in refused(link_token(LINK, KEY), 1_790_000_000)


@given(st.integers(0, 10_000), st.characters())
def test_a_token_with_any_character_changed_is_refused(position: int, character: str) -> None:
    token = link_token(LINK, KEY)
    position %= len(token)
    changed = token[:position] + character + token[position + 1 :]
    if changed != token:
        refused(changed)


@given(st.text())
def test_any_text_is_refused_and_nothing_else_happens(text: str) -> None:
    refused(text)


def test_a_token_of_another_key_or_purpose_is_refused() -> None:
    assert "signature" in refused(link_token(LINK, bytes(32)))
    head = f"v1.{encoded(b'{}')}"
    assert "signature" in refused(f"{head}.{encoded(hmac.new(KEY, head.encode(), hashlib.sha256).digest())}")


@pytest.mark.parametrize("payload", [b"{}", b'{"question_id":1}', b'{"question_id":"q","more":1}', b"\xff"])
def test_a_genuine_token_that_says_something_else_is_refused(payload: bytes) -> None:
    assert "cannot be read" in refused(made_by_hand(payload))


def test_a_short_key_is_no_key() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        link_token(LINK, b"short")


def test_the_key_is_made_once_and_is_for_its_owner_only(tmp_path: Path) -> None:
    path = tmp_path / "inbox.key"
    key = read_key(path)
    assert (len(key), path.stat().st_mode & 0o777) == (32, 0o600)
    assert read_key(path) == key


def test_a_file_that_holds_no_key_is_refused_and_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "inbox.key"
    path.write_bytes(b"short")
    with pytest.raises(InternalError, match="no key of 32 bytes"):
        read_key(path)
    assert path.read_bytes() == b"short"
