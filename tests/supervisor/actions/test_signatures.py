"""When two requests for an action are the same one."""

import random
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifebus_contract.extensions import ActionScope
from lifebus_supervisor.actions.rules.signatures import (
    canonical_json,
    fallback_key,
    signature_digest,
    signature_of,
)

# As the one system that has such signatures was seen to write it down.
OBSERVED = (
    'transcript.upsert:p1:s1:t1:{"entry":{"content":"hello","messageId":"m1","role":"system","status":"complete",'
    '"turnId":"t1","type":"note"},"sessionId":"s1"}'
)
OBSERVED_DIGEST = "0550c9a20ac1ca39d3d7ab55d78da58ab69aeb72bcd9cc55e2719bdb31bdff7b"

SCOPE = ActionScope(project_id="p1", source_session_id="s1", turn_id="t1")
ENTRY = {
    "type": "note",
    "turnId": "t1",
    "status": "complete",
    "role": "system",
    "messageId": "m1",
    "content": "hello",
}

leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(leaves, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=20)
objects = st.dictionaries(st.text(), values, max_size=5)
ids = st.none() | st.text(alphabet="a:\\é", min_size=1, max_size=4)


def test_a_signature_is_the_one_that_was_observed() -> None:
    assert sha256(OBSERVED.encode()).hexdigest() == OBSERVED_DIGEST
    signature = signature_of("transcript.upsert", SCOPE, canonical_json({"sessionId": "s1", "entry": ENTRY}))
    assert signature == OBSERVED
    assert signature_digest(signature) == OBSERVED_DIGEST


@given(objects, st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(value: dict[str, Any], chance: random.Random) -> None:
    assert canonical_json(shuffled(value, chance)) == canonical_json(value)


@given(st.tuples(ids, ids, ids, objects), st.tuples(ids, ids, ids, objects))
def test_other_scopes_and_payloads_have_other_signatures(first: tuple[Any, ...], second: tuple[Any, ...]) -> None:
    signatures = [
        signature_of("queue.enqueue", ActionScope(project_id=a, source_session_id=b, turn_id=c), canonical_json(d))
        for a, b, c, d in (first, second)
    ]
    assert (signatures[0] == signatures[1]) == (same_json([*first], [*second]))


def same_json(one: Any, other: Any) -> bool:
    """Return whether two values are the same JSON: numbers by value, truth values apart from numbers."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict):
        return (
            isinstance(other, dict)
            and one.keys() == other.keys()
            and all(same_json(one[key], other[key]) for key in one)
        )
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(map(same_json, one, other))
    return bool(one == other)


def shuffled(value: Any, chance: random.Random) -> Any:
    if isinstance(value, dict):
        items = [(key, shuffled(one, chance)) for key, one in value.items()]
        chance.shuffle(items)
        return dict(items)
    return [shuffled(one, chance) for one in value] if isinstance(value, list) else value


def test_text_stays_as_it_is_and_whole_numbers_are_whole() -> None:
    assert (
        canonical_json({"b": 1.0, "a": "é\n", "c": [2.5, -0.0, True, None]})
        == '{"a":"é\\n","b":1,"c":[2.5,0,true,null]}'
    )


@pytest.mark.parametrize("value", [float("nan"), float("inf"), {1: 2}, b"x", "\ud800", {"a": object()}])
def test_what_is_no_json_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match=r"JSON|number|key|surrogates"):
        canonical_json(value)


def test_endless_nesting_is_refused() -> None:
    value: list[Any] = []
    for _ in range(5_000):
        value = [value]
    with pytest.raises(ValueError, match="nested"):
        canonical_json(value)


def test_an_intent_without_a_key_has_one_that_follows_from_it() -> None:
    key = fallback_key(SCOPE, "file_change_supervisor_review", OBSERVED_DIGEST)
    assert key == f"agent-intent:p1:s1:t1:file_change_supervisor_review:{OBSERVED_DIGEST}"


def test_a_key_of_long_ids_still_fits_and_tells_them_apart() -> None:
    scopes = [ActionScope(project_id="p" * 200, source_session_id="s" * 200, turn_id=one) for one in "ab"]
    keys = {fallback_key(scope, "review", OBSERVED_DIGEST) for scope in scopes}
    assert len(keys) == 2
    assert all(len(key) <= 300 for key in keys)
