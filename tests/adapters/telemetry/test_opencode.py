"""OpenCode's database and plugin calls: where it is, the facts in an event, and the traps of compaction."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.opencode.telemetry import OVERRIDES
from lifebus_adapters.shared.rows import HISTORY_ROWS
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    Surroundings,
    TurnContinued,
    TurnEnded,
    TurnStarted,
    Usage,
    WindowKnown,
)
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, ids
from support.adapters.other_telemetry import Store, source
from support.adapters.telemetry_facts import HOME

S = "ses_1"
TOKENS = {"total": 9_012, "input": 4_500, "output": 9, "reasoning": 3, "cache": {"read": 4_500, "write": 0}}


def store(*events: tuple[str, Any], session: str = S, opened: bool = True) -> Store:
    made = Store("opencode")
    if opened:
        made.poll()
    add(made, *events, session=session)
    return made


def add(made: Store, *events: tuple[str, Any], session: str = S) -> None:
    for kind, data in events:
        text = data if isinstance(data, str) else json.dumps(data)
        made.insert("event", aggregate_id=session, type=f"{kind}.1", data=text)


def user(message: str, **more: Any) -> tuple[str, Any]:
    return "message.updated", {"info": {"id": message, "role": "user"} | more}


def answer(message: str, **more: Any) -> tuple[str, Any]:
    known = {"id": message, "role": "assistant", "modelID": "m", "tokens": TOKENS, "finish": "stop"}
    return "message.updated", {"info": known | more}


def part(message: str, kind: str = "text", **more: Any) -> tuple[str, Any]:
    return "message.part.updated", {"part": {"messageID": message, "type": kind, "text": "secret"} | more}


# Where it is


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, f"{HOME}/.local/share/opencode/opencode.db"),
        ({"XDG_DATA_HOME": "/x"}, "/x/opencode/opencode.db"),
        ({"XDG_DATA_HOME": "/x", "LIFELOOP_OPENCODE_DATA_DIR": "/d"}, "/d/opencode.db"),
        ({"LIFELOOP_OPENCODE_DATA_DIR": "/d", "LIFEBUS_OPENCODE_DATA_DIR": "/e"}, "/e/opencode.db"),
        ({"LIFEBUS_OPENCODE_DATA_DIR": "/e", "LIFELOOP_OPENCODE_DB_PATH": "/b.db"}, "/b.db"),
        ({"LIFELOOP_OPENCODE_DB_PATH": "/b.db", "LIFEBUS_OPENCODE_DB_PATH": "/a.db"}, "/a.db"),
    ],
)
def test_the_database_is_where_the_first_variable_says(environ: dict[str, str], root: str) -> None:
    assert list(source("opencode", "database").roots(Surroundings(home=HOME, environ=environ))) == [root]


def test_our_own_variables_are_named_for_whoever_checks_the_environment() -> None:
    assert OVERRIDES == ("LIFEBUS_OPENCODE_DB_PATH", "LIFEBUS_OPENCODE_DATA_DIR")


def test_one_database_holds_all_sessions() -> None:
    database = source("opencode", "database")
    assert database.is_ours("/x/opencode.db")
    assert not database.is_ours("/x/other.db")
    assert database.session_of("/x/opencode.db") is None


# Usage


def test_used_is_the_total_of_a_finished_answer_and_the_window_is_not_in_the_database() -> None:
    expected = Usage(session=S, used_tokens=9_012, used_source="database:message.tokens.total", model="m")
    assert store(answer("a")).poll() == [expected]


def test_where_there_is_no_total_it_is_the_sum_of_the_parts() -> None:
    parts = {"input": 1, "output": 2, "reasoning": 4, "cache": {"read": 8, "write": 16}}
    (usage,) = store(answer("a", tokens=parts)).poll()
    assert isinstance(usage, Usage)
    assert (usage.used_tokens, usage.used_source) == (31, "database:message.tokens.sum")


def test_an_answer_that_still_grows_is_a_sign_of_life() -> None:
    assert store(answer("a", finish=None, tokens={"input": 0, "output": 0})).poll() == [Activity(session=S)]


def test_the_newest_answers_are_reported_when_the_database_is_first_seen() -> None:
    made = store(*(answer(f"m{n}", tokens={"total": n}) for n in range(HISTORY_ROWS + 50)), opened=False)
    used = [fact.used_tokens for fact in made.poll() if isinstance(fact, Usage)]
    assert used == list(range(50, HISTORY_ROWS + 50))
    assert made.poll() == []


def test_a_poll_takes_so_many_rows_and_the_next_ones_the_rest() -> None:
    made = store(*(answer(f"m{n}", tokens={"total": n}) for n in range(1_100)))
    polls = [[fact.used_tokens for fact in made.poll() if isinstance(fact, Usage)] for _ in range(4)]
    assert [len(one) for one in polls] == [500, 500, 100, 0]
    assert [used for one in polls for used in one] == list(range(1_100))


def test_after_deleted_sessions_new_rows_are_seen_although_they_have_old_numbers() -> None:
    made = store(*(answer(f"m{n}") for n in range(9)))
    made.poll()
    made.connection.execute("DELETE FROM event WHERE rowid > 2")
    assert made.poll() == []
    add(made, answer("new", tokens={"total": 77}))
    (usage,) = made.poll()
    assert isinstance(usage, Usage)
    assert usage.used_tokens == 77


# Turns


def test_a_prompt_begins_a_turn_once_its_first_part_shows_that_a_user_wrote_it() -> None:
    assert store(user("u")).poll() == []
    assert store(user("u"), part("u"), part("u", "file")).poll() == [TurnStarted(session=S, frame_id="u")]


def test_a_prompt_that_is_stored_again_begins_no_second_turn() -> None:
    made = store(user("u"), part("u"))
    assert made.poll() == [TurnStarted(session=S, frame_id="u")]
    add(made, user("u", summary={"diffs": []}), part("u"))
    assert made.poll() == []


def test_work_on_an_answer_is_a_sign_of_life() -> None:
    assert store(part("a", "tool"), part("a", "step-finish")).poll() == [Activity(session=S)]


@pytest.mark.parametrize(("name", "end"), [("MessageAbortedError", "interrupted"), ("APIError", "failed")])
def test_an_answer_with_an_error_ends_the_turn(name: str, end: str) -> None:
    (fact,) = store(answer("a", error={"name": name, "data": {"message": "secret"}})).poll()
    assert fact == TurnEnded(session=S, frame_end=end, evidence=f"database:message.error.{name}")


def test_a_finished_answer_ends_the_turn_of_its_prompt() -> None:
    made = store(user("u"), part("u"), answer("a", parentID="u", finish="tool-calls", time={"completed": 5}))
    assert not [fact for fact in made.poll() if isinstance(fact, TurnEnded)]
    add(made, answer("b", parentID="u"))  # not stored as completed yet
    assert not [fact for fact in made.poll() if isinstance(fact, TurnEnded)]
    add(made, answer("b", parentID="u", time={"completed": 6}))
    ended = TurnEnded(session=S, frame_id="u", evidence="database:message.finish.stop")
    assert made.poll()[-1] == ended


def test_a_turn_goes_on_when_its_answer_is_followed_by_a_compaction() -> None:
    done = {"time": {"completed": 6}}
    made = store(user("u"), part("u"), answer("a", parentID="u", **done), user("c"), part("c", "compaction", auto=True))
    assert made.poll()[-1] == TurnContinued(session=S, frame_id="u", unannounced=True)
    add(made, user("x"), part("x", synthetic=True), answer("b", parentID="x", **done))
    assert made.poll()[-1] == TurnEnded(session=S, frame_id="u", evidence="database:message.finish.stop")


def test_an_answer_to_a_prompt_of_long_ago_ends_the_turn_of_that_prompt() -> None:
    aborted = answer("a", parentID="old", error={"name": "MessageAbortedError"})
    evidence = "database:message.error.MessageAbortedError"
    assert store(aborted).poll() == [TurnEnded(session=S, frame_id="old", frame_end="interrupted", evidence=evidence)]


def test_an_overflow_is_answered_with_a_compaction_and_ends_nothing() -> None:
    assert store(answer("a", error={"name": "ContextOverflowError"})).poll() == [Activity(session=S)]


# Compaction


def summary(message: str = "s", **more: Any) -> tuple[str, Any]:
    return answer(message, parentID="c", mode="compaction", summary=True, time={"completed": 1_795_295_239_283}, **more)


def test_a_summary_that_is_complete_proves_a_compaction_and_is_no_usage() -> None:
    made = store(user("c"), part("c", "compaction", auto=True), summary())
    assert made.poll() == [Compacted(session=S, key="message:s", trigger="auto")]


def test_one_that_a_user_asked_for_says_so() -> None:
    made = store(user("c"), part("c", "compaction", auto=False), summary())
    assert made.poll() == [Compacted(session=S, key="message:s", trigger="manual")]


def test_before_the_summary_is_complete_nothing_is_proved() -> None:
    growing = summary(finish=None), answer("s", summary=True, time={"created": 1})
    assert store(*growing).poll() == [Activity(session=S)]


def test_a_summary_that_failed_proves_nothing() -> None:
    assert not [fact for fact in store(summary(error={"name": "APIError"})).poll() if isinstance(fact, Compacted)]


def test_the_synthetic_message_after_a_compaction_begins_no_turn() -> None:
    synthetic = user("x"), part("x", synthetic=True, metadata={"compaction_continue": True})
    assert store(*synthetic).poll() == []


def test_a_users_own_summary_is_not_taken_for_a_compactions() -> None:
    facts = store(user("u", summary={"title": "secret"}, finish="stop", time={"completed": 1})).poll()
    assert facts == []


# What cannot be read


@pytest.mark.parametrize(
    "event",
    [
        ("message.updated", "{"),
        ("message.updated", {}),
        ("message.updated", {"info": {"id": 7, "role": "user"}}),
        answer("a", tokens={"total": -1}),
        answer("a", tokens={"total": "12"}),
        answer("a", tokens=7),
        answer("a\x01"),
        answer("a", error={"name": "x\x01"}),
    ],
)
def test_an_event_of_another_form_is_refused_and_the_next_one_is_read(event: tuple[str, Any]) -> None:
    made = store(event, answer("good"))
    with pytest.raises(InvalidRequest) as refused:
        made.poll()
    assert "secret" not in refused.value.detail
    assert len(made.poll()) == 1


def test_other_events_are_passed_over_whatever_they_hold() -> None:
    assert store(("session.updated", "{"), ("session.created", {"info": 7})).poll() == []


# The plugin's calls


def hook_facts(kind: str, **info: Any) -> tuple[Fact, ...]:
    properties = {"sessionID": S, "info": {"id": "a", "sessionID": S} | info}
    payload = {"hook": "event", "input": {"event": {"id": "e", "type": kind, "properties": properties}}}
    return ADAPTERS["opencode"].read(call("opencode", payload, kind), ids()).facts


def test_a_finished_answer_says_how_full_the_context_is() -> None:
    facts = hook_facts("message.updated", role="assistant", finish="stop", tokens=TOKENS, modelID="m")
    expected = Usage(session=S, used_tokens=9_012, used_source="hook:message.updated.tokens.total", model="m")
    assert facts == (expected,)


@pytest.mark.parametrize(
    "info",
    [
        {"role": "user"},
        {"role": "assistant", "tokens": TOKENS},
        {"role": "assistant", "finish": "stop"},
        {"role": "assistant", "finish": "stop", "tokens": TOKENS, "summary": True},
    ],
)
def test_prompts_growing_answers_and_summaries_have_no_facts(info: dict[str, Any]) -> None:
    assert hook_facts("message.updated", **info) == ()


def test_an_answer_may_bring_its_models_window() -> None:
    limit = {"context": 20_000, "output": 2_000}
    (fact,) = hook_facts("message.updated", role="assistant", finish="stop", tokens=TOKENS, limit=limit)
    assert isinstance(fact, Usage)
    assert (fact.window_tokens, fact.window_source) == (20_000, "hook:model.limit.context")


def params(agent: str, context: Any) -> tuple[Fact, ...]:
    model = {"id": "m", "providerID": "p", "limit": {"context": context}}
    payload = {"hook": "chat.params", "input": {"sessionID": S, "agent": agent, "model": model}}
    return ADAPTERS["opencode"].read(call("opencode", payload), ids()).facts


def test_the_parameters_of_a_request_have_the_window() -> None:
    known = WindowKnown(session=S, window_tokens=20_000, window_source="hook:model.limit.context")
    assert params("build", 20_000) == (known,)


@pytest.mark.parametrize("agent", ["title", "summary", "compaction"])
def test_the_windows_of_helpers_are_not_the_sessions(agent: str) -> None:
    assert params(agent, 8_000) == ()


def test_a_limit_of_zero_is_no_limit() -> None:
    assert params("build", 0) == ()


@pytest.mark.parametrize("tokens", [7, {"total": "x"}, {"input": -1}, {"cache": {"read": 1.5}}])
def test_counts_of_another_form_are_refused(tokens: Any) -> None:
    with pytest.raises(InvalidRequest):
        hook_facts("message.updated", role="assistant", finish="stop", tokens=tokens)
