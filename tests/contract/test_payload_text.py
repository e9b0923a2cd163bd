"""The text that carries payloads into a single context slot."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract import PayloadEnvelope, validate
from lifebus_contract.payload_text import render_payloads, text_size
from support.golden import golden


def payload(payload_id: str, **changes: Any) -> PayloadEnvelope:
    return validate(golden("payload", payload_id=payload_id, payload_kind="note", **changes), PayloadEnvelope)


def test_payloads_are_rendered_in_input_order_with_body_or_reference() -> None:
    text = render_payloads([payload("b", body="x"), payload("a", body=None, body_ref="store:1")])
    assert text == (
        '{"payloads":[{"payload_id":"b","payload_kind":"note","body":"x"},'
        '{"payload_id":"a","payload_kind":"note","body_ref":"store:1"}]}'
    )


def test_no_payloads_are_an_empty_list() -> None:
    assert render_payloads([]) == '{"payloads":[]}'


def test_a_body_that_looks_like_json_stays_a_string() -> None:
    text = render_payloads([payload("a", body='{"payloads": [1], "k": 1}'), payload("b", body='{"k": 2}')])
    assert [entry["body"] for entry in json.loads(text)["payloads"]] == ['{"payloads": [1], "k": 1}', '{"k": 2}']


def test_text_beyond_ascii_is_kept_as_it_is() -> None:
    assert "grüße 🚀" in render_payloads([payload("a", body="grüße 🚀")])


def test_an_empty_body_is_a_body() -> None:
    assert json.loads(render_payloads([payload("a", body="")]))["payloads"][0]["body"] == ""


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=4))
def test_every_body_comes_back_verbatim_and_the_size_is_in_bytes(bodies: list[str]) -> None:
    payloads = [payload(f"p{index}", body=body) for index, body in enumerate(bodies)]
    text = render_payloads(payloads)
    assert [entry["body"] for entry in json.loads(text)["payloads"]] == bodies
    assert text_size(payloads) == len(text.encode())
