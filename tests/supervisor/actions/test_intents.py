"""A worker's answer as a batch of action intents."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract.actions.intents import IntentResult
from lifebus_contract.extensions import ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.rules.intents import (
    UnreadableIntents,
    counts_of,
    failure_of,
    read_intents,
    with_key,
)


def intent(**more: Any) -> dict[str, Any]:
    payload = {"sessionId": "s1", "turnId": "t1", "input": "a ```fence``` {inside}"}
    return {"kind": "action_request", "actionType": "turn.steer.create", "payload": payload, **more}


def batch(*intents: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "action_intents", "intents": list(intents)}


ONE = batch(intent())


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps(ONE),
        f"\n  {json.dumps(ONE, indent=2)}\n",
        f"I would do this:\n```json\n{json.dumps(ONE)}\n```\nand nothing more.",
        f"```\nnot this {{\n```\n```JSON\n{json.dumps(ONE, indent=1)}\n```",
        f"Here: {json.dumps(ONE)} That is all.",
    ],
    ids=["whole", "indented", "fence", "second fence", "braces"],
)
def test_a_batch_is_found_wherever_it_stands(answer: str) -> None:
    found = read_intents(answer)
    assert [one.payload for one in found.intents] == [ONE["intents"][0]["payload"]]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "no JSON"),
        ("I have done it.", "no JSON"),
        ("{ broken", "no JSON"),
        ("[]", "no batch"),
        (json.dumps(batch()), "length"),
        (json.dumps(batch(*[intent()] * 33)), "length"),
        (json.dumps({"intents": [intent()]}), "kind"),
        (json.dumps({"kind": "action_result", "intents": [intent()]}), "kind"),
        (json.dumps(batch({"actionType": "x", "payload": {}})), "kind"),
        (json.dumps(batch({"kind": "action_request", "actionType": "x"})), "payload"),
        (json.dumps(batch(intent(actionType="  "))), "actionType"),
        (json.dumps(batch(intent(payload=[]))), "payload"),
        (json.dumps(batch(intent(requestId="r" * 201))), "requestId"),
        (json.dumps(batch(intent(idempotencyKey=" "))), "idempotencyKey"),
        (json.dumps(batch(intent(kind="action_result"))), "kind"),
    ],
)
def test_what_is_no_batch_is_refused_as_a_whole(answer: str, why: str) -> None:
    with pytest.raises(UnreadableIntents, match=why):
        read_intents(answer)


def test_the_first_json_counts_and_nothing_behind_it() -> None:
    with pytest.raises(UnreadableIntents, match="no batch"):
        read_intents(f'```json\n{{"kind": "notes"}}\n```\n```json\n{json.dumps(ONE)}\n```')


def test_thirty_two_intents_are_one_batch() -> None:
    assert len(read_intents(json.dumps(batch(*[intent()] * 32))).intents) == 32


@given(st.text() | st.text(alphabet='{}[]`\n"a:,'))
def test_any_text_that_is_no_batch_is_refused(text: str) -> None:
    with pytest.raises(UnreadableIntents):
        read_intents(text)


@given(st.permutations(["sessionId", "turnId", "input"]))
def test_a_key_does_not_depend_on_the_order_in_which_a_worker_writes(names: list[str]) -> None:
    scope = ActionScope(project_id="p", source_session_id="s1", turn_id="t1")
    given_payload = intent()["payload"]
    plain = ActionRequest(action_type="turn.steer.create", payload=given_payload)
    other = ActionRequest(action_type="turn.steer.create", payload={name: given_payload[name] for name in names})
    assert with_key(plain, scope, "review") == with_key(plain, scope, "review")
    assert with_key(plain, scope, "review").idempotency_key == with_key(other, scope, "review").idempotency_key
    assert with_key(plain, scope, "review").idempotency_key != with_key(plain, scope, "other").idempotency_key


def test_an_own_key_stays() -> None:
    request = ActionRequest(action_type="x", payload={}, idempotency_key="mine")
    assert with_key(request, ActionScope(), "review") is request


@pytest.mark.parametrize("status", ActionStatus)
def test_only_what_was_wrong_fails_a_job(status: ActionStatus) -> None:
    results = [
        IntentResult(action_type="queue.enqueue", status=ActionStatus.PERFORMED),
        IntentResult(action_type="approval.decide", status=status),
    ]
    failure = failure_of(results)
    if status in ("failed", "invalid", "forbidden"):
        assert failure is not None
        assert f"queue.enqueue:performed, approval.decide:{status.value}" in failure
    else:
        assert failure is None


def test_results_are_counted_by_status() -> None:
    done, late = (IntentResult(action_type="x", status=one) for one in (ActionStatus.PERFORMED, ActionStatus.CONFLICT))
    assert counts_of([done, late, done]) == {"conflict": 1, "performed": 2}
