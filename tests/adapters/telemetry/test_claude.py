"""Claude Code transcripts: where they are, how full the context is, and compactions."""

from typing import Any

import pytest

from lifebus_adapters import ADAPTERS
from lifebus_adapters.claude.telemetry import OVERRIDES
from lifebus_adapters.claude.windows import WINDOWS, window_of
from lifebus_adapters.shared.telemetry import Activity, Compacted, Surroundings, Usage
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, ids
from support.adapters.claude_lines import (
    MODEL,
    OTHER,
    PATH,
    SESSION,
    TYPED,
    USED,
    answer,
    boundary,
    line,
    prompt,
    read,
    usages,
)
from support.adapters.telemetry_facts import HOME, reader_of, source_of

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


def test_a_model_named_by_the_user_has_the_window() -> None:
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
def test_a_window_is_reported_by_a_name_that_is_known_exactly(model: str, window: int | None) -> None:
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
    """At Stop the file may lack the answer that was just given: the hook has no number, the file has it later."""
    stop = {"session_id": SESSION, "prompt_id": "p1", "hook_event_name": "Stop", "last_assistant_message": "…"}
    reader = reader_of("claude", PATH)
    before = [*reader.read(answer(usage={"input_tokens": 5}))]
    assert ADAPTERS["claude"].read(call("claude", stop), ids()).facts == ()
    after = [*reader.read(answer(usage={"input_tokens": 8}))]
    assert [fact.used_tokens for fact in before + after if isinstance(fact, Usage)] == [5, 8]


def test_what_claude_made_up_has_no_meaning() -> None:
    assert read(answer(model="<synthetic>")) == []
    assert read(answer(usage={"input_tokens": 0, "output_tokens": 0})) == [Activity(session=SESSION)]


def test_lines_of_sub_agents_have_no_facts() -> None:
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
