"""Sessions of steps that are compacted on request: what is possible, and a harness that does it, in a whole broker."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from uuid import uuid4

import anyio.to_thread
import pytest
from msgspec import structs

import lifebus
from lifebus_adapters.shared.compaction import CompactionReport
from lifebus_contract import CapabilityRefused, InvalidRequest, LifebusError, StateConflict
from lifebus_contract.flows import HarnessPrompt, Outcome, OutcomeKind, StepDefinition, StepVerdict
from lifebus_contract.runs import CompactionEnd, RunInfo
from lifebus_supervisor.runtime.limits.compaction import compaction_job, why_not_compacted
from lifebus_supervisor.runtime.prompts import resolve_prompts
from lifebus_supervisor.runtime.rules.run_reducer import reduce_run
from lifebus_supervisor.runtime.run_records import BROKER, RunAttached, RunRecord, RunSubmitted, TryEnded, TryStarted
from lifebus_supervisor.runtime.run_state import RunState
from support.flows import flow, step
from support.imitation_claude import ImitationClaude
from support.integration.following import until as until_true
from support.leftovers import marked
from support.patience import PATIENCE_S
from support.running import connected, running_bus

FIRST = "0192f0c1-7a55-4610-8755-000000000001"
SECOND = "0192f0c1-7a55-4610-8755-000000000002"


def asking(name: str, *needs: str, adapter_id: str = "claude", arguments: tuple[str, ...] = ()) -> StepDefinition:
    prompt = HarnessPrompt(adapter_id=adapter_id, text="Do it.", arguments=arguments)
    return step(name, *needs, command=None, prompt=prompt, max_retries=0)


# What is possible


def started(name: str, number: int) -> RunRecord:
    return TryStarted(at_ms=number, step=name, number=number)


def ended(name: str, number: int, session: tuple[str, str] | None, *, retried: bool = False) -> RunRecord:
    verdict = StepVerdict.RETRY if retried else StepVerdict.PROCEED
    outcome = Outcome(kind=OutcomeKind.EXITED, code=int(retried))
    due = number if retried else None
    return TryEnded(
        at_ms=number, step=name, number=number, outcome=outcome, verdict=verdict, session=session, retry_at_ms=due
    )


def state(*records: RunRecord, steps: tuple[StepDefinition, ...], owner: str = BROKER) -> RunState:
    submitted = RunSubmitted(at_ms=0, definition=resolve_prompts(flow("/", *steps)), by="me")
    return reduce_run("r", [submitted, RunAttached(at_ms=0, owner=owner, by="me"), *records])


def test_the_session_is_that_of_the_newest_try_that_had_one() -> None:
    steps = (asking("a", adapter_id="claude-code"),)
    first, second = ("claude", FIRST), ("claude", SECOND)
    once = [started("a", 1), ended("a", 1, first, retried=True)]
    assert compaction_job(state(*once, steps=steps), "a").session == first
    assert compaction_job(state(*once, started("a", 2), ended("a", 2, second), steps=steps), "a").session == second
    assert compaction_job(state(*once, started("a", 2), ended("a", 2, None), steps=steps), "a").session == first


def code_of(found: RunState, step_id: str = "a") -> str | None:
    with pytest.raises(LifebusError) as refused:
        compaction_job(found, step_id)
    return refused.value.code


def test_what_cannot_be_compacted_is_refused_with_the_reason() -> None:
    done = [started("a", 1), ended("a", 1, ("claude", FIRST))]
    one = (asking("a"),)
    assert code_of(state(*done, steps=one), "b") == "no_step"
    assert code_of(state(steps=one)) == "no_harness_session"
    assert code_of(state(started("a", 1), ended("a", 1, None), steps=one)) == "no_harness_session"
    for strange in ("--help", "x\ny"):  # it stands in a command
        assert code_of(state(started("a", 1), ended("a", 1, ("claude", strange)), steps=one)) == "no_harness_session"
    assert code_of(state(started("a", 1), steps=one)) == "session_in_use"
    assert code_of(state(*done, steps=one, owner="me")) == "compaction_unsupported"
    assert code_of(state(*done, steps=(step("a"),))) == "compaction_unsupported"
    two = (asking("a"), asking("b", "a", arguments=("--resume", FIRST)))
    assert code_of(state(*done, started("b", 1), steps=two)) == "session_in_use"
    elsewhere = (asking("a"), asking("b", "a", arguments=("--resume", SECOND)))
    assert compaction_job(state(*done, started("b", 1), steps=elsewhere), "a").session == ("claude", FIRST)


@pytest.mark.parametrize("adapter_id", ["codex", "gemini", "opencode", "hermes", "openclaw"])
def test_a_harness_that_compacts_nothing_on_request_is_said_to_be_so(adapter_id: str) -> None:
    done = [started("a", 1), ended("a", 1, (adapter_id, FIRST))]
    with pytest.raises(CapabilityRefused, match=r"context\.compacted") as refused:
        compaction_job(state(*done, steps=(asking("a", adapter_id=adapter_id),)), "a")
    assert refused.value.code == "compaction_unsupported"


def test_a_compaction_of_another_session_is_none() -> None:
    job = compaction_job(state(started("a", 1), ended("a", 1, ("claude", FIRST)), steps=(asking("a"),)), "a")

    def why(report: CompactionReport, kind: OutcomeKind = OutcomeKind.EXITED, tail: str = "") -> str:
        return why_not_compacted(job, Outcome(kind=kind, code=0), report, tail)

    assert why(CompactionReport(session_id=FIRST, compacted=True)) == ""
    assert "another session" in why(CompactionReport(session_id=SECOND, compacted=True))
    assert why(CompactionReport(session_id=FIRST, message="too short")) == "too short"
    assert why(CompactionReport(), tail="no key") == "the harness ended with 0 and did not compact: no key"
    assert "time limit" in why(CompactionReport(), OutcomeKind.TIMED_OUT)


# In a broker


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ImitationClaude:
    folder = tmp_path / "claude"
    folder.mkdir()
    made = ImitationClaude(folder)
    for name, value in made.variables.items():
        monkeypatch.setenv(name, value)
    return made


@asynccontextmanager
async def bus() -> AsyncGenerator[lifebus.Bus]:
    async with running_bus(whole=True) as daemon, connected(daemon) as client:
        yield client


async def over(client: lifebus.Bus, root: Path, *steps: StepDefinition) -> RunInfo:
    """Run steps to their end."""
    run = await client.flows.submit(flow(root, *steps))
    async with asyncio.timeout(PATIENCE_S):
        while not run.status.is_over:
            run = await client.flows.wait(run.run_id, run.number)
    return run


async def test_the_session_of_a_phase_that_is_over_is_compacted_as_it_was_run(
    tmp_path: Path, claude: ImitationClaude
) -> None:
    claude.answers("a", FIRST)
    (tmp_path / "below").mkdir()
    definition = asking("a", arguments=("--session-id", FIRST, "--settings", "s.json"))
    async with bus() as client:
        run = await over(client, tmp_path, structs.replace(definition, cwd="below"))
        before = await client.flows.costs(run.run_id)
        end = await client.flows.compact(run.run_id, "a", "keep the plan")
        assert end == CompactionEnd(
            session=("claude", FIRST),
            compacted=True,
            tokens_before=150_012,
            tokens_after=2_597,
            duration_ms=end.duration_ms,
        )
        seen = claude.seen("compact", "a")
        assert seen is not None
        assert seen[0] == str(tmp_path / "below")
        assert seen[-5:] == ["--settings", "s.json", f"--resume={FIRST}", "--", "/compact keep the plan"]
        assert "--session-id" not in seen
        # What the summary took is counted, once for each time.
        after = await client.flows.costs(run.run_id)
        assert (after.input_tokens - before.input_tokens, after.output_tokens - before.output_tokens) == (300_000, 24)
        assert after.cost_micros > before.cost_micros
        assert after.unpriced_calls == before.unpriced_calls
        event = (await client.flows.events(run.run_id))[-1]
        assert (event.event, event.step_id) == ("lifebus.context_compacted", "a")
        assert (event.data["tokens_before"], event.data["tokens_after"]) == (150_012, 2_597)


async def test_a_harness_that_does_not_compact_is_no_success_and_leaves_no_event(
    tmp_path: Path, claude: ImitationClaude
) -> None:
    claude.answers("a", FIRST)
    async with bus() as client:
        run = await over(client, tmp_path, asking("a"))
        for case, reason in (("not_compacted", "Not enough messages to compact."), ("ok", "ended with 0")):
            claude.says("compact", "a", case)
            end = await client.flows.compact(run.run_id, "a")
            assert (end.compacted, end.tokens_before, end.tokens_after) == (False, None, None)
            assert reason in end.reason
        claude.says("compact", "a", "compacted")  # of the recorded session, which is another one
        end = await client.flows.compact(run.run_id, "a")
        assert not end.compacted
        assert "another session" in end.reason
        events = [one.event for one in await client.flows.events(run.run_id)]
        assert "lifebus.context_compacted" not in events


async def test_a_harness_that_hangs_is_ended_by_the_time_limit(
    tmp_path: Path, claude: ImitationClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_MARK", mark := uuid4().hex)
    claude.answers("a", FIRST)
    claude.hold("compact", "a")
    async with bus() as client:
        run = await over(client, tmp_path, asking("a"))
        end = await client.flows.compact(run.run_id, "a", seconds=0.2)
        assert (end.compacted, end.reason) == (False, "it was not done within its time limit")
        assert marked(mark) == []


async def test_one_at_a_time_and_a_broker_that_stops_leaves_no_harness_behind(
    tmp_path: Path, claude: ImitationClaude, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_MARK", mark := uuid4().hex)
    claude.answers("a", FIRST)
    claude.hold("compact", "a")
    async with bus() as client:
        run = await over(client, tmp_path, asking("a"))
        first = asyncio.create_task(client.flows.compact(run.run_id, "a"))
        await until_true(lambda: claude.seen("compact", "a") is not None)
        with pytest.raises(StateConflict) as refused:
            await client.flows.compact(run.run_id, "a")
        assert refused.value.code == "compacting"
        await anyio.to_thread.run_sync(claude.let_go, "compact", "a")
        assert (await first).compacted
        again = asyncio.create_task(client.flows.compact(run.run_id, "a"))
        await until_true(lambda: bool(marked(mark)))
    with pytest.raises(LifebusError):
        await again
    await until_true(lambda: not marked(mark))


async def test_a_session_that_a_try_has_is_left_alone_until_it_ends(tmp_path: Path, claude: ImitationClaude) -> None:
    claude.answers("a", FIRST)
    claude.answers("b", FIRST)
    claude.hold("prompt", "b")
    steps = (asking("a"), asking("b", "a", arguments=("--resume", FIRST)))
    async with bus() as client:
        run = await client.flows.submit(flow(tmp_path, *steps))
        await until_true(lambda: claude.seen("prompt", "b") is not None)
        for name in ("a", "b"):
            with pytest.raises(StateConflict) as refused:
                await client.flows.compact(run.run_id, name)
            assert refused.value.code == "session_in_use"
        assert claude.seen("compact", "a") is None
        await anyio.to_thread.run_sync(claude.let_go, "prompt", "b")
        async with asyncio.timeout(PATIENCE_S):
            while not run.status.is_over:
                run = await client.flows.wait(run.run_id, run.number)
        assert (await client.flows.compact(run.run_id, "a")).compacted


async def test_instructions_are_one_line_and_bounded(tmp_path: Path) -> None:
    async with bus() as client:
        for wrong in ("a\nb", "x" * 2_049):
            with pytest.raises((InvalidRequest, ValueError)):
                await client.flows.compact("r", "a", wrong)
        with pytest.raises(InvalidRequest, match="run"):
            await client.flows.compact("r", "a", "x" * 2_048)
