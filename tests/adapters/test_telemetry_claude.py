"""Claude Code transcripts: where they are, what each kind of line tells, and the traps."""

import json
from typing import Any

import pytest

from adapters.calls import CAPTURES, call, ids
from adapters.telemetry_facts import HOME, facts_of, reader_of, records_of, source_of
from lifebus_adapters import ADAPTERS
from lifebus_adapters.claude.telemetry import OVERRIDES
from lifebus_adapters.claude.windows import WINDOWS, window_of
from lifebus_adapters.telemetry import Activity, Compacted, Fact, Surroundings, TurnEnded, TurnStarted, Usage
from lifebus_contract import InvalidRequest

SESSION = "01900000-0000-4000-8000-000000000001"
OTHER = "01900000-0000-4000-8000-000000000002"
PATH = f"{HOME}/.claude/projects/-home-dev-project/{SESSION}.jsonl"
USED = "transcript:usage.input+cache_creation+cache_read+output"
MODEL = "claude-opus-5-5"
TYPED = {"promptSource": "typed", "turnOrigin": "human"}


def line(kind: str, **fields: Any) -> bytes:
    """Return a line as Claude Code writes it: compact, with the common fields."""
    record = {"parentUuid": None, "isSidechain": False, "type": kind, "uuid": "u1", "sessionId": SESSION, **fields}
    return json.dumps(record, separators=(",", ":")).encode()


def answer(*, model: str | None = MODEL, usage: Any = None, **fields: Any) -> bytes:
    counted = {"input_tokens": 10, "cache_creation_input_tokens": 200, "cache_read_input_tokens": 3_000}
    message: dict[str, Any] = {"model": model, "content": [], "usage": usage or {**counted, "output_tokens": 40_000}}
    return line("assistant", message=message, **fields)


def prompt(content: Any = "Hello", prompt_id: str | None = "p1", **fields: Any) -> bytes:
    return line("user", promptId=prompt_id, message={"role": "user", "content": content}, **fields)


def boundary(**metadata: Any) -> bytes:
    return line("system", subtype="compact_boundary", compactMetadata=metadata)


def read(*records: bytes, **environ: str) -> list[Fact]:
    return facts_of("claude", PATH, list(records), **environ)


def usages(*records: bytes, **environ: str) -> list[Usage]:
    return [fact for fact in read(*records, **environ) if isinstance(fact, Usage)]


def ends(*records: bytes) -> list[tuple[str | None, str]]:
    return [(fact.frame_id, fact.frame_end) for fact in read(*records) if isinstance(fact, TurnEnded)]


# Where the files are


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, f"{HOME}/.claude/projects"),
        ({"CLAUDE_CONFIG_DIR": "/c"}, "/c/projects"),
        ({"CLAUDE_CONFIG_DIR": "/c", "LIFELOOP_CLAUDE_HOME": "/b"}, "/b/projects"),
        ({"CLAUDE_CONFIG_DIR": "/c", "LIFELOOP_CLAUDE_HOME": "/b", "LIFEBUS_CLAUDE_HOME": "/a"}, "/a/projects"),
    ],
)
def test_our_own_variable_goes_before_the_reference_s_and_claudes(environ: dict[str, str], root: str) -> None:
    assert list(source_of("claude").roots(Surroundings(home=HOME, environ=environ))) == [root]


def test_our_own_variables_are_named_for_whoever_checks_the_environment() -> None:
    names = ("HOME", "SESSION_ID", "MODEL", "CONTEXT_WINDOW_TOKENS")
    assert tuple(f"LIFEBUS_CLAUDE_{name}" for name in names) == OVERRIDES


def test_the_session_is_the_name_of_the_file() -> None:
    assert source_of("claude").session_of(PATH) == SESSION
    assert source_of("claude").is_ours(PATH)


@pytest.mark.parametrize(
    "path",
    [
        f"{HOME}/.claude/projects/-home-dev-project/{SESSION}/subagents/agent-a5d249798c0fccbba.jsonl",
        f"{HOME}/.claude/projects/-home-dev-project/{SESSION}/subagents/{OTHER}.jsonl",
        f"{HOME}/.claude/projects/-home-dev-project/agent-a5d249798c0fccbba.jsonl",
        f"{HOME}/.claude/projects/-home-dev-project/{SESSION}.json",
        f"{HOME}/.claude/projects/-home-dev-project/{SESSION}",
        f"{HOME}/.claude/projects/-home-dev-project/.jsonl",
    ],
)
def test_sub_agents_files_and_others_are_not_followed(path: str) -> None:
    assert not source_of("claude").is_ours(path)
    assert source_of("claude").session_of(path) is None


def test_one_session_alone_is_followed_if_a_variable_names_it() -> None:
    assert read(answer(), LIFELOOP_CLAUDE_SESSION_ID=OTHER) == []
    assert len(usages(answer(), LIFELOOP_CLAUDE_SESSION_ID=SESSION)) == 1


# How full the context is


def test_used_is_all_input_and_the_output_of_the_newest_answer() -> None:
    assert read(answer()) == [
        Activity(session=SESSION),
        Usage(
            session=SESSION,
            used_tokens=43_210,
            used_source=USED,
            window_tokens=1_000_000,
            window_source=f"model:{MODEL}",
            model=MODEL,
        ),
    ]


def test_counts_that_are_absent_or_null_are_none() -> None:
    (usage,) = usages(answer(usage={"input_tokens": 7, "cache_read_input_tokens": None}))
    assert usage.used_tokens == 7


def test_after_a_compaction_its_own_count_stands_until_the_next_answer() -> None:
    records = (
        answer(),
        boundary(trigger="auto", preTokens=43_210, postTokens=2_605),
        answer(usage={"input_tokens": 9}),
    )
    assert [(one.used_tokens, one.used_source) for one in usages(*records)] == [
        (43_210, USED),
        (2_605, "transcript:compact_boundary.postTokens"),
        (9, USED),
    ]


def test_the_user_s_window_goes_before_the_model_s() -> None:
    (usage,) = usages(
        answer(), LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS="200000", LIFELOOP_CLAUDE_CONTEXT_WINDOW_TOKENS="1"
    )
    assert (usage.window_tokens, usage.window_source) == (200_000, "override:LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS")


@pytest.mark.parametrize("value", ["0", "-5", "many", "1e6", "²", "9" * 400, "1.5", " 5"])
def test_a_window_that_is_no_number_is_passed_over(value: str) -> None:
    (usage,) = usages(answer(), LIFEBUS_CLAUDE_CONTEXT_WINDOW_TOKENS=value)
    assert usage.window_source == f"model:{MODEL}"


def test_an_unknown_model_has_no_window_and_so_no_percentage() -> None:
    (usage,) = usages(answer(model="claude-unheard-of"))
    assert (usage.window_tokens, usage.window_source, usage.model) == (None, None, "claude-unheard-of")


def test_a_model_named_by_the_user_tells_the_window() -> None:
    (usage,) = usages(answer(model="claude-sonnet-4-5"), LIFEBUS_CLAUDE_MODEL="claude-sonnet-4-5[1m]")
    assert (usage.window_tokens, usage.window_source) == (1_000_000, "model:claude-sonnet-4-5[1m]")


@pytest.mark.parametrize(
    ("model", "window"),
    [
        ("claude-opus-4-1", 200_000),
        ("claude-opus-4-1-20250805", 200_000),
        ("claude-opus-4-1@20250805", 200_000),
        ("us.anthropic.claude-opus-4-1-20250805-v1:0", 200_000),
        ("anthropic/claude-opus-4-5", 200_000),
        ("claude-3-5-haiku-latest", 200_000),
        ("claude-opus-4-20250514", 200_000),
        ("claude-opus-5-5", 1_000_000),
        ("claude-haiku-4-5[1m]", 1_000_000),
        ("claude-sonnet-4-5", None),
        ("claude-opus-4-9", None),
        ("claude-opus-4-1-next", None),
        ("gpt-5", None),
        ("", None),
        ("claude-", None),
    ],
)
def test_a_window_is_told_by_a_name_that_is_known_exactly(model: str, window: int | None) -> None:
    assert window_of(model) == window


def test_windows_are_positive_and_names_have_no_date() -> None:
    assert all(window > 0 and not name[-8:].isdigit() for name, window in WINDOWS.items())


@pytest.mark.parametrize("strange", [-1, 2**53, 10**400, 1.5, 1.0, True, "12", []])
@pytest.mark.parametrize("field", ["input_tokens", "cache_creation_input_tokens", "output_tokens"])
def test_strange_numbers_are_refused(field: str, strange: Any) -> None:
    with pytest.raises(InvalidRequest):
        read(answer(usage={field: strange}))


def test_counts_whose_sum_no_json_reader_would_hold_are_refused() -> None:
    with pytest.raises(InvalidRequest):
        read(answer(usage={"input_tokens": 2**53 - 1, "output_tokens": 1}))


def test_the_answer_is_found_when_it_comes_after_the_stop_hook() -> None:
    """At Stop the file may lack the answer that was just given: the hook tells no number, the file does later."""
    stop = {"session_id": SESSION, "prompt_id": "p1", "hook_event_name": "Stop", "last_assistant_message": "…"}
    reader = reader_of("claude", PATH)
    before = [*reader.read(answer(usage={"input_tokens": 5}))]
    assert ADAPTERS["claude"].read(call("claude", stop), ids()).facts == ()
    after = [*reader.read(answer(usage={"input_tokens": 8}))]
    assert [fact.used_tokens for fact in before + after if isinstance(fact, Usage)] == [5, 8]


def test_what_claude_made_up_has_no_meaning() -> None:
    assert read(answer(model="<synthetic>")) == []
    assert read(answer(usage={"input_tokens": 0, "output_tokens": 0})) == [Activity(session=SESSION)]


def test_lines_of_sub_agents_tell_nothing() -> None:
    sidechain = (answer(isSidechain=True), prompt(isSidechain=True, **TYPED))
    assert read(*sidechain, line("system", subtype="compact_boundary", isSidechain=True, compactMetadata={})) == []


# Compactions


def test_a_compaction_is_known_by_the_line_s_own_id() -> None:
    (compacted, usage) = read(boundary(trigger="manual", preTokens=150_012, postTokens=2_605))
    assert compacted == Compacted(
        session=SESSION, key="u1", trigger="manual", tokens_before=150_012, tokens_after=2_605
    )
    assert isinstance(usage, Usage)


def test_a_boundary_without_numbers_is_still_proof() -> None:
    assert read(line("system", subtype="compact_boundary", uuid=None)) == [Compacted(session=SESSION, key="count:1")]
    assert read(line("system", subtype="microcompact_boundary", microcompactMetadata={"preTokens": 5})) == []


def test_the_start_of_a_session_after_a_compaction_is_no_new_session() -> None:
    start = {"session_id": SESSION, "hook_event_name": "SessionStart", "source": "compact"}
    reading = ADAPTERS["claude"].read(call("claude", start), ids())
    assert (reading.emissions, reading.facts, reading.session) == ((), (), SESSION)


# Turns


def test_a_prompt_begins_a_turn_once() -> None:
    assert read(prompt(**TYPED), prompt("and", **TYPED)) == [TurnStarted(session=SESSION, frame_id="p1")]


@pytest.mark.parametrize(
    "record",
    [
        prompt("Hello", **TYPED),
        prompt("Hello", promptSource="sdk", turnOrigin="sdk"),
        prompt([{"type": "text", "text": "Hello"}, {"type": "image", "source": {}}], **TYPED),
        prompt("<task-notification>done</task-notification>", origin={"kind": "task-notification"}),
        prompt("<command-name>/review</command-name>", **TYPED),
        prompt("[Request interrupted by user] is what I saw", **TYPED),
    ],
)
def test_what_a_user_or_a_background_task_asks_is_a_turn(record: bytes) -> None:
    assert read(record) == [TurnStarted(session=SESSION, frame_id="p1")]


@pytest.mark.parametrize(
    "record",
    [
        prompt("…", isMeta=True),
        prompt("…", isCompactSummary=True, isVisibleInTranscriptOnly=True, turnPosition={"turnIndex": 1}),
        prompt("…", repeatsCompactSummary=True),
        prompt("<command-name>/compact</command-name>"),
        prompt("<local-command-stdout>Compacted</local-command-stdout>"),
        prompt("<bash-input>ls</bash-input>"),
        prompt("Hello", prompt_id=None, **TYPED),
        prompt("Hello", prompt_id="", **TYPED),
        line("queue-operation", operation="enqueue", content="Hello"),
        line("last-prompt", lastPrompt="Hello"),
    ],
)
def test_what_claude_adds_and_local_commands_are_no_turns(record: bytes) -> None:
    assert read(record) == []


def test_a_tool_result_is_a_sign_of_life_and_no_turn() -> None:
    assert read(prompt([{"type": "tool_result", "content": "hi"}])) == [Activity(session=SESSION)]


def test_esc_ends_the_turn_though_no_hook_tells() -> None:
    interrupted = [{"type": "text", "text": "[Request interrupted by user for tool use]"}]
    assert ends(prompt(**TYPED), prompt(interrupted, interruptedMessageId="msg_1")) == [("p1", "interrupted")]
    assert ends(prompt(**TYPED), prompt("Unterbrochen", interruptedMessageId="msg_1")) == [("p1", "interrupted")]


def test_esc_before_the_first_answer_is_known_by_its_text() -> None:
    assert ends(prompt(**TYPED), prompt([{"type": "text", "text": "[Request interrupted by user]"}])) == [
        ("p1", "interrupted")
    ]
    assert ends(prompt(**TYPED), prompt("[Request interrupted by user]", prompt_id="p2", **TYPED)) == []


def test_the_duration_of_a_turn_ends_the_newest() -> None:
    duration = line("system", subtype="turn_duration", durationMs=351)
    assert ends(prompt(**TYPED), answer(), duration) == [("p1", "completed")]
    assert ends(duration) == []
    assert ends(prompt(**TYPED), duration, duration) == [("p1", "completed")]


def test_an_api_error_fails_the_turn() -> None:
    retry = line("system", subtype="api_error", error={"status": 500}, retryAttempt=1)
    failed = answer(model="<synthetic>", isApiErrorMessage=True, apiErrorStatus=400)
    assert ends(prompt(**TYPED), retry, failed) == [("p1", "failed")]
    assert ends(failed) == []


# /clear, forks, huge lines


def test_after_clear_facts_are_about_the_new_session() -> None:
    """The new file's lines still name the old session in another field."""
    told = read(prompt(session_id=OTHER, **TYPED), answer(session_id=OTHER))
    assert {fact.session for fact in told} == {SESSION}


def test_a_line_without_a_session_is_about_the_file_s() -> None:
    assert {fact.session for fact in read(answer(sessionId=None))} == {SESSION}
    assert {fact.session for fact in read(answer(sessionId=OTHER))} == {OTHER}


def test_copied_lines_tell_of_the_context_and_not_of_turns() -> None:
    copied: dict[str, Any] = {"forkedFrom": {"sessionId": OTHER, "messageUuid": "u0"}}
    records = (prompt(**TYPED, **copied), answer(**copied), line("system", subtype="compact_boundary", **copied))
    assert [type(fact) for fact in read(*records)] == [Usage]


HUGE = "x" * 150_000


@pytest.mark.parametrize(
    "record",
    [
        b'{"type":"api-request-shape","sessionId":"s","shape":' + b'"' + HUGE.encode(),
        b'{"type":"api-request-blob","sessionId":"s","blob":' + b'"' + HUGE.encode(),
        b'{"type":"api-request","body":' + b'"' + HUGE.encode(),
        b'{"parentUuid":"' + OTHER.encode() + b'","isSidechain":false,"attachment":{"type":"x","y":"' + HUGE.encode(),
    ],
    ids=["shape", "blob", "request", "attachment"],
)
def test_huge_lines_that_mean_nothing_are_not_even_parsed(record: bytes) -> None:
    """They are cut short, so that parsing would refuse them."""
    assert read(record) == []


def test_huge_lines_that_mean_something_are_read() -> None:
    assert read(prompt(HUGE, **TYPED)) == [TurnStarted(session=SESSION, frame_id="p1")]
    assert read(prompt([{"type": "tool_result", "content": [{"type": "text", "text": HUGE}]}])) == [
        Activity(session=SESSION)
    ]


def test_the_words_of_a_prompt_do_not_make_it_an_attachment() -> None:
    assert read(line("user", promptId="p1", message={"content": '{"attachment":{'}, **TYPED)) == [
        TurnStarted(session=SESSION, frame_id="p1")
    ]


@pytest.mark.parametrize("scenario", ["print_sigterm"])
def test_a_killed_run_leaves_its_turn_open(scenario: str) -> None:
    (path,) = CAPTURES.glob(f"claude/{scenario}/projects/*/*.jsonl")
    kinds = {type(fact) for fact in facts_of("claude", str(path), records_of(path))}
    assert TurnEnded not in kinds
