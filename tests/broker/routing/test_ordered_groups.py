"""Which emissions of a message wait for each other."""

from lifebus_broker.routing.bus import ordered_groups
from support.bus_box import emission


def test_strangers_do_not_wait_for_each_other() -> None:
    facts = [emission(harness_session_id=name) for name in ("s1", "s2", "s3")]
    assert ordered_groups(facts) == [[0], [1], [2]]


def test_facts_of_one_session_keep_their_order() -> None:
    facts = [emission(harness_session_id=name) for name in ("s1", "s2", "s1", "s2")]
    assert ordered_groups(facts) == [[0, 2], [1, 3]]


def test_sessions_of_different_adapters_are_strangers() -> None:
    assert ordered_groups([emission(), emission(adapter_id="claude")]) == [[0], [1]]


def test_events_of_one_invocation_stay_together_even_without_a_session() -> None:
    facts = [emission(harness_session_id=None, invocation_id=name) for name in ("i1", "i2", "i1")]
    assert ordered_groups(facts) == [[0, 2], [1]]


def test_every_emission_is_in_exactly_one_strand() -> None:
    facts = [
        emission(harness_session_id=session, invocation_id=invocation)
        for session in ("s1", "s2", None)
        for invocation in ("i1", "i2")
    ]
    assert sorted(index for group in ordered_groups(facts) for index in group) == list(range(len(facts)))
