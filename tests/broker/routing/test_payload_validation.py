"""Payloads are measured and hashed before anything is dispatched; what they say is never looked at.

See docs/contract.md 5.2.
"""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from lifebus_broker.ports import Refusal
from lifebus_broker.routing.payload_validation import MAX_BODY_BYTES, check_payload, check_payloads
from lifebus_contract import FailureClass, PayloadEnvelope, RetryClass, validate
from support.golden import golden

NOW = 1_778_100_000


def payload(body: str = "grüße", **changes: Any) -> PayloadEnvelope:
    data = body.encode()
    plain = golden("payload", body=body, byte_size=len(data), content_digest=digest(data), expires_at_epoch_s=None)
    return validate(plain | changes, PayloadEnvelope)


def reference(**changes: Any) -> PayloadEnvelope:
    return validate(golden("payload", "minimal", **changes), PayloadEnvelope)


def digest(data: bytes) -> str:
    return "sha256:" + hashlib.sha256(data).hexdigest()


def refused(found: Refusal | None, code: str, failure: FailureClass = FailureClass.INVALID_REQUEST) -> str:
    assert found is not None
    assert (found.code, found.failure_class, found.retry_class) == (code, failure, RetryClass.DO_NOT_RETRY)
    return found.detail


def test_a_payload_that_is_what_it_says_passes() -> None:
    assert check_payload(payload(), NOW) is None
    assert check_payload(payload(""), NOW) is None
    assert check_payload(payload(content_digest=None), NOW) is None


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_every_true_payload_passes_and_every_false_size_or_digest_fails(body: str) -> None:
    assert check_payload(payload(body), NOW) is None
    size = len(body.encode())
    refused(check_payload(payload(body, byte_size=size + 1), NOW), "byte_size_mismatch")
    refused(check_payload(payload(body, content_digest=digest(b"other" + body.encode())), NOW), "digest_mismatch")


def test_size_is_counted_in_utf8_bytes() -> None:
    detail = refused(check_payload(payload("grüße", byte_size=5), NOW), "byte_size_mismatch")
    assert "byte_size: says 5, the body has 7" in detail


@pytest.mark.parametrize("encoding", ["utf-16", "base64", "UTF8", "external"])
def test_a_body_in_another_encoding_is_refused(encoding: str) -> None:
    refused(check_payload(payload(content_encoding=encoding), NOW), "unknown_encoding")


def test_a_body_with_a_lone_surrogate_is_refused() -> None:
    broken = structs.replace(payload(), body="a\ud800")
    refused(check_payload(broken, NOW), "lone_surrogate")


def test_the_largest_body_passes_and_one_byte_more_is_too_large() -> None:
    assert check_payload(payload("x" * MAX_BODY_BYTES), NOW) is None
    detail = refused(
        check_payload(payload("x" * (MAX_BODY_BYTES + 1)), NOW), "body_too_large", FailureClass.PAYLOAD_TOO_LARGE
    )
    assert f"the limit is {MAX_BODY_BYTES}" in detail


@pytest.mark.parametrize("expired", [payload, reference])
def test_a_payload_expires_in_the_second_it_names(expired: Any) -> None:
    assert check_payload(expired(expires_at_epoch_s=NOW + 1), NOW) is None
    refused(check_payload(expired(expires_at_epoch_s=NOW), NOW), "payload_expired")
    refused(check_payload(expired(expires_at_epoch_s=0), NOW), "payload_expired")


def test_a_reference_is_taken_at_its_word() -> None:
    assert check_payload(reference(byte_size=10**9, content_digest=digest(b"elsewhere")), NOW) is None


def test_the_body_is_never_repeated_in_a_refusal() -> None:
    secret = "token-" * 50
    for broken in (payload(secret, byte_size=1), payload(secret, content_digest=digest(b"")), payload(secret)):
        found = check_payload(structs.replace(broken, content_encoding="other"), NOW) or check_payload(broken, NOW)
        assert found is not None
        assert "token-" not in found.detail
        assert "pay_01" in found.detail


def test_the_first_faulty_payload_of_several_is_named() -> None:
    good, bad = payload(payload_id="good"), payload(payload_id="bad", byte_size=1)
    assert check_payloads([], NOW) is None
    assert check_payloads([good], NOW) is None
    assert "payload `bad`" in refused(check_payloads([good, bad], NOW), "byte_size_mismatch")


def test_a_payload_of_another_client_is_refused_whoever_is_named() -> None:
    mine, foreign = payload(payload_id="mine"), payload(payload_id="foreign", client_id="x" * 256)
    assert check_payloads([mine, foreign], NOW) is None
    assert check_payloads([mine], NOW, mine.client_id) is None
    detail = refused(check_payloads([mine, foreign], NOW, mine.client_id), "foreign_payload")
    assert "payload `foreign`: client_id" in detail


def test_a_payload_id_that_comes_twice_is_refused() -> None:
    refused(check_payloads([payload(), payload("other")], NOW), "duplicate_payload")
