"""Jobs that are turns of workers, at an app-server behind `app-server tee`, whose client sees nothing of them."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_contract.jobs import Job, JobState, NewJob
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_supervisor.transcripts.session_marks import SessionKind
from support.broker_process import broker_process, until
from support.extensions.scene import write_extension
from support.integration.steering import Scene, app_server, lines_of, scene
from support.integration.workers import begun, instruction, job, turns_of
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, short_directory, until_answered

REVIEWER = """
    from lifebus.extensions import on

    @on("turn.completed")
    async def completed(event):
        return None
    """


def intents(*entries: dict[str, Any]) -> str:
    asked = [
        {
            "kind": "action_request",
            "actionType": "transcript.upsert",
            "payload": {
                "sessionId": "t1",
                "entry": {"turnId": "u1", "role": "system", "type": "note", "status": "complete", **entry},
            },
        }
        for entry in entries
    ]
    return json.dumps({"kind": "action_intents", "intents": asked})


async def done(bus: lifebus.Bus, new: NewJob) -> Job:
    async with asyncio.timeout(PATIENCE_S):
        return await bus.jobs.wait((await bus.jobs.enqueue(new)).job.id)


async def ready(at: Scene) -> None:
    """The observer knows the client's thread, and that a turn runs in it."""
    await at.client.begin("work")
    assert (await at.steered("u1", "go on")).state == "done"


async def events_of(bus: lifebus.Bus, job_id: str, last: str) -> list[dict[str, Any]]:
    """Return what was told of a job, up to an event."""
    found: list[dict[str, Any]] = []
    async with asyncio.timeout(PATIENCE_S):
        async for one in bus.signals(adapter="lifebus", thread="queue/p1", since="start"):
            payload = one.envelope["payload"]
            if payload.get("jobId") == job_id:
                found.append({"type": one.envelope["type"], **payload})
                if one.envelope["type"] == f"orchestrator_job_{last}":
                    break
    return found


async def test_a_worker_has_a_turn_of_which_nobody_else_sees_anything_and_its_intents_are_done(tmp_path: Path) -> None:
    write_extension(tmp_path / "agents", "reviewer", REVIEWER)
    extensions = ExtensionSettings(roots=(str(tmp_path / "agents"),))
    async with scene(extensions=extensions) as at, connected(at.daemon) as bus:
        await ready(at)
        await until(lambda: bool(sessions_of(at.daemon).extensions.current.modules))
        notes = {"m1": "looks good", "m2": "tests are missing"}
        answer = intents(*({"messageId": name, "content": text} for name, text in notes.items()))
        first = await done(bus, job(f"say {answer}", expects="action_intents"))
        assert (first.state, first.error) == (JobState.COMPLETED, None)
        assert [one["status"] for one in first.result["actionResults"]] == ["performed", "performed"]
        assert (first.running_context.thread_id, first.running_context.turn_id) == ("t2", "u2")
        said = {one.message_id: one.content for one in await bus.transcripts.entries("t1")}
        assert {name: said[name] for name in notes} == notes
        assert said[f"agent-job-output::{first.id}"] == "2 performed"
        told = await events_of(bus, first.id, "completed")
        stages = [one["progress"]["stage"] for one in told if one["type"] == "orchestrator_job_progress"]
        assert stages[0] == "worker_turn"
        assert stages[-2:] == ["action_intent", "action_intent"]
        # The same worker, in the thread that it has.
        second = await done(bus, job("say well done", jobKind="praise"))
        assert second.result == {"status": "ok", "outputText": "well done"}
        assert turns_of(at.read_by_server()) == ["turn/start", "turn/start"]
        (opened,) = [one for one in at.read_by_server() if one.get("method") == "thread/start" and one["id"] != 2]
        assert opened["params"] == {
            "ephemeral": True,
            "approvalPolicy": "never",
            "sandbox": "read-only",
            "cwd": "/srv/shop",
        }
        await at.client.begin("on", 9)  # behind everything that the server has said of the worker
        assert "t2" not in json.dumps(at.client.got)
        assert sessions_of(at.daemon).transcripts.marks.kind_of("t2") is SessionKind.SYSTEM
        assert not [one async for one in _receipts(bus) if one.harness_session_id == "t2"]
        assert not [one for one in await at.daemon.signals.kept_threads() if one[1] == "t2"]


async def _receipts(bus: lifebus.Bus) -> Any:
    """Every receipt up to now."""
    await bus.tick()
    async with asyncio.timeout(PATIENCE_S):
        async for one in bus.receipts(since="start"):
            if isinstance(one, lifebus.Receipt):
                yield one
                if one.event.value == "supervisor.tick" and not one.harness_session_id:
                    return


async def test_what_the_server_asks_for_in_a_workers_turn_is_refused_and_nobody_is_asked() -> None:
    async with scene() as at, connected(at.daemon) as bus:
        await ready(at)
        for text in ("ask", "input"):
            ended = await done(bus, job(text, expects="none", jobKind=text))
            assert (ended.state, ended.result) == (JobState.COMPLETED, {"status": "ok"})
        answers = [one for one in at.read_by_server() if "method" not in one]
        assert answers[0]["result"] == {"decision": "decline"}
        assert answers[1]["error"]["code"] == -32600
        await at.client.begin("on", 9)
        assert not [one for one in at.client.got if "method" in one and "id" in one]


async def test_a_turn_that_fails_for_a_while_is_tried_again_and_one_without_an_app_server_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifebus_supervisor.app_server.worker_orders.FIND_S", 0.1)
    async with scene() as at, connected(at.daemon) as bus:
        await ready(at)
        failed = await done(bus, job("fail"))
        assert failed.state is JobState.FAILED
        assert failed.error == "the worker's turn failed: the model is busy"
        assert (failed.attempts, turns_of(at.read_by_server())) == (2, ["turn/start", "turn/start"])
        elsewhere = {**_plain(job("say x", sourceSessionId="t9")), "source_session_id": None}
        alone = await done(bus, NewJob(**elsewhere))
        assert alone.state is JobState.FAILED
        assert "no app-server behind a proxy has the session t9" in str(alone.error)
        assert alone.attempts == 2
        other = NewJob(type="agent_instruction", project_id="p2", payload=instruction("say x"))
        assert "another project" in str((await done(bus, other)).error)


async def test_a_job_that_is_cancelled_has_its_turn_interrupted() -> None:
    async with scene() as at, connected(at.daemon) as bus:
        await ready(at)
        queued = await bus.jobs.enqueue(job("work"))
        await begun(at.kept)
        await bus.jobs.cancel(queued.job.id)
        ended = await bus.jobs.wait(queued.job.id)
        assert (ended.state, ended.error) == (JobState.CANCELED, "cancel_requested")
        assert turns_of(at.read_by_server()) == ["turn/start", "turn/interrupt"]


def _plain(new: NewJob) -> dict[str, Any]:
    return {name: getattr(new, name) for name in new.__struct_fields__}


async def test_a_turn_whose_app_server_ends_is_known_not_to_have_come_to_its_end() -> None:
    async with scene() as at, connected(at.daemon) as bus:
        await ready(at)
        queued = await bus.jobs.enqueue(NewJob(**{**_plain(job("work")), "max_attempts": 1}))
        await begun(at.kept)
        await _place(at.daemon, queued.job.id)
        at.box.program(str(at.kept)).kill()
        ended = await bus.jobs.wait(queued.job.id)
        assert (ended.state, ended.error) == (JobState.FAILED, "the app-server ended while the worker's turn ran")
        assert await asyncio.wait_for(at.client.process.wait(), PATIENCE_S) == -9


async def _place(daemon: Daemon, job_id: str) -> None:
    """It is durable where a job is done."""
    await until(lambda: sessions_of(daemon).queue.job(job_id).running_context.turn_id is not None)


async def test_the_next_observer_ends_a_turn_whose_observer_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.worker_turns.runner.LOOK_S", 0.2)
    monkeypatch.setattr("lifebus_supervisor.app_server.worker_orders.LOOK_S", 0.2)
    async with scene() as at, connected(at.daemon) as bus:
        await ready(at)
        queued = await bus.jobs.enqueue(job("work"))
        await begun(at.kept)
        await _place(at.daemon, queued.job.id)
        at.box.observer().kill()
        await until(lambda: "turn/interrupt" in turns_of(at.read_by_server()))
        await at.client.begin("on", 9)  # by which the next observer learns of the client's thread
        await begun(at.kept, 3)
        lines = at.read_by_server()
        assert turns_of(lines)[:2] == ["turn/start", "turn/interrupt"]
        await at.client.say(method="finish", params={"threadId": "t3", "text": "done"})
        ended = await bus.jobs.wait(queued.job.id)
        assert (ended.state, ended.attempts, ended.result["outputText"]) == (JobState.COMPLETED, 2, "done")
        assert not [one async for one in _receipts(bus) if one.harness_session_id in {"t2", "t3"}]


async def _job_at(base: Path, text: str) -> str:
    """Queue a job at the broker of a directory, and return its id."""
    async with lifebus.connect("test", runtime_dir=base / "run", timeout=PATIENCE_S) as bus:
        return (await bus.jobs.enqueue(job(text))).job.id


async def _ended_at(base: Path, job_id: str) -> Job:
    async with lifebus.connect("test", runtime_dir=base / "run", timeout=PATIENCE_S) as bus:
        return await bus.jobs.wait(job_id)


async def _placed_at(base: Path, job_id: str) -> None:
    async with lifebus.connect("test", runtime_dir=base / "run", timeout=PATIENCE_S) as bus:
        async with asyncio.timeout(PATIENCE_S):
            await until_answered(lambda: bus.jobs.show(job_id), lambda one: one.running_context.turn_id is not None)


async def test_a_turn_of_a_broker_that_was_killed_is_ended_by_the_next_one_before_it_is_tried_again() -> None:
    with short_directory() as base:
        async with app_server(base) as (client, kept, _):
            async with broker_process(base) as broker:
                job_id = await _job_at(base, "work")
                await begun(kept, 0)
                await _placed_at(base, job_id)
                await broker.kill()
            async with broker_process(base):
                await until(lambda: sum(one.get("method") == "turn/start" for one in lines_of(kept)) == 2)
                await client.say(method="finish", params={"threadId": "t3", "text": "done"})
                ended = await _ended_at(base, job_id)
        assert (ended.state, ended.result["outputText"], ended.attempts) == (JobState.COMPLETED, "done", 2)
        assert turns_of(lines_of(kept)) == ["turn/start", "turn/interrupt"]
        assert turns_of(lines_of(kept), "t3") == ["turn/start", "finish"]


async def test_a_turn_that_came_to_its_end_while_no_broker_ran_is_not_had_again() -> None:
    with short_directory() as base:
        async with app_server(base) as (client, kept, _):
            async with broker_process(base) as broker:
                job_id = await _job_at(base, "work")
                await begun(kept, 0)
                await _placed_at(base, job_id)
                await broker.kill()
            await client.say(method="finish", params={"threadId": "t2", "text": "done meanwhile"})
            await until(lambda: "finish" in turns_of(lines_of(kept)))
            async with broker_process(base):
                ended = await _ended_at(base, job_id)
        assert (ended.state, ended.result["outputText"], ended.attempts) == (JobState.COMPLETED, "done meanwhile", 1)
        assert turns_of(lines_of(kept)) == ["turn/start", "finish"]
