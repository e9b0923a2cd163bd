"""Which sessions get an injected text, against a model: once each, and again only what did not arrive."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus.cli.tools.inject_rules import InjectOutcome, InjectProgress, outcomes_of
from lifebus_contract import Receipt, encode_json
from lifebus_contract.codec import decode_receipt
from support.receipts import receipt

NEW, OLD = ("claude", "new"), ("claude", "old")
OUTCOMES = ("delivered", "deferred", "refused", "taken_back")


def an_outcome(word: Any, key: tuple[str, str]) -> InjectOutcome:
    return InjectOutcome(
        outcome=word,
        adapter_id=key[0],
        session=key[1],
        name="x",
        event="session.started",
        payload_id="p",
        placement=None,
        byte_size=1,
        why="",
        receipt_id="r",
    )


@given(st.lists(st.sampled_from(OUTCOMES), max_size=12), st.booleans(), st.sampled_from((NEW, OLD)))
def test_a_session_gets_the_text_until_it_has_it(said: list[str], takes_open: bool, key: tuple[str, str]) -> None:
    progress = InjectProgress([OLD], takes_open=takes_open)
    assert progress.wants(key) is (key == NEW or takes_open)
    has_it = False
    for word in said:
        if progress.wants(key):
            progress.hand(key)
            # In the hands of the broker it is not handed once more.
            assert not progress.wants(key)
        progress.apply(an_outcome(word, key))
        # What is put off is asked for again, unless the session has it by another receipt.
        has_it = word in {"delivered", "refused"} or (has_it and word == "deferred")
        assert progress.wants(key) is (not has_it and (key == NEW or takes_open))


def made(status: str, payload: str | None, **fields: Any) -> Receipt:
    """A receipt of the client `inject` as it comes from the wire."""
    one = {"payload_id": "p1", "payload_kind": "context", "byte_size": 3, "placement": "pre_prompt_frame"}
    payloads = () if payload is None else ({**one, "status": payload},)
    plain = {"client_id": "inject", "status": status, "payload_receipts": payloads, **fields}
    return decode_receipt(encode_json(receipt(1, **plain)))


@pytest.mark.parametrize(
    ("given_receipt", "expected"),
    [
        (made("delivered", "delivered"), ["delivered"]),
        (made("degraded", "degraded"), ["delivered"]),
        (made("skipped", "skipped"), ["deferred"]),
        (made("observed", None), []),
        (made("failed", None, failure_class="timeout", retry_class="safe_retry"), ["deferred"]),
        (made("failed", "failed", failure_class="payload_too_large", retry_class="do_not_retry"), ["refused"]),
        (
            made(
                "failed",
                "failed",
                failure_class="payload_rejected",
                retry_class="do_not_retry",
                telemetry_summary={"corrects": "lfr_1"},
            ),
            ["taken_back"],
        ),
        (made("delivered", "delivered", client_id="other"), []),
        (made("delivered", "delivered", harness_session_id=None), []),
    ],
)
def test_a_receipt_says_what_became_of_the_text(given_receipt: Receipt, expected: list[str]) -> None:
    assert [one.outcome for one in outcomes_of(given_receipt, "inject")] == expected


def test_only_warnings_about_the_text_are_a_reason() -> None:
    warnings = [
        {"code": "event_id_synthesized", "message": "the hook supplies no id of its own"},
        {"code": "placement_weaker", "message": "the text lands after the prompt"},
    ]
    (one,) = outcomes_of(made("degraded", "degraded", warnings=warnings), "inject")
    assert one.why == "the text lands after the prompt"
