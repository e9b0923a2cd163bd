"""Codex rollouts: where they are, the facts in each kind of line, and the traps; and the counts in its hooks."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.codex.telemetry import OVERRIDES
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    Surroundings,
    TurnContinued,
    TurnEnded,
    TurnStarted,
    Usage,
    Whereabouts,
)
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, events, ids
from support.adapters.telemetry_facts import HOME, facts_of, reader_of, records_of, source_of
from support.paths import CAPTURES

SESSION = "01900000-0000-7000-8000-000000000001"
OTHER = "01900000-0000-7000-8000-000000000002"
PATH = f"{HOME}/.codex/sessions/2026/11/21/rollout-2026-11-21T20-54-34-{SESSION}.jsonl"
TURN = {"turn_attribution": {"turn_trigger": "exec"}}


def line(kind: str, payload: Any, ordinal: int | None = 1) -> bytes:
    record = {"timestamp": "2026-11-21T20:54:34.000Z", "ordinal": ordinal, "type": kind, "payload": payload}
    return json.dumps(record).encode()


def event(kind: str, **payload: Any) -> bytes:
    return line("event_msg", {"type": kind, **payload})


def tokens(total: Any, window: Any = 19_000, *, parts: int = 5, cumulative: int = 99_999) -> bytes:
    last = {"input_tokens": parts, "cached_input_tokens": 0, "output_tokens": parts, "total_tokens": total}
    info = {"total_token_usage": {"total_tokens": cumulative}, "last_token_usage": last, "model_context_window": window}
    return event("token_count", info=info, rate_limits=None)


def meta(**changes: Any) -> bytes:
    payload = {"id": SESSION, "session_id": SESSION, "source": "cli", "thread_source": "user", "cwd": "/home/dev"}
    return line("session_meta", payload | changes, 0)


def read(*records: bytes, **environ: str) -> list[Fact]:
    return facts_of("codex", PATH, list(records), **environ)


def used(*records: bytes, **environ: str) -> list[tuple[int, int | None, str, str | None]]:
    found = [fact for fact in read(*records, **environ) if isinstance(fact, Usage)]
    return [(fact.used_tokens, fact.window_tokens, fact.used_source, fact.window_source) for fact in found]


# Where the files are


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, f"{HOME}/.codex/sessions"),
        ({"CODEX_HOME": "/c"}, "/c/sessions"),
        ({"CODEX_HOME": "/c", "LIFELOOP_CODEX_HOME": "/b"}, "/b/sessions"),
        ({"CODEX_HOME": "/c", "LIFELOOP_CODEX_HOME": "/b", "LIFEBUS_CODEX_HOME": "/a"}, "/a/sessions"),
        ({"CODEX_HOME": ""}, f"{HOME}/.codex/sessions"),
    ],
)
def test_our_own_variable_goes_before_the_reference_s_and_codexs(environ: dict[str, str], root: str) -> None:
    assert list(source_of("codex").roots(Surroundings(home=HOME, environ=environ))) == [root]


def test_our_own_variables_are_named_for_whoever_checks_the_environment() -> None:
    assert OVERRIDES == ("LIFEBUS_CODEX_HOME", "LIFEBUS_CODEX_THREAD_ID", "LIFEBUS_CODEX_MODEL")


@pytest.mark.parametrize(
    "path",
    ["/x/notes.jsonl", "/x/rollout-1.jsonl", PATH + ".bak", PATH.replace("rollout-", "old-"), PATH[:-8] + "zz.jsonl"],
)
def test_a_file_of_another_name_is_no_rollout(path: str) -> None:
    assert not source_of("codex").is_ours(path)
    assert source_of("codex").session_of(path) is None


def test_the_session_stands_at_the_end_of_the_name() -> None:
    assert source_of("codex").session_of(PATH) == SESSION
    assert source_of("codex").is_ours(PATH)


def test_one_session_alone_is_followed_if_a_variable_names_it() -> None:
    assert read(tokens(10), LIFEBUS_CODEX_THREAD_ID=OTHER) == []
    assert len(read(tokens(10), LIFEBUS_CODEX_THREAD_ID=SESSION)) == 1


def test_a_model_named_by_the_user_is_reported_instead_of_the_files() -> None:
    context = line("turn_context", {"turn_id": "t1", "model": "gpt-5"})
    models = [fact.model for fact in read(tokens(1), context, tokens(2)) if isinstance(fact, Usage)]
    assert models == [None, "gpt-5"]
    (fact,) = read(context, tokens(2), LIFEBUS_CODEX_MODEL="mine")
    assert isinstance(fact, Usage)
    assert fact.model == "mine"


# How full the context is


def test_the_last_request_fills_the_context_and_never_the_sum_of_all() -> None:
    expected = (12_012, 19_000, "rollout:last_token_usage.total_tokens", "rollout:model_context_window")
    assert used(tokens(12_012, cumulative=56_117)) == [expected]


def test_repeated_counts_say_the_same_again_and_nothing_more() -> None:
    first, second = read(tokens(16_012), tokens(16_012))
    assert first == second


def test_after_a_compaction_the_count_is_marked_as_an_estimate() -> None:
    before, after = used(tokens(16_012), line("compacted", {"message": "…"}), tokens(6_041, parts=0))
    assert before[2] == "rollout:last_token_usage.total_tokens"
    assert after == (6_041, 19_000, "rollout:last_token_usage.total_tokens:estimated", "rollout:model_context_window")


def test_a_window_is_taken_from_the_turns_start_where_the_count_has_none() -> None:
    started = event("task_started", turn_id="t1", model_context_window=258_400, **TURN)
    assert [one[1::2] for one in used(tokens(5, None), started, tokens(5, None), tokens(5, 0))] == [
        (None, None),
        (258_400, "rollout:task_started.model_context_window"),
        (258_400, "rollout:task_started.model_context_window"),
    ]


@pytest.mark.parametrize("info", [None, {}, {"last_token_usage": None, "model_context_window": 5}])
def test_a_count_without_numbers_has_no_facts(info: Any) -> None:
    assert read(event("token_count", info=info)) == []


@pytest.mark.parametrize("total", [-1, 2**53, 10**400, 1.5, 1.0, True, "12", [], None])
def test_strange_numbers_are_refused(total: Any) -> None:
    with pytest.raises(InvalidRequest):
        read(tokens(total))


@pytest.mark.parametrize("window", [-1, 2**53, 1.5, False, "12", []])
def test_strange_windows_are_refused(window: Any) -> None:
    with pytest.raises(InvalidRequest):
        read(tokens(5, window))


def test_a_reader_goes_on_after_a_line_that_it_cannot_read() -> None:
    reader = reader_of("codex", PATH)
    with pytest.raises(InvalidRequest):
        reader.read(b'{"type":"event_msg","payl')
    (fact,) = reader.read(tokens(5))
    assert isinstance(fact, Usage)


# Compactions


def test_a_compaction_is_known_by_its_ordinal() -> None:
    assert read(line("compacted", {"message": "…"}, 33)) == [Compacted(session=SESSION, key="ordinal:33")]


def test_compactions_without_ordinals_are_counted() -> None:
    records = [line("compacted", {}, None), line("compacted", {}, None)]
    assert [fact.key for fact in read(*records) if isinstance(fact, Compacted)] == ["count:1", "count:2"]


def test_a_compaction_on_request_is_no_turn_and_no_work() -> None:
    found = read(
        event("task_started", turn_id="t1", **TURN),
        event("task_complete", turn_id="t1"),
        event("task_started", turn_id="t2"),
        line("response_item", {"type": "message", "role": "assistant"}),
        line("compacted", {}, 24),
        event("item_completed", turn_id="t2", item={"type": "ContextCompaction", "id": "i"}),
        event("task_complete", turn_id="t2"),
        event("task_started", turn_id="t3", **TURN),
    )
    assert found == [
        TurnStarted(session=SESSION, frame_id="t1", reports_end=True),
        TurnEnded(session=SESSION, frame_id="t1", evidence="rollout:task_complete"),
        Compacted(session=SESSION, key="ordinal:24"),
        TurnStarted(session=SESSION, frame_id="t3", reports_end=True),
    ]


def test_work_after_a_compaction_on_request_counts_again() -> None:
    ended = event("turn_aborted", turn_id="t2", reason="interrupted")
    started = event("task_started", turn_id="t1", **TURN)
    item = line("response_item", {"type": "function_call_output"})
    found = read(started, event("task_started", turn_id="t2"), item, ended, item)
    assert found == [TurnStarted(session=SESSION, frame_id="t1", reports_end=True), Activity(session=SESSION)]


def test_the_start_of_a_session_after_a_compaction_is_no_new_session() -> None:
    start = {"session_id": SESSION, "hook_event_name": "SessionStart", "source": "compact", "model": "m"}
    reading = ADAPTERS["codex"].read(call("codex", start), ids())
    assert (reading.emissions, reading.facts, reading.session) == ((), (), SESSION)


# Turns


def test_turns_of_a_version_that_attributes_none_are_turns() -> None:
    assert read(event("task_started", turn_id="t1")) == [TurnStarted(session=SESSION, frame_id="t1", reports_end=True)]


@pytest.mark.parametrize(
    ("ending", "how", "evidence"),
    [
        (event("task_complete", turn_id="t1"), "completed", "rollout:task_complete"),
        (event("task_complete", turn_id="t1", error=None), "completed", "rollout:task_complete"),
        (event("turn_aborted", turn_id="t1", reason="interrupted"), "interrupted", "rollout:turn_aborted.interrupted"),
        (event("turn_aborted", turn_id="t1"), "interrupted", "rollout:turn_aborted.unknown"),
    ],
)
def test_a_turns_end_says_how_it_ended(ending: bytes, how: str, evidence: str) -> None:
    assert read(ending) == [TurnEnded(session=SESSION, frame_id="t1", frame_end=how, evidence=evidence)]


@pytest.mark.parametrize(
    ("info", "details"),
    [
        (
            "internal_server_error",
            {"error": "internalServerError", "failure_class": "transport_error", "retry_class": "safe_retry"},
        ),
        (
            {"http_connection_failed": {"http_status_code": 401}},
            {
                "error": "httpConnectionFailed",
                "http_status": 401,
                "failure_class": "operator_required",
                "retry_class": "retry_after_operator",
            },
        ),
        (
            {"response_stream_disconnected": {"http_status_code": None}},
            {"error": "responseStreamDisconnected", "failure_class": "transport_error", "retry_class": "safe_retry"},
        ),
        ("other", {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
        (None, {"error": "other", "failure_class": "internal_error", "retry_class": "retry_after_reread"}),
    ],
)
def test_an_error_in_the_file_has_the_words_that_the_app_server_has_for_it(info: Any, details: dict[str, Any]) -> None:
    error = {"message": "secret words", "codex_error_info": info}
    (ended,) = read(event("task_complete", turn_id="t1", error=error))
    assert isinstance(ended, TurnEnded)
    assert (ended.frame_end, ended.evidence) == ("failed", "rollout:task_complete.error")
    assert ended.details == {"will_retry": False, **details}


@pytest.mark.parametrize(
    ("between", "answer", "how"),
    [
        ([line("response_item", {"type": "message", "role": "user"})], None, "blocked"),
        ([event("item_completed", turn_id="t1", item={"type": "UserMessage"})], None, "completed"),
        ([line("response_item", {"type": "function_call", "name": "exec_command"})], None, "completed"),
        ([], "done", "completed"),
    ],
)
def test_a_turn_that_is_complete_without_its_prompt_was_refused(
    between: list[bytes], answer: str | None, how: str
) -> None:
    ended = event("task_complete", turn_id="t1", last_agent_message=answer)
    last = read(event("task_started", turn_id="t1", **TURN), *between, ended)[-1]
    assert isinstance(last, TurnEnded)
    assert (last.frame_id, last.frame_end) == ("t1", how)


def test_a_killed_session_shows_a_turn_that_never_ends() -> None:
    (path,) = CAPTURES.glob("codex/exec_sigkill/sessions/*.jsonl")
    found = facts_of("codex", str(path), records_of(path))
    assert [type(fact) for fact in found] == [Whereabouts, TurnStarted, Activity]


def test_two_stops_of_one_turn_are_one_turn_in_the_file_that_went_on_once() -> None:
    (path,) = CAPTURES.glob("codex/exec_stop_block_once/sessions/*.jsonl")
    found = facts_of("codex", str(path), records_of(path))
    turns = [fact for fact in found if isinstance(fact, TurnStarted | TurnContinued | TurnEnded)]
    assert [type(fact) for fact in turns] == [TurnStarted, TurnContinued, TurnEnded]
    assert len({fact.frame_id for fact in turns}) == 1


@pytest.mark.parametrize(
    ("record", "alive"),
    [
        (line("response_item", {"type": "function_call", "name": "exec_command"}), True),
        (line("response_item", {"type": "message", "role": "assistant"}), True),
        (line("response_item", {"type": "message", "role": "user"}), False),
        (line("response_item", {"type": "message", "role": "developer"}), False),
        (event("item_completed", item={"type": "CommandExecution"}), True),
        (event("item_completed", item={"type": "UserMessage"}), False),
        (line("world_state", {"full": True}), False),
        (line("token_usage_record", {"usage": {"total_tokens": 5}}), False),
        (line("event_msg", None), False),
        (line("invented", {"type": "item_completed"}), False),
    ],
)
def test_what_model_and_tools_do_is_a_sign_of_life(record: bytes, alive: bool) -> None:
    assert read(record) == ([Activity(session=SESSION)] if alive else [])


# Sub-agents


@pytest.mark.parametrize(
    "changes",
    [
        {"source": {"subagent": {"thread_spawn": {"parent_thread_id": OTHER, "depth": 1}}}},
        {"source": {"subagent": "review"}},
        {"source": {"internal": "memory_consolidation"}},
        {"thread_source": "subagent"},
        {"thread_source": "guardian_review"},
        {"parent_thread_id": OTHER},
        {"session_id": OTHER, "thread_source": None},
    ],
)
def test_a_sub_agents_rollout_has_no_facts_about_any_session(changes: dict[str, Any]) -> None:
    turn = event("task_started", turn_id="t1", model_context_window=19_000)
    assert (
        read(meta(**changes), turn, tokens(18_000), line("compacted", {}), event("task_complete", turn_id="t1")) == []
    )


@pytest.mark.parametrize("changes", [{}, {"source": {"custom": "probe"}}, {"forked_from_id": OTHER}, {"source": None}])
def test_a_users_own_rollout_is_read(changes: dict[str, Any]) -> None:
    assert [one[0] for one in used(meta(**changes), tokens(18_000))] == [18_000]


def test_the_first_line_of_a_forked_files_parent_changes_nothing() -> None:
    parents = meta(id=OTHER, session_id=OTHER, thread_source="subagent")
    assert [fact.session for fact in read(meta(forked_from_id=OTHER, cwd=None), parents, tokens(5))] == [SESSION]
    assert read(meta(thread_source="subagent"), meta(), tokens(5)) == []


def test_without_a_telling_name_the_first_line_names_the_session() -> None:
    found = facts_of("codex", "/somewhere/else.jsonl", [tokens(1), meta(id=OTHER, cwd=None), tokens(5)])
    assert [(fact.session, isinstance(fact, Usage)) for fact in found] == [(OTHER, True)]


# Hooks


def hook_facts(**payload: Any) -> tuple[Fact, ...]:
    plain = {"session_id": SESSION, "turn_id": "t1", "hook_event_name": "PostModelRequest", "model": "m"}
    return ADAPTERS["codex"].read(call("codex", plain | payload), ids()).facts


def test_a_request_that_is_over_has_its_tokens_without_a_window() -> None:
    assert hook_facts(token_usage={"input_tokens": 9_897, "total_tokens": 9_909}) == (
        Usage(
            session=SESSION,
            used_tokens=9_909,
            used_source="hook:PostModelRequest.token_usage.total_tokens",
            model="m",
        ),
    )


@pytest.mark.parametrize("payload", [{"token_usage": None, "status": "failed"}, {}, {"token_usage": {}}])
def test_a_request_without_counts_has_no_facts(payload: dict[str, Any]) -> None:
    assert hook_facts(**payload) == ()


def test_a_sub_agents_request_is_not_the_sessions() -> None:
    assert hook_facts(token_usage={"total_tokens": 9}, agent_id="a1") == ()


@pytest.mark.parametrize("total", [-1, 2**53, 1.5, True, "9"])
def test_a_strange_count_in_a_hook_is_refused(total: Any) -> None:
    with pytest.raises(InvalidRequest):
        hook_facts(token_usage={"total_tokens": total})


def test_a_hook_with_tokens_means_no_event() -> None:
    payload = {"session_id": SESSION, "hook_event_name": "PostModelRequest", "token_usage": {"total_tokens": 9}}
    assert events(ADAPTERS["codex"].read(call("codex", payload), ids()).emissions) == []
