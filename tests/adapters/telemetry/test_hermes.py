"""Hermes' database and post_api_request: turns by their messages, compactions in place and by splitting, the traps."""

from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    SessionClosed,
    Surroundings,
    TurnEnded,
    TurnStarted,
    Usage,
)
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, ids, parse
from support.adapters.other_telemetry import Store, source
from support.adapters.telemetry_facts import HOME

S, OTHER = "20261121_210914_f27579", "20261121_211833_01d4c9"
DONE = TurnEnded(session=S, evidence="database:messages.finish_reason.stop")


def opened(*messages: tuple[str, str | None], session: str = S) -> Store:
    made = Store("hermes")
    made.poll()
    add(made, *messages, session=session)
    return made


def add(made: Store, *messages: tuple[str, str | None], session: str = S) -> None:
    for role, finish in messages:
        made.insert("messages", session_id=session, role=role, finish_reason=finish)


def compact(made: Store, *left: tuple[str, str | None]) -> None:
    """Do what Hermes does: all live messages leave the context, what is left of them is stored anew."""
    made.connection.execute("BEGIN")
    made.connection.execute("UPDATE messages SET active = 0, compacted = 1 WHERE session_id = ? AND active = 1", (S,))
    add(made, *left)
    made.connection.execute("COMMIT")


TURN: tuple[tuple[str, str | None], ...] = (
    ("user", None), ("assistant", "tool_calls"), ("tool", None), ("assistant", "stop"),
)  # fmt: skip


@pytest.mark.parametrize(
    ("environ", "root"), [({}, f"{HOME}/.hermes/state.db"), ({"HERMES_HOME": "/h"}, "/h/state.db")]
)
def test_the_database_is_in_hermes_home(environ: dict[str, str], root: str) -> None:
    assert list(source("hermes", "database").roots(Surroundings(home=HOME, environ=environ))) == [root]


def test_a_turn_is_the_messages_from_a_prompt_to_an_answer_that_calls_no_tool() -> None:
    assert opened(*TURN).poll() == [TurnStarted(session=S), Activity(session=S), DONE]


def test_a_turn_that_another_has_followed_is_not_said_to_end_now() -> None:
    facts = opened(*TURN, ("user", None)).poll()
    assert facts == [TurnStarted(session=S), Activity(session=S), TurnStarted(session=S)]


def test_cumulative_tokens_of_a_session_are_never_usage() -> None:
    made = Store("hermes")
    made.connection.execute("ALTER TABLE sessions ADD COLUMN input_tokens INTEGER")
    made.insert("sessions", id=S, input_tokens=619_696)
    add(made, *TURN)
    assert not [fact for fact in made.poll() if isinstance(fact, Usage)]


def test_a_compaction_in_place_is_proved_once_and_its_rows_are_no_turns() -> None:
    made = opened(*TURN)
    made.poll()
    compact(made, ("user", None), ("assistant", "stop"))
    assert made.poll() == [Compacted(session=S, key="message:4"), Activity(session=S)]
    add(made, *TURN)
    assert made.poll() == [TurnStarted(session=S), Activity(session=S), DONE]


def test_each_compaction_has_a_key_of_its_own() -> None:
    made, keys = opened(*TURN), list[str]()
    made.poll()
    for _ in range(3):
        compact(made, ("user", None))
        keys += [fact.key for fact in made.poll() if isinstance(fact, Compacted)]
        add(made, *TURN)
        made.poll()
    assert keys == ["message:4", "message:9", "message:14"]


def test_messages_that_the_user_took_back_prove_nothing() -> None:
    made = opened(*TURN)
    made.poll()
    made.connection.execute("UPDATE messages SET active = 0 WHERE id > 2")
    add(made, *TURN)
    assert not [fact for fact in made.poll() if isinstance(fact, Compacted)]


def test_a_split_proves_a_compaction_and_ends_no_turn() -> None:
    made = opened(*TURN[:3])
    made.insert("sessions", id=S, ended_at=1795295355.5, end_reason="compression")
    assert made.poll()[-1] == Compacted(session=S, key="split")
    assert made.poll() == []


def test_when_a_session_has_ended_no_turn_goes_on() -> None:
    made = opened(*TURN[:3])
    made.insert("sessions", id=S, ended_at=1795295355.5, end_reason="agent_close")
    evidence = "database:sessions.end_reason.agent_close"
    assert made.poll()[-2:] == [
        TurnEnded(session=S, frame_end="interrupted", evidence=evidence),
        SessionClosed(session=S, evidence=evidence),
    ]
    assert made.poll() == []


def test_a_session_that_is_resumed_and_ends_again_is_reported_again() -> None:
    made = opened(*TURN)
    made.insert("sessions", id=S, ended_at=100.5, end_reason="agent_close")
    made.poll()
    made.connection.execute("UPDATE sessions SET ended_at = NULL, end_reason = NULL")
    add(made, *TURN[:1])
    assert made.poll() == [TurnStarted(session=S)]
    made.connection.execute("UPDATE sessions SET ended_at = 200.5, end_reason = 'cli_close'")
    assert [fact.evidence for fact in made.poll() if isinstance(fact, TurnEnded)] == [
        "database:sessions.end_reason.cli_close"
    ]


def test_sessions_are_kept_apart() -> None:
    made = opened(*TURN)
    add(made, *TURN[:1], session=OTHER)
    made.poll()
    compact(made, ("user", None))
    add(made, ("assistant", "stop"), session=OTHER)
    assert {(type(fact), fact.session) for fact in made.poll()} == {(Compacted, S), (TurnEnded, OTHER)}


@pytest.mark.parametrize(("session", "role", "finish"), [("", "user", None), (S, None, None), ("x\x00", "user", None)])
def test_a_message_of_another_form_is_refused_and_the_next_one_is_read(session: Any, role: Any, finish: Any) -> None:
    made = opened()
    made.insert("messages", session_id=session, role=role, finish_reason=finish)
    add(made, ("user", None))
    with pytest.raises(InvalidRequest):
        made.poll()
    assert made.poll() == [TurnStarted(session=S)]


# Hooks


def hook(name: str, **extra: Any) -> tuple[Fact, ...]:
    payload = {"hook_event_name": name, "session_id": S, "cwd": "/home/dev", "extra": extra}
    return ADAPTERS["hermes"].read(call("hermes", payload), ids()).facts


def test_a_request_that_is_over_says_how_full_the_context_was() -> None:
    usage = {"prompt_tokens": 76_000, "input_tokens": 38_000, "cache_read_tokens": 38_000, "total_tokens": 76_012}
    source = "hook:post_api_request.usage.prompt_tokens"
    expected = Usage(session=S, used_tokens=76_000, used_source=source, model="m")
    assert hook("post_api_request", usage=usage, model="m") == (expected,)


@pytest.mark.parametrize("usage", [None, {}, {"prompt_tokens": None}])
def test_a_request_without_counts_has_no_facts(usage: Any) -> None:
    assert hook("post_api_request", usage=usage) == ()


def test_only_requests_that_are_over_have_counts() -> None:
    assert hook("pre_api_request", usage={"prompt_tokens": 5}, approx_input_tokens=1_725) == ()


@pytest.mark.parametrize("tokens", ["76000", -1, 1.5, True])
def test_counts_of_another_form_are_refused(tokens: Any) -> None:
    with pytest.raises(InvalidRequest):
        hook("post_api_request", usage={"prompt_tokens": tokens})


def test_on_session_end_comes_with_every_turn_and_ends_no_session() -> None:
    payload = {"hook_event_name": "on_session_end", "session_id": S, "extra": {"turn_id": "t", "completed": True}}
    assert [emission.request.event.value for emission in parse("hermes", payload)] == ["frame.ended"]
