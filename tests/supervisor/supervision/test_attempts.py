"""A turn that its file shows at work, and one that makes several attempts, is one frame (OpenClaw, Codex)."""

from pathlib import Path
from typing import Any

from lifebus_adapters.shared.telemetry import TurnEnded, TurnStarted
from lifebus_contract import Receipt
from support.supervisor.supervised import HARNESS, SupervisedBus, supervised

S, RUN = "s1", "run-1"


async def hook(rig: SupervisedBus, name: str, run: str = RUN, **event: Any) -> list[Receipt]:
    return await rig.hook("openclaw", {"hook": name, "event": event, "ctx": {"sessionId": S, "runId": run}})


def codex(hook_name: str) -> dict[str, str]:
    return {"hook_event_name": hook_name, "session_id": S, "turn_id": "t1"}


def lines(receipts: list[Receipt]) -> list[str]:
    """Each receipt of a frame in a few words."""
    shown = []
    for receipt in receipts:
        facts = receipt.telemetry_summary
        said = facts.get("frame_end") or facts.get("announced_end") or ("continues" if facts.get("continues") else "")
        if receipt.event.startswith("frame."):
            shown.append(f"{facts['frame_id']} {receipt.event.value} {said}".rstrip())
    return shown


def starts(rig: SupervisedBus) -> None:
    rig.news("openclaw", S, TurnStarted(session=S, frame_id=RUN, reports_end=True), source_id="database")


def ends(rig: SupervisedBus, how: str) -> None:
    rig.news("openclaw", S, TurnEnded(session=S, frame_id=RUN, frame_end=how), source_id="database")


async def test_a_run_whose_requests_fail_again_and_again_is_one_frame_that_failed(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        for _ in range(3):
            await hook(rig, "before_prompt_build")
            starts(rig)
            await hook(rig, "agent_end", success=True)
            await rig.tick(10)
        ends(rig, "failed")
        rig.dead.add(HARNESS)
        await rig.tick(4)
        found = await rig.since(0)
        again = [f"{RUN} frame.opening continues", f"{RUN} frame.opened continues", f"{RUN} frame.ending completed"]
        first = [f"{RUN} frame.opening", f"{RUN} frame.opened", f"{RUN} frame.ending completed"]
        assert lines(found) == [*first, *again, *again, f"{RUN} frame.ended failed"]
        assert found[-1].telemetry_summary["session_end"] == "process_gone"


async def test_a_refused_end_is_announced_again_and_said_once(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await hook(rig, "before_prompt_build")
        starts(rig)
        assert lines(await hook(rig, "before_agent_finalize")) == [f"{RUN} frame.ending completed"]
        assert len(lines(await hook(rig, "before_prompt_build"))) == 2
        assert lines(await hook(rig, "before_agent_finalize")) == [f"{RUN} frame.ending completed"]
        assert await hook(rig, "agent_end", success=True) == []
        ends(rig, "completed")
        assert lines(await rig.tick()) == [f"{RUN} frame.ended completed"]
        assert lines(await hook(rig, "agent_end", success=True)) == []


async def test_another_word_for_the_same_stop_is_said_and_the_database_has_the_last_one(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await hook(rig, "before_prompt_build")
        await hook(rig, "before_agent_finalize")
        (said,) = await hook(rig, "agent_end", success=False)
        assert lines([said]) == [f"{RUN} frame.ending failed"]
        assert said.telemetry_summary["announced_ends"] == 1
        ends(rig, "interrupted")
        assert lines(await rig.tick()) == [f"{RUN} frame.ended interrupted"]


async def test_an_end_that_a_hook_repeats_waits_for_the_settle_time_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await hook(rig, "before_prompt_build")
        await hook(rig, "before_agent_finalize")
        rig.clock.seconds += 0.8
        await hook(rig, "agent_end", success=True)
        rig.clock.seconds += 0.8
        assert lines(await rig.observe()) == []
        rig.clock.seconds += 0.3
        assert lines(await rig.observe()) == [f"{RUN} frame.ended completed"]


async def test_a_run_that_is_killed_in_a_further_attempt_is_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await hook(rig, "before_prompt_build")
        await hook(rig, "before_agent_finalize")
        await hook(rig, "before_prompt_build")
        rig.dead.add(HARNESS)
        assert lines(await rig.tick(4)) == [f"{RUN} frame.ended abandoned"]


async def test_another_run_settles_the_announced_end_of_the_one_before(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await hook(rig, "before_prompt_build")
        await hook(rig, "before_agent_finalize")
        found = lines(await hook(rig, "before_prompt_build", "run-2"))
        assert found == [f"{RUN} frame.ended completed", "run-2 frame.opening", "run-2 frame.opened"]


async def test_silence_does_not_settle_the_end_of_a_turn_that_its_file_shows_at_work(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", codex("UserPromptSubmit"))
        rig.news("codex", S, TurnStarted(session=S, frame_id="t1", reports_end=True))
        await rig.hook("codex", codex("Stop"))
        assert lines(await rig.tick(10)) == []
        await rig.hook("codex", codex("Stop"))
        rig.news("codex", S, TurnEnded(session=S, frame_id="t1"))
        assert lines(await rig.tick()) == ["t1 frame.ended completed"]


async def test_a_file_that_never_shows_the_announced_end_of_its_turn_is_not_waited_for_without_end(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", codex("UserPromptSubmit"))
        rig.news("codex", S, TurnStarted(session=S, frame_id="t1", reports_end=True))
        await rig.hook("codex", codex("Stop"))
        await rig.observe()
        rig.clock.seconds += 59
        assert lines(await rig.observe()) == []
        rig.clock.seconds += 2
        assert lines(await rig.observe()) == ["t1 frame.ended completed"]


async def test_a_turn_that_is_killed_while_its_file_shows_it_at_work_has_not_ended_as_announced(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("codex", codex("UserPromptSubmit"))
        rig.news("codex", S, TurnStarted(session=S, frame_id="t1", reports_end=True))
        await rig.hook("codex", codex("Stop"))
        rig.dead.add(HARNESS)
        found = await rig.tick(4)
        assert lines(found) == ["t1 frame.ended abandoned"]
        assert found[-1].telemetry_summary["session_end"] == "abandoned"


async def test_a_turn_whose_prompt_the_file_takes_back_failed_though_its_process_is_gone(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await rig.hook("gemini", {"hook_event_name": "SessionStart", "session_id": S, "source": "startup"})
        await rig.hook("gemini", {"hook_event_name": "BeforeAgent", "session_id": S})
        rig.news("gemini", S, TurnStarted(session=S), source_id="chats")
        rig.news("gemini", S, TurnEnded(session=S, frame_end="failed"), source_id="chats")
        rig.dead.add(HARNESS)
        found = await rig.tick(4)
        assert lines(found) == ["turn-1 frame.ended failed"]
        assert found[-1].telemetry_summary["session_end"] == "process_gone"
