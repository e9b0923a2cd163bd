"""Claude Code transcripts: turns, interruptions, /clear, forks and huge lines."""

import pytest

from lifebus_adapters.shared.telemetry import Activity, TurnEnded, TurnStarted, Usage
from support.adapters.claude_lines import OTHER, SESSION, TYPED, answer, ends, line, prompt, read
from support.adapters.telemetry_facts import facts_of, records_of
from support.paths import CAPTURES


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


def test_esc_ends_the_turn_though_no_hook_says_so() -> None:
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
    found = read(prompt(session_id=OTHER, **TYPED), answer(session_id=OTHER))
    assert {fact.session for fact in found} == {SESSION}


def test_a_line_without_a_session_is_about_the_file_s() -> None:
    assert {fact.session for fact in read(answer(sessionId=None))} == {SESSION}
    assert {fact.session for fact in read(answer(sessionId=OTHER))} == {OTHER}


def queued(at: str) -> bytes:
    return line("queue-operation", operation="enqueue", timestamp=at)


EARLY, LATE = "2026-11-21T20:59:16.289Z", "2026-11-21T21:07:00.000Z"
ENDS = {
    "esc": prompt("…", interruptedMessageId="m", timestamp=EARLY),
    "duration": line("system", subtype="turn_duration", timestamp=EARLY),
    "error": answer(model="<synthetic>", isApiErrorMessage=True, requestSessionId=OTHER, timestamp=EARLY),
}


@pytest.mark.parametrize("ending", ENDS.values(), ids=ENDS)
@pytest.mark.parametrize("beginning", [queued(LATE), answer(requestSessionId=OTHER)], ids=["queued", "answered"])
def test_what_ended_before_a_fork_ends_nothing_in_it(beginning: bytes, ending: bytes) -> None:
    """The fork's lines all have the id of its own first prompt, which a hook has just opened."""
    copied = line("system", subtype="compact_boundary", compactMetadata={}, timestamp=EARLY)
    found = read(beginning, prompt(timestamp=EARLY, **TYPED), ending, copied, prompt("new", timestamp=LATE, **TYPED))
    assert [fact for fact in found if not isinstance(fact, Usage)] == [TurnStarted(session=SESSION, frame_id="p1")]


@pytest.mark.parametrize("between", [b'{"type":"api-request","id":"1"}', line("mode", mode="normal")])
def test_a_fork_s_own_turn_is_tied_to_its_end(between: bytes) -> None:
    own = answer(model="<synthetic>", isApiErrorMessage=True, timestamp=LATE)
    records = (queued(LATE), prompt(timestamp=EARLY, **TYPED), answer(requestSessionId=OTHER, timestamp=EARLY), between)
    assert [type(fact) for fact in read(*records, own)] == [TurnStarted, Usage, TurnEnded]


def test_a_session_that_is_resumed_and_not_forked_goes_on() -> None:
    records = (queued(EARLY), prompt(timestamp=EARLY, **TYPED), answer(timestamp=EARLY), queued(LATE))
    more = (prompt("again", "p2", timestamp=LATE, **TYPED), answer(timestamp=LATE, requestSessionId=SESSION))
    assert [type(fact) for fact in read(*records, *more)] == [TurnStarted, Activity, Usage] * 2


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


def test_an_attachment_inside_a_tool_s_result_does_not_hide_the_line() -> None:
    record = prompt([{"type": "tool_result", "content": "hi"}], toolUseResult={"attachment": {"type": "file"}})
    assert read(record) == [Activity(session=SESSION)]


def test_the_words_of_a_prompt_do_not_make_it_an_attachment() -> None:
    assert read(line("user", promptId="p1", message={"content": '{"attachment":{'}, **TYPED)) == [
        TurnStarted(session=SESSION, frame_id="p1")
    ]


@pytest.mark.parametrize("scenario", ["print_sigterm"])
def test_a_killed_run_leaves_its_turn_open(scenario: str) -> None:
    (path,) = CAPTURES.glob(f"claude/{scenario}/projects/*/*.jsonl")
    kinds = {type(fact) for fact in facts_of("claude", str(path), records_of(path))}
    assert TurnEnded not in kinds
