"""Gemini CLI's chat files, telemetry file and AfterModel hook: where they are, the facts in each record, the traps."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.gemini.chats import MAX_MESSAGES
from lifebus_adapters.gemini.telemetry import OVERRIDES
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    Surroundings,
    ToolsDone,
    TurnEnded,
    TurnStarted,
    Usage,
)
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, ids
from support.adapters.other_telemetry import record_reader, source
from support.adapters.telemetry_facts import HOME

S = "00000354-9059-4893-8e80-cf6bf9f711dc"
HEADER = {"sessionId": S, "projectHash": "0", "startTime": "2026-11-21T21:04:14.200Z", "kind": "main"}
WINDOW = 1_048_576


def model(known_id: str, tokens: int | None = None, **more: Any) -> dict[str, Any]:
    counts = None if tokens is None else {"input": tokens, "output": 12, "cached": 0, "total": tokens + 12}
    return {"id": known_id, "type": "gemini", "content": "", "tokens": counts, "model": "gemini-2.5-pro"} | more


def user(known_id: str, *parts: Any) -> dict[str, Any]:
    return {"id": known_id, "type": "user", "content": list(parts) or [{"text": "Hello"}]}


def chat(*lines: Any, **environ: str) -> list[Fact]:
    reader = record_reader("chats", **environ)
    return [fact for line in (HEADER, *lines) for fact in reader.read(json.dumps(line).encode())]


def used(facts: list[Fact]) -> list[int]:
    return [fact.used_tokens for fact in facts if isinstance(fact, Usage)]


def event(name: str, /, **attributes: Any) -> dict[str, Any]:
    known = {"session.id": S, "event.name": f"gemini_cli.{name}", "event.timestamp": "2026-11-21T21:07:13.178Z"}
    return {"hrTime": [1, 2], "attributes": known | attributes, "_body": "…"}


def log(*objects: Any, **environ: str) -> list[Fact]:
    reader = record_reader("telemetry", **environ)
    return [fact for one in objects for fact in reader.read(json.dumps(one, indent=2).encode())]


# Where the files are


@pytest.mark.parametrize(
    ("environ", "root"),
    [({}, f"{HOME}/.gemini"), ({"GEMINI_CLI_HOME": "/g"}, "/g/.gemini"), ({"GEMINI_CLI_HOME": ""}, f"{HOME}/.gemini")],
)
def test_chat_files_are_in_the_home_that_gemini_uses(environ: dict[str, str], root: str) -> None:
    assert list(source("gemini", "chats").roots(Surroundings(home=HOME, environ=environ))) == [root]


@pytest.mark.parametrize(
    ("environ", "roots"),
    [
        ({}, []),
        ({"GEMINI_TELEMETRY_OUTFILE": "/5"}, ["/5"]),
        ({"GEMINI_TELEMETRY_OUTFILE": "/5", "LIFELOOP_GEMINI_TELEMETRY_OUTFILE": "/4"}, ["/4"]),
        ({"LIFELOOP_GEMINI_TELEMETRY_OUTFILE": "/4", "LIFEBUS_GEMINI_TELEMETRY_OUTFILE": "/3"}, ["/3"]),
        ({"LIFEBUS_GEMINI_TELEMETRY_OUTFILE": "/3", "LIFELOOP_GEMINI_TELEMETRY_PATH": "/2"}, ["/2"]),
        ({"LIFELOOP_GEMINI_TELEMETRY_PATH": "/2", "LIFEBUS_GEMINI_TELEMETRY_PATH": "/1"}, ["/1"]),
        ({"GEMINI_TELEMETRY_OUTFILE": ".gemini/telemetry.log"}, []),
    ],
)
def test_the_telemetry_file_is_watched_only_where_a_variable_names_it_whole(
    environ: dict[str, str], roots: list[str]
) -> None:
    assert list(source("gemini", "telemetry").roots(Surroundings(home=HOME, environ=environ))) == roots


def test_our_own_variables_are_named_for_whoever_checks_the_environment() -> None:
    assert len(OVERRIDES) == 4
    assert all(name.startswith("LIFEBUS_GEMINI_") for name in OVERRIDES)


@pytest.mark.parametrize(
    "path",
    [
        "/x/chats/session-1.jsonl",
        f"{HOME}/.gemini/tmp/project/chats/notes.jsonl",
        f"{HOME}/.gemini/tmp/project/chats/session-1.json",
        f"{HOME}/.gemini/tmp/project/chats/parent/session-1.jsonl",
        f"{HOME}/.gemini/tmp/project/chats/session-1.jsonl\n",
    ],
)
def test_other_files_are_no_chats(path: str) -> None:
    assert not source("gemini", "chats").is_ours(path)


def test_a_name_does_not_hold_the_session() -> None:
    path = f"{HOME}/.gemini/tmp/project/chats/session-2026-11-21T21-04-{S[:8]}.jsonl"
    assert source("gemini", "chats").is_ours(path)
    assert source("gemini", "chats").session_of(path) is None


# Chat files


def test_used_is_the_input_of_the_newest_answer_over_the_models_window() -> None:
    (usage,) = chat(model("a", 524_288))
    expected = Usage(
        session=S, used_tokens=524_288, used_source="chats:tokens.input", window_tokens=WINDOW,
        window_source="table:gemini-2.5-pro", model="gemini-2.5-pro",
    )  # fmt: skip
    assert usage == expected


def test_a_message_with_a_known_id_replaces_the_earlier_one() -> None:
    assert used(chat(model("a", 100), model("a", 200))) == [100, 200]


def test_tokens_that_come_late_count_once_they_are_there() -> None:
    assert chat(model("a"), model("a", 300))[0] == Activity(session=S)
    assert used(chat(model("a"), model("a", 300))) == [300]


def test_an_older_message_that_is_replaced_says_nothing_about_now() -> None:
    facts = chat(model("a", 100), model("b", 900), model("a", 100, toolCalls=[{"id": "t"}]))
    assert used(facts) == [100, 900]
    assert facts[-1] == Activity(session=S)


def test_patches_of_other_fields_have_no_facts() -> None:
    assert chat({"$set": {"lastUpdated": "2026-11-21T21:04:14.248Z"}}, {"$set": {"summary": "x"}}) == []


def test_a_patch_of_all_messages_is_neither_a_turn_nor_usage() -> None:
    assert chat({"$set": {"messages": [user("a"), model("b", 100)]}}) == []


def test_tokens_that_fall_prove_no_compaction() -> None:
    facts = chat(model("a", 900_000), {"$set": {"messages": [user("c")]}}, model("b", 12_000))
    assert not [fact for fact in facts if isinstance(fact, Compacted)]
    assert used(facts) == [900_000, 12_000]


def test_rewinding_takes_the_context_back_to_the_message_before() -> None:
    facts = chat(model("a", 100), user("b"), model("c", 900), {"$rewindTo": "b"})
    assert used(facts) == [100, 900, 100]


def test_rewinding_to_what_nobody_knows_has_no_facts() -> None:
    assert used(chat(model("a", 100), {"$rewindTo": "z"})) == [100]
    assert used(chat(model("a", 100), {"$rewindTo": "a"})) == [100]


def test_a_patch_leaves_known_tokens_for_a_later_rewind() -> None:
    patch = {"$set": {"messages": [model("a"), user("b"), model("c")]}}
    assert used(chat(model("a", 100), user("b"), model("c", 900), patch, {"$rewindTo": "b"})) == [100, 900, 100]


def test_a_resumed_session_goes_on_in_a_second_file() -> None:
    first, second = chat(user("a"), model("b", 100)), chat(HEADER, user("c"), model("d", 200))
    assert {fact.session for fact in (*first, *second)} == {S}
    assert used(second) == [200]


def test_a_sub_agents_file_has_no_facts_about_the_session() -> None:
    assert chat(HEADER | {"kind": "subagent"}, user("a"), model("b", 100)) == []


def test_a_prompt_begins_a_turn_and_a_tools_result_does_not() -> None:
    result = {"functionResponse": {"id": "t", "name": "shell", "response": {"output": "functionResponse"}}}
    assert chat(user("a"), user("b", result), user("c", {"text": "functionResponse"})) == [
        TurnStarted(session=S),
        Activity(session=S),
        TurnStarted(session=S),
    ]


@pytest.mark.parametrize("content", ["Hello", {"text": "Hello"}, ["Hello"], None])
def test_a_prompt_may_be_written_in_several_ways(content: Any) -> None:
    assert chat({"id": "a", "type": "user", "content": content}) == [TurnStarted(session=S)]


def test_a_prompt_that_is_stored_again_is_no_second_turn() -> None:
    assert chat(user("a"), user("a")) == [TurnStarted(session=S)]


@pytest.mark.parametrize("kind", ["info", "error", "warning"])
def test_messages_of_the_program_itself_have_no_facts(kind: str) -> None:
    assert chat({"id": "a", "type": kind, "content": "x"}) == []


def test_what_stands_before_the_header_has_no_facts() -> None:
    assert record_reader("chats").read(json.dumps(model("a", 100)).encode()) == ()


def test_a_message_that_is_taken_back_after_an_error_of_the_model_ends_its_turn() -> None:
    known = {"id": "c", "type": "user"}
    taken_back = {"$set": {"messages": [known]}}
    failed = TurnEnded(session=S, frame_end="failed", evidence="chats:message taken back")
    begun = {"$set": {"messages": [known]}}
    assert chat(begun, user("p", "hello"), {"$set": {"lastUpdated": "t"}}, taken_back)[-1] == failed
    # Where tools had worked, the last result is taken back.
    result = user("r", {"functionResponse": {}})
    left = {"$set": {"messages": [known, user("p", "hello"), {"id": "a", "type": "gemini"}]}}
    assert chat(begun, user("p", "hello"), model("a"), result, left)[-1] == failed


@pytest.mark.parametrize(
    "lines",
    [
        [{"$set": {"messages": [{"id": "c2"}]}}],  # a compression gives all messages new ids
        [{"$set": {"messages": [{"id": "c"}, {"id": "p"}]}}],
        [{"sessionId": S, "kind": "main"}, {"$set": {"messages": [{"id": "c"}]}}],  # a session that is resumed
        [model("a"), {"$set": {"messages": [{"id": "c"}, {"id": "p"}]}}],
    ],
)
def test_other_lists_of_messages_end_no_turn(lines: list[Any]) -> None:
    facts = chat({"$set": {"messages": [{"id": "c"}]}}, user("p", "hello"), *lines)
    assert not any(isinstance(fact, TurnEnded) for fact in facts)


def test_only_so_many_messages_are_remembered() -> None:
    many = [model(f"m{number}", number) for number in range(MAX_MESSAGES + 10)]
    assert used(chat(*many, {"$rewindTo": "m9"}))[-1] == MAX_MESSAGES + 9
    assert used(chat(*many, {"$rewindTo": "m11"}))[-2:] == [MAX_MESSAGES + 9, 10]


@pytest.mark.parametrize(
    "line",
    [{"type": "gemini"}, model("a", -1), model("a") | {"tokens": 7}, model("a") | {"tokens": {}}, model("x\x00", 1)],
)
def test_a_message_of_another_form_is_refused_and_the_next_one_is_read(line: Any) -> None:
    reader = record_reader("chats")
    reader.read(json.dumps(HEADER).encode())
    with pytest.raises(InvalidRequest):
        reader.read(json.dumps(line).encode())
    assert len(reader.read(json.dumps(model("b", 5)).encode())) == 1


# The window


def test_an_unknown_model_has_no_window_and_so_no_percentage() -> None:
    (usage,) = chat(model("a", 100, model="somebody-elses-model"))
    assert isinstance(usage, Usage)
    assert (usage.window_tokens, usage.window_source, usage.model) == (None, None, "somebody-elses-model")


@pytest.mark.parametrize("name", ["LIFEBUS_GEMINI_CONTEXT_WINDOW_TOKENS", "LIFELOOP_GEMINI_CONTEXT_WINDOW_TOKENS"])
def test_the_user_may_say_how_large_the_window_is(name: str) -> None:
    for facts in (chat(model("a", 100), **{name: "200000"}), log(_response(100), **{name: "200000"})):
        assert isinstance(facts[0], Usage)
        assert (facts[0].window_tokens, facts[0].window_source) == (200_000, f"override:{name}")


def test_the_user_may_say_which_model_it_is() -> None:
    (usage,) = chat(model("a", 100, model="alias"), LIFEBUS_GEMINI_MODEL="gemma-4-31b-it")
    assert isinstance(usage, Usage)
    assert (usage.model, usage.window_tokens) == ("gemma-4-31b-it", 256_000)


# The telemetry file


def _response(tokens: int, role: str | None = "main", name: str = "gemini-2.5-pro") -> dict[str, Any]:
    more = {} if role is None else {"role": role}
    return event("api_response", model=name, input_token_count=tokens, output_token_count=12, **more)


def test_an_answer_of_the_conversation_says_how_full_the_context_was() -> None:
    (usage,) = log(_response(80_000))
    assert isinstance(usage, Usage)
    assert (usage.used_tokens, usage.used_source) == (80_000, "telemetry:api_response.input_token_count")


@pytest.mark.parametrize("role", ["utility_compressor", "utility_router", "subagent"])
def test_requests_of_helpers_are_a_sign_of_life_and_no_usage(role: str) -> None:
    assert log(_response(82_129, role)) == [Activity(session=S)]


def test_versions_that_name_no_role_are_read_too() -> None:
    assert used(log(_response(5, None))) == [5]


def test_the_model_that_was_asked_for_decides_about_the_window() -> None:
    helper = event("api_request", model="gemma-4-31b-it", role="utility_router")
    facts = log(event("api_request", model="gemini-2.5-pro", role="main"), helper, _response(5, name="service-name"))
    assert isinstance(facts[-1], Usage)
    assert (facts[-1].model, facts[-1].window_tokens) == ("gemini-2.5-pro", WINDOW)


def test_a_compression_that_made_the_context_smaller_is_a_proof_with_its_time_as_key() -> None:
    (proof,) = log(event("chat_compression", tokens_before=81_170, tokens_after=174))
    key = "compression:2026-11-21T21:07:13.178Z"
    assert proof == Compacted(session=S, key=key, tokens_before=81_170, tokens_after=174)


@pytest.mark.parametrize("after", [81_170, 90_000])
def test_a_compression_that_failed_proves_nothing(after: int) -> None:
    assert log(event("chat_compression", tokens_before=81_170, tokens_after=after)) == [Activity(session=S)]


@pytest.mark.parametrize("name", ["user_prompt", "tool_call", "api_error"])
def test_other_work_is_a_sign_of_life(name: str) -> None:
    assert log(event(name, prompt="secret", function_args="secret")) == [Activity(session=S)]


@pytest.mark.parametrize("name", ["hook_call", "config", "startup_stats", "model_routing"])
def test_hooks_and_settings_are_passed_over_whatever_they_hold(name: str) -> None:
    assert log(event(name, hook_input={"prompt": "secret"}, role=7, model=[])) == []


def test_spans_and_metrics_are_passed_over() -> None:
    assert log({"resource": {}, "scopeMetrics": []}, {"kind": 1, "attributes": {"role": 7}}, {"attributes": {}}) == []


@pytest.mark.parametrize(
    "record",
    [
        event("api_response", input_token_count=-1),
        event("api_response", input_token_count="12"),
        event("chat_compression"),
        event("chat_compression", tokens_before=1, tokens_after=0, **{"event.timestamp": None}),
        event("tool_call", **{"session.id": None}),
        event("tool_call", **{"session.id": "x\x00"}),
        {"attributes": 7},
    ],
)
def test_an_object_of_another_form_is_refused(record: Any) -> None:
    with pytest.raises(InvalidRequest):
        log(record)


# Hooks


def _after_model(**response: Any) -> tuple[Fact, ...]:
    payload = {"session_id": S, "hook_event_name": "AfterModel", "llm_request": {"model": "gemini-2.5-pro"}}
    return ADAPTERS["gemini"].read(call("gemini", payload | {"llm_response": response}), ids()).facts


def test_the_last_chunk_of_an_answer_says_how_full_the_context_was() -> None:
    usage = {"promptTokenCount": 12_195, "totalTokenCount": 12_210}
    (fact,) = _after_model(candidates=[{"finishReason": "STOP"}], usageMetadata=usage)
    assert isinstance(fact, Usage)
    assert (fact.used_tokens, fact.window_tokens) == (12_195, WINDOW)
    assert fact.used_source == "hook:AfterModel.usageMetadata.promptTokenCount"


@pytest.mark.parametrize("candidates", [[{"content": {}}], [{"finishReason": None}], [], None, "x", [7]])
def test_chunks_before_the_last_have_no_facts(candidates: Any) -> None:
    assert _after_model(candidates=candidates, usageMetadata={"promptTokenCount": 5}) == ()


def test_a_chunk_without_counts_has_no_facts() -> None:
    assert _after_model(candidates=[{"finishReason": "STOP"}]) == ()


@pytest.mark.parametrize("trigger", ["auto", "manual"])
def test_precompress_proves_nothing(trigger: str) -> None:
    payload = {"session_id": S, "hook_event_name": "PreCompress", "trigger": trigger}
    reading = ADAPTERS["gemini"].read(call("gemini", payload), ids())
    assert (reading.emissions, reading.facts) == ((), ())


# What a person was asked


def calls(*made: tuple[str, str]) -> list[dict[str, Any]]:
    return [{"id": f"c{n}", "status": status, "timestamp": at} for n, (status, at) in enumerate(made)]


@pytest.mark.parametrize(
    ("made", "done_ms"),
    [
        ([("cancelled", "2026-11-23T21:03:00.597Z")], [1_795_467_780_597]),
        ([("success", "2026-11-23T21:03:01.000Z"), ("error", "2026-11-23T21:03:00.000Z")], [1_795_467_781_000]),
        ([("success", "2026-11-23T21:03:01.000Z"), ("awaiting_approval", "2026-11-23T21:03:00.000Z")], []),
        ([("cancelled", "now")], []),
        ([], []),
    ],
)
def test_calls_are_over_once_all_of_them_have_ended(made: list[tuple[str, str]], done_ms: list[int]) -> None:
    facts = chat(model("a", 5, toolCalls=calls(*made)))
    assert [fact.at_ms for fact in facts if isinstance(fact, ToolsDone)] == done_ms


@pytest.mark.parametrize("strange", ["x", 7, {"status": "success"}, [7], [None], [{"status": ["success"]}], [[]]])
def test_calls_of_another_form_cost_nothing_else_of_their_message(strange: Any) -> None:
    assert chat(model("a", 5, toolCalls=strange)) == chat(model("a", 5))
