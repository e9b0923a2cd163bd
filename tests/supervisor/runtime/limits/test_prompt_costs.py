"""What prompts have cost, by the files that the real programs wrote and by files as they write them."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lifebus_adapters import ADAPTERS
from lifebus_adapters.claude.model_calls import TranscriptCalls
from lifebus_adapters.shared.one_shot import OneShotReport, TokenUse
from lifebus_contract.runs import CostRecord, CostSummary
from lifebus_supervisor.runtime.limits import prompt_costs
from lifebus_supervisor.runtime.limits.costs import CostBook
from lifebus_supervisor.runtime.limits.prompt_costs import costs_of_prompt, find_calls

CAPTURES = Path(__file__).parents[3] / "data" / "captures"
SESSION = "0000005d-bea4-466e-8c76-7d5ecc6f0a59"
BEFORE_MS = 1_700_000_000_000
NOTHING = OneShotReport()


def summary(records: tuple[CostRecord, ...]) -> CostSummary:
    book = CostBook()
    for one in records:
        book = book.counted(one)
    return book.summary()


async def costs(adapter: str, session: str, home: Path, report: OneShotReport = NOTHING, since: int = BEFORE_MS) -> Any:
    environment = {"HOME": str(home)}
    return await costs_of_prompt("run_1", "a", 1, since, (adapter, session), report, environment)


def claude_home(home: Path, *scenarios: str) -> Path:
    for scenario in scenarios:
        shutil.copytree(CAPTURES / "claude" / scenario / "projects", home / ".claude/projects", dirs_exist_ok=True)
    return home


def answer(message: str, request: str | None, output: int, at: str = "2026-11-21T21:00:00Z") -> str:
    usage = {
        "input_tokens": 10,
        "cache_read_input_tokens": 5,
        "cache_creation_input_tokens": 2,
        "output_tokens": output,
    }
    line = {
        "type": "assistant",
        "timestamp": at,
        "message": {"id": message, "model": "claude-opus-5-5", "usage": usage},
    }
    return json.dumps(line | ({"requestId": request} if request else {}))


async def test_a_real_transcript_is_counted_response_by_response(tmp_path: Path) -> None:
    found = summary(await costs("claude", SESSION, claude_home(tmp_path, "print_tool_call")))
    # By hand, from the two responses in the file; the cache is a part of what was sent.
    assert (found.calls, found.output_tokens) == (2, 24)
    assert (found.input_tokens, found.cache_read_tokens) == (6233 * 2 + 6262 * 2, 6233 + 6262)


@pytest.mark.parametrize(
    ("scenario", "session", "calls", "tokens"),
    [
        ("exec_tool_call", "00000001-36de-73b3-8496-437b45f9bcb2", 2, 19_918),
        # Repeats and the estimate after a compaction are no calls: the last sum of the file has them all.
        ("exec_three_turns_auto_compaction", "0000000b-b50b-70a5-873f-cddb668c29d4", 6, 59_129),
    ],
)
async def test_a_real_rollout_comes_to_its_own_total(
    tmp_path: Path, scenario: str, session: str, calls: int, tokens: int
) -> None:
    day = tmp_path / ".codex/sessions/2026/11/21"
    shutil.copytree(CAPTURES / "codex" / scenario / "sessions", day)
    found = summary(await costs("codex", session, tmp_path))
    assert (found.calls, found.input_tokens + found.output_tokens) == (calls, tokens)


async def test_a_response_in_several_lines_and_files_counts_once_as_it_was_last(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/p"
    (project / "s1/subagents").mkdir(parents=True)
    (project / "s1.jsonl").write_text("\n".join([answer("m1", "r1", 1), answer("m1", "r1", 8), answer("m2", None, 4)]))
    (project / "s1/subagents/agent-x.jsonl").write_text(
        answer("m1", "r1", 3) + "\n" + answer("m3", "r1", 2) + "\n{torn"
    )
    found = summary(await costs("claude", "s1", tmp_path))
    assert (found.calls, found.output_tokens, found.input_tokens) == (3, 14, 51)


async def test_calls_from_before_the_try_are_those_of_another_session(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/p"
    project.mkdir(parents=True)
    lines = [answer("m1", "r1", 1, "2026-11-21T20:59:59Z"), answer("m2", "r2", 4), answer("m3", "r3", 7, "no time")]
    (project / "s1.jsonl").write_text("\n".join(lines))
    found = summary(await costs("claude", "s1", tmp_path, since=1_795_294_800_000))  # 2026-11-21T21:00:00Z
    assert (found.calls, found.output_tokens) == (2, 11)


async def test_without_files_the_sum_counts_that_the_harness_says(tmp_path: Path) -> None:
    said = OneShotReport(model="x", calls=3, tokens=TokenUse(input_tokens=50, output_tokens=5), cost_micros=70)
    for _ in range(2):
        (one,) = await costs("gemini", "s1", tmp_path, said)
        assert (one.calls, one.input_tokens, one.cost_micros, one.key) == (3, 50, 70, "report:gemini:a#1")
    assert await costs("gemini", "s1", tmp_path) == ()


@pytest.mark.parametrize("kept", [None, 3])
async def test_tries_that_share_a_session_count_each_for_its_own_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int | None
) -> None:
    tries = [("a", 1), ("a", 2), ("b", 1)]
    environment = {"HOME": str(tmp_path)}
    records: list[CostRecord] = []
    if kept is None:
        said = OneShotReport(calls=2, tokens=TokenUse(input_tokens=50, output_tokens=5), cost_micros=70)
        for step, number in tries:
            records += await costs_of_prompt("run_1", step, number, BEFORE_MS, ("gemini", "s1"), said, environment)
        found = summary(tuple(records))
        assert (found.calls, found.input_tokens, found.cost_micros) == (6, 150, 210)
        assert {step: one.input_tokens for step, one in found.by_step.items()} == {"a": 100, "b": 50}
        return
    monkeypatch.setattr(prompt_costs, "MAX_CALLS", kept)
    project = tmp_path / ".claude/projects/p"
    project.mkdir(parents=True)
    for place, (step, number) in enumerate(tries):
        at = f"2026-11-21T21:0{place}:00Z"
        with (project / "s1.jsonl").open("a") as file:
            file.writelines(answer(f"m{place}.{n}", None, 1, at) + "\n" for n in range(10))
        since_ms = 1_795_294_800_000 + place * 60_000
        records += await costs_of_prompt("run_1", step, number, since_ms, ("claude", "s1"), NOTHING, environment)
    found = summary(tuple(records))
    assert (found.calls, found.output_tokens) == (30, 30)


async def test_of_the_sum_of_a_session_that_goes_on_the_part_of_the_try_counts(tmp_path: Path) -> None:
    """Three runs of `codex exec` in one session: the last one made one call, and says what all have used."""
    day = tmp_path / ".codex/sessions/2026/11/21"
    shutil.copytree(CAPTURES / "codex/exec_three_turns_auto_compaction/sessions", day)
    mode = ADAPTERS["codex"].one_shot
    assert mode is not None
    said = mode.read((CAPTURES.parent / "one_shot/codex.resumed.out").read_bytes(), b"")
    assert said.tokens is not None
    assert said.tokens.input_tokens == 59_057
    session = "0000000b-b50b-70a5-873f-cddb668c29d4"
    began_ms = 1_795_294_565_000  # 2026-11-21T20:56:05Z, between the second turn and the third
    found = summary(await costs("codex", session, tmp_path, said, began_ms))
    assert (found.calls, found.input_tokens, found.output_tokens) == (1, 3_000, 12)
    assert found.cache_read_tokens == 1_500
    # Where its file lacks the newest call, the sum has it all the same.
    (file,) = day.iterdir()
    file.write_text("".join(line for line in file.read_text().splitlines(True) if "20:56:05" not in line))
    found = summary(await costs("codex", session, tmp_path, said, began_ms))
    assert (found.calls, found.input_tokens, found.output_tokens) == (1, 3_000, 12)


async def test_the_sum_counts_where_files_show_less_or_have_no_price(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = claude_home(tmp_path, "print_tool_call")
    more = OneShotReport(calls=9, tokens=TokenUse(input_tokens=90_000))
    assert [one.calls for one in await costs("claude", SESSION, home, more)] == [9]
    estimated = OneShotReport(calls=2, tokens=TokenUse(input_tokens=100), cost_micros=1_234)
    monkeypatch.setitem(__import__("sys").modules, "genai_prices", None)
    assert [one.cost_micros for one in await costs("claude", SESSION, home, estimated)] == [1_234]


async def test_of_very_many_calls_the_oldest_are_one_sum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prompt_costs, "MAX_CALLS", 3)
    project = tmp_path / ".claude/projects/p"
    project.mkdir(parents=True)
    (project / "s1.jsonl").write_text("\n".join(answer(f"m{n}", None, n) for n in range(10)))
    records = await costs("claude", "s1", tmp_path)
    found = summary(records)
    assert len(records) == 4
    assert (found.calls, found.output_tokens, found.input_tokens) == (10, 45, 170)


def test_a_link_in_the_place_of_a_file_is_not_followed(tmp_path: Path) -> None:
    project = tmp_path / ".claude/projects/p"
    project.mkdir(parents=True)
    (tmp_path / "other").write_text(answer("m1", "r1", 1))
    (project / "s1.jsonl").symlink_to(tmp_path / "other")
    assert find_calls("claude", "s1", {"HOME": str(tmp_path)}) == []
    assert find_calls("claude", "../p/s1", {"HOME": str(tmp_path)}) == []


LINES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["r", "q", None]), st.integers(0, 99), st.integers(0, 2)),
    max_size=30,
)


@given(LINES)
@settings(deadline=None)
def test_however_lines_are_spread_each_response_counts_once(lines: list[tuple[str, str | None, int, int]]) -> None:
    files: list[list[str]] = [[], [], []]
    last: dict[tuple[str, str | None], int] = {}
    for message, request, output, place in sorted(lines, key=lambda line: line[3]):
        files[place].append(answer(message, request, output))
        last[message, request] = output
    book = CostBook()
    for file in files:
        reader = TranscriptCalls()
        for line in file:
            for call in reader.read(line.encode()):
                record = CostRecord(run_id="r", step_id="a", key=call.key, output_tokens=call.output_tokens)
                book = book.counted(record)
    assert (book.total.calls, book.total.output_tokens) == (len(last), sum(last.values()))
