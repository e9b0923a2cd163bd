"""OpenClaw's databases and plugin calls: window, usage, runs and compactions, and what only looks like an end."""

import json
from typing import Any

import pytest

from lifebus_adapters import ADAPTERS, HookReading
from lifebus_adapters.shared.telemetry import (
    Activity,
    Compacted,
    Fact,
    Surroundings,
    TurnEnded,
    TurnStarted,
    Usage,
    WindowKnown,
)
from lifebus_contract import InvalidRequest
from support.adapters.calls import call, ids
from support.adapters.other_telemetry import Store, source
from support.adapters.telemetry_facts import HOME

S, RUN = "s1", "0000038d-4754-4494-871f-75040a6a11ea"
CALL = {"input": 16_031, "output": 12, "cacheRead": 16_030, "cacheWrite": 0, "totalTokens": 32_073}


def opened(*entries: Any) -> Store:
    made = Store("openclaw")
    made.poll()
    add(made, *entries)
    return made


def add(made: Store, *entries: Any) -> None:
    (at,) = made.connection.execute("SELECT count(*) FROM transcript_events").fetchone()
    for seq, entry in enumerate(entries, at):
        text = entry if isinstance(entry, str | None) else json.dumps(entry)
        made.insert("transcript_events", session_id=S, seq=seq, event_json=text, created_at=1)


def step(made: Store, kind: str, run: str | None = RUN, **data: Any) -> None:
    (seq,) = made.connection.execute("SELECT count(*) FROM trajectory_runtime_events").fetchone()
    text = json.dumps({"type": kind, "data": data})
    made.insert("trajectory_runtime_events", session_id=S, seq=seq, run_id=run, event_json=text)


def answer(**more: Any) -> dict[str, Any]:
    return {"type": "message", "id": "a", "message": {"role": "assistant", "model": "m", "usage": CALL} | more}


@pytest.mark.parametrize(
    ("environ", "root"),
    [
        ({}, f"{HOME}/.openclaw/agents"),
        ({"OPENCLAW_HOME": "/o"}, "/o/.openclaw/agents"),
        ({"OPENCLAW_HOME": "/o", "OPENCLAW_STATE_DIR": "/s"}, "/s/agents"),
    ],
)
def test_every_agent_has_a_database_below_the_state_folder(environ: dict[str, str], root: str) -> None:
    assert list(source("openclaw", "database").roots(Surroundings(home=HOME, environ=environ))) == [root]
    assert source("openclaw", "database").is_ours(f"{root}/main/agent/openclaw-agent.sqlite")
    assert not source("openclaw", "database").is_ours(f"{root}/main/openclaw-agent.sqlite")


# The database


def test_the_session_keeps_its_window() -> None:
    made = Store("openclaw")
    entry = json.dumps({"contextTokens": 120_000, "skillsSnapshot": {"prompt": "secret"}})
    made.insert("session_nodes", session_key="k", current_session_id=S, entry_json=entry, updated_at=5)
    known = WindowKnown(session=S, window_tokens=120_000, window_source="database:session_nodes.contextTokens")
    assert made.poll() == [known]
    assert made.poll() == []
    made.connection.execute("UPDATE session_nodes SET updated_at = 6")
    assert made.poll() == [known]


@pytest.mark.parametrize("entry", ["{}", '{"contextTokens": 0}', "{"])
def test_a_session_without_a_window_says_nothing(entry: str) -> None:
    made = Store("openclaw")
    made.insert("session_nodes", session_key="k", current_session_id=S, entry_json=entry, updated_at=5)
    assert made.poll() == []


def test_used_is_what_the_request_sent_in_its_three_parts() -> None:
    source_name = "database:transcript_events.usage.prompt"
    assert opened(answer()).poll() == [Usage(session=S, used_tokens=32_061, used_source=source_name, model="m")]


def test_prompts_and_settings_have_no_facts_and_tools_are_work() -> None:
    made = opened(
        {"type": "session", "id": S},
        {"type": "message", "message": {"role": "user", "content": "secret"}},
        {"type": "custom", "customType": "x"},
        {"type": "message", "message": {"role": "toolResult", "content": "secret"}},
        answer(usage=None),
    )
    assert made.poll() == [Activity(session=S)]


def test_a_compaction_entry_is_the_proof() -> None:
    entry = {"type": "compaction", "id": "c1", "summary": "secret", "tokensBefore": 90_000, "tokensAfter": 9_000}
    proof = Compacted(session=S, key="entry:c1", tokens_before=90_000, tokens_after=9_000)
    assert opened(entry).poll() == [proof]


def test_entries_that_were_packed_away_have_no_facts() -> None:
    assert opened(None, answer()).poll()[-1].session == S
    assert opened(None).poll() == []


def test_a_transcript_that_was_written_anew_is_read_on() -> None:
    made = opened(*(answer() for _ in range(5)))
    made.poll()
    made.connection.execute("DELETE FROM transcript_events")
    assert made.poll() == []
    add(made, answer())
    assert len(made.poll()) == 1


def test_a_run_is_a_turn_and_session_ended_ends_the_run_alone() -> None:
    made = opened()
    for name, data in (("session.started", {}), ("prompt.submitted", {"prompt": "secret"}), ("tool.call", {})):
        step(made, name, **data)
    assert made.poll() == [
        Activity(session=S),
        TurnStarted(session=S, frame_id=RUN, reports_end=True),
        Activity(session=S),
    ]
    step(made, "session.ended", status="success")
    evidence = "database:trajectory.session.ended.success"
    assert made.poll() == [TurnEnded(session=S, frame_id=RUN, evidence=evidence)]


@pytest.mark.parametrize(
    ("status", "end"),
    [("success", "completed"), ("interrupted", "interrupted"), ("cleanup", "interrupted"), ("error", "failed")],
)
def test_a_run_ends_as_its_status_says(status: str, end: str) -> None:
    made = opened()
    step(made, "session.ended", status=status)
    (fact,) = made.poll()
    assert isinstance(fact, TurnEnded)
    assert fact.frame_end == end


def test_a_run_whose_prompt_a_hook_refused_was_blocked_and_not_failed() -> None:
    made = opened()
    step(made, "session.started")
    step(made, "trace.metadata")
    step(made, "model.completed", promptErrorSource="hook:before_agent_run", promptError="secret")
    step(made, "session.ended", status="error", promptError="secret")
    step(made, "session.ended", run="another", status="error")
    *_, refused, failed = made.poll()
    evidence = "database:trajectory.promptErrorSource.hook:before_agent_run"
    assert refused == TurnEnded(session=S, frame_id=RUN, frame_end="blocked", evidence=evidence)
    assert isinstance(failed, TurnEnded)
    assert failed.frame_end == "failed"


def test_a_run_that_was_aborted_is_interrupted_though_its_end_was_never_written() -> None:
    made = opened()
    step(made, "prompt.submitted")
    step(made, "model.completed", aborted=True, externalAbort=True, promptErrorSource="prompt", stopReason="aborted")
    evidence = "database:trajectory.externalAbort"
    interrupted = TurnEnded(session=S, frame_id=RUN, frame_end="interrupted", evidence=evidence)
    assert made.poll()[-1] == interrupted


def test_a_run_that_asks_the_model_again_and_again_ends_once() -> None:
    made = opened()
    for _ in range(7):
        for name in ("session.started", "trace.metadata", "context.compiled", "prompt.submitted"):
            step(made, name)
        step(made, "model.completed", stopReason="error", promptErrorSource=None)
        step(made, "trace.artifacts", finalStatus="error", stopReason="error")
    step(made, "session.ended", status="error", stopReason="error")
    ends = [fact for fact in made.poll() if isinstance(fact, TurnEnded)]
    evidence = "database:trajectory.session.ended.error"
    assert ends == [TurnEnded(session=S, frame_id=RUN, frame_end="failed", evidence=evidence)]


def test_what_belongs_to_no_run_has_no_facts() -> None:
    made = opened()
    step(made, "session.ended", run=None, status="success")
    assert made.poll() == []


@pytest.mark.parametrize(
    "entry",
    [
        answer(usage={"input": -1}),
        answer(usage={"input": "1"}),
        answer(usage="x"),
        answer(model="x\x01"),
        {"type": "compaction"},
        {"type": "compaction", "id": "c", "tokensBefore": -5},
        {"type": 7},
    ],
)
def test_an_entry_of_another_form_is_refused_and_the_next_one_is_read(entry: Any) -> None:
    made = opened(entry, answer())
    with pytest.raises(InvalidRequest) as refused:
        made.poll()
    assert "secret" not in refused.value.detail
    assert len(made.poll()) == 1


# The plugin's calls


def read(hook: str, **event: Any) -> HookReading:
    payload = {"hook": hook, "event": event, "ctx": {"sessionId": S, "runId": RUN}}
    return ADAPTERS["openclaw"].read(call("openclaw", payload), ids())


def hook_facts(hook: str, **event: Any) -> tuple[Fact, ...]:
    return read(hook, **event).facts


def test_the_last_request_of_a_run_says_how_full_the_context_is() -> None:
    whole_run = {"input": 32_032, "output": 24, "cacheRead": 32_031, "total": 64_087}
    (fact,) = hook_facts(
        "llm_output", usage=whole_run, lastAssistant={"usage": CALL}, contextTokenBudget=60_000, model="m"
    )
    assert fact == Usage(
        session=S, used_tokens=32_061, used_source="hook:llm_output.lastAssistant.usage.prompt",
        window_tokens=60_000, window_source="hook:llm_output.contextTokenBudget", model="m",
    )  # fmt: skip


def test_the_sum_over_a_run_is_no_usage_but_its_window_is_known() -> None:
    (fact,) = hook_facts("llm_output", usage={"input": 32_032}, contextTokenBudget=60_000)
    expected = WindowKnown(session=S, window_tokens=60_000, window_source="hook:llm_output.contextTokenBudget")
    assert fact == expected


def test_an_output_without_counts_has_no_facts() -> None:
    assert hook_facts("llm_output", assistantTexts=["secret"]) == ()
    assert hook_facts("agent_end", success=True) == ()


@pytest.mark.parametrize("hook", ["before_compaction", "after_compaction"])
def test_a_compaction_has_the_tokens_around_it_where_they_are_known(hook: str) -> None:
    (fact,) = hook_facts(hook, tokenCount=9_000, compactedCount=3)
    assert isinstance(fact, Usage)
    assert (fact.used_tokens, fact.used_source) == (9_000, f"hook:{hook}.tokenCount")
    assert hook_facts(hook, compactedCount=3) == ()


@pytest.mark.parametrize(("compacted", "events"), [(3, 1), (0, 0), (None, 1)])
def test_a_compaction_that_changed_nothing_is_none(compacted: int | None, events: int) -> None:
    emissions = read("after_compaction", compactedCount=compacted).emissions
    assert [emission.request.event.value for emission in emissions] == ["context.compacted"] * events


@pytest.mark.parametrize("usage", [7, {"input": "x"}, {"cacheRead": -1}])
def test_counts_of_another_form_are_refused(usage: Any) -> None:
    with pytest.raises(InvalidRequest):
        hook_facts("llm_output", lastAssistant={"usage": usage})
