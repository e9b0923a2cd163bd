"""Sessions that go on after their end, or in another process, start again and end again."""

from pathlib import Path

import anyio
import anyio.lowlevel

from lifebus_adapters import CallerProcess
from lifebus_adapters.shared.telemetry import Compacted
from lifebus_contract import (
    CallbackResponse,
    DispatchEnvelope,
    LifecycleEvent,
)
from support.supervisor.supervised import HARNESS, facts_of, supervised
from support.supervisor.turns import END, SESSION, START, endings, prompt, running_turn, stop


async def test_a_session_whose_process_is_gone_with_nothing_open_was_not_abandoned(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(4)) == [("session.ended", None, "process_gone")]


async def test_a_plugin_that_called_once_before_it_was_killed_is_known_to_be_the_harness(tmp_path: Path) -> None:
    call = {"hook": "before_prompt_build", "event": {"runId": "r1"}, "ctx": {"runId": "r1", "sessionId": SESSION}}
    async with supervised(tmp_path) as rig:
        await rig.hook("openclaw", call)
        rig.dead.add(HARNESS)  # before a tick could see that it outlives its call
        assert endings(await rig.tick(4)) == [("frame.ended", "r1", "abandoned"), ("session.ended", None, "abandoned")]


async def test_a_sign_of_life_opens_an_ended_session_again_and_it_ends_again(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.tick(2)
        rig.dead.add(HARNESS)
        await rig.tick(4)
        another = CallerProcess(pid=5432, started="boot:200")
        recorded = await rig.hook("codex", prompt("t2"), process=another)
        assert facts_of(recorded) == ["session.starting", "session.started", "frame.opening", "frame.opened"]
        assert [one.telemetry_summary.get("resumed") for one in recorded] == [True, True, None, None]
        (head,) = await rig.bus.ledger.sessions()
        assert not head.ended
        await rig.hook("codex", stop("t2"), process=another)
        await rig.tick(2)
        rig.dead.add(another)
        assert endings(await rig.tick(4)) == [("session.ended", None, "process_gone")]


async def test_a_process_that_resumes_a_session_is_not_taken_for_another_one_at_its_next_hook(tmp_path: Path) -> None:
    another = CallerProcess(pid=5432, started="boot:200")
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        await rig.tick()
        rig.dead.add(HARNESS)
        recorded = await rig.hook("codex", START | {"source": "resume"}, process=another)
        recorded += await rig.hook("codex", prompt("t2"), process=another)
        assert facts_of(recorded) == ["session.starting", "session.started", "frame.opening", "frame.opened"]


async def test_a_session_that_starts_again_while_its_end_is_being_recorded_ends_once(tmp_path: Path) -> None:
    held = anyio.Event()

    async def hold(_: DispatchEnvelope) -> CallbackResponse:
        await held.wait()
        return CallbackResponse.ok()

    async with supervised(tmp_path) as rig, anyio.create_task_group() as tasks:
        await running_turn(rig)
        await rig.hook("codex", stop("t1"))
        await rig.hook("codex", END)
        rig.bus.register("slow", [LifecycleEvent.SESSION_ENDED], hold)
        tasks.start_soon(rig.supervisor.poll_early)
        while rig.bus.dispatches == 0:
            await anyio.lowlevel.checkpoint()
        tasks.start_soon(rig.hook, "codex", START | {"source": "resume"})
        held.set()
    async with supervised(tmp_path) as rig:
        ended = [one for one in await rig.since(0) if one.event == "session.ended"]
        assert len(ended) == 1


async def test_a_session_that_goes_on_in_another_process_before_its_end_was_seen_ended_first(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.dead.add(HARNESS)
        another = CallerProcess(pid=5432, started="boot:200")
        recorded = await rig.hook("codex", START | {"source": "resume"}, process=another)
        assert facts_of(recorded) == ["frame.ended", "session.ended", "session.starting", "session.started"]
        assert endings(recorded) == [("frame.ended", "t1", "abandoned"), ("session.ended", None, "abandoned")]


async def test_a_resumed_session_is_live_again_and_supervised(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        await rig.hook("codex", END)
        await rig.tick(8)
        assert len(rig.supervisor.monitors) == 0
        assert rig.files.forgotten == [("codex", SESSION)]
        await rig.hook("codex", START | {"source": "resume"})
        await rig.hook("codex", prompt("t2"))
        await rig.tick()
        rig.dead.add(HARNESS)
        assert endings(await rig.tick(3))[-1] == ("session.ended", None, "abandoned")


async def test_a_compaction_after_a_resume_is_recorded_also_where_the_session_was_forgotten_meanwhile(
    tmp_path: Path,
) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig)
        rig.news("codex", SESSION, Compacted(session=SESSION, key="1"))
        await rig.hook("codex", END)
        assert facts_of(await rig.tick(8)).count("context.compacted") == 1
        assert len(rig.supervisor.monitors) == 0
        await rig.hook("codex", START | {"source": "resume"})
        rig.news("codex", SESSION, Compacted(session=SESSION, key="2"))  # the file is read on, and not again
        assert facts_of(await rig.tick(4)) == ["context.compacted"]
        rig.news("codex", SESSION, *(Compacted(session=SESSION, key=key) for key in "12"), history=True)
        assert facts_of(await rig.tick(4)) == []


async def test_compactions_from_before_supervision_are_no_news_after_the_file_rested(tmp_path: Path) -> None:
    old = Compacted(session=SESSION, key="1")
    async with supervised(tmp_path) as rig:
        rig.news("codex", SESSION, old, history=True, grown=0)
        await rig.tick(2)
        (monitor,) = rig.supervisor.monitors
        rig.supervisor.monitors.drop(monitor)  # as after a quarter of an hour without news
        await rig.hook("codex", START | {"source": "resume"})
        rig.news("codex", SESSION, Compacted(session=SESSION, key="2"))
        assert facts_of(await rig.tick(4)) == ["context.compacted"]
    async with supervised(tmp_path) as rig:  # a broker that starts again reads the file again
        rig.news("codex", SESSION, old, Compacted(session=SESSION, key="2"), history=True, grown=0)
        await rig.hook("codex", prompt("t2"))
        assert facts_of(await rig.tick(4)) == []


async def test_a_clear_ends_one_session_and_starts_another_in_the_same_process(tmp_path: Path) -> None:
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        await rig.hook("claude", END | {"reason": "clear"})
        await rig.hook("claude", START | {"session_id": "s2", "source": "clear"})
        await rig.tick(2)
        heads = {head.harness_session_id: head.ended for head in await rig.bus.ledger.sessions()}
        assert heads == {"s1": True, "s2": False}


async def test_a_session_resumed_by_another_process_is_not_given_up_for_the_one_that_ended_it(tmp_path: Path) -> None:
    resumed = CallerProcess(pid=5432, started="boot:200")
    async with supervised(tmp_path) as rig:
        await running_turn(rig, "claude")
        await rig.hook("claude", stop("t1"))
        await rig.hook("claude", END)
        rig.dead.add(HARNESS)
        await rig.hook("claude", START | {"source": "resume"}, process=resumed)
        assert endings(await rig.tick(6)) == []
        rig.dead.add(resumed)
        assert endings(await rig.tick(3)) == [("session.ended", None, "process_gone")]
