"""The routes that the dashboard's screens use: what they answer, and that a page which only reads changes nothing."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from lifebus_contract import LifebusError
from lifebus_contract.jobs import JobState, NewJob
from lifebus_contract.runs import RunStatus
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.daemon.own_commands import REPORTS, CommandReports
from lifebus_transports.processes.outcomes import Failure, Finished
from lifebus_transports.processes.spec import CommandSpec
from support.flows import flow, step
from support.inbox.questions import question
from support.patience import PATIENCE_S
from support.running import connected, settings_in
from support.transcripts.boxes import entry
from support.transports.dashboards import log_in
from support.transports.gateway import emit, running_gateway

BLOCKED = "if [ ! -e answered ]; then touch answered; exit 2; fi"
"""A step that needs a person once."""


async def body_of(client: httpx.AsyncClient, path: str) -> Any:
    answer = await client.get(path)
    assert answer.status_code == 200, answer.text
    return answer.json()


async def test_a_persons_answer_reaches_the_flow_that_waits_for_it(tmp_path: Path) -> None:
    async with (
        running_gateway(queue=QueueSettings()) as (daemon, address),
        connected(daemon) as bus,
        address.client() as client,
    ):
        steps = (step("a", command=("/bin/sh", "-c", BLOCKED)), step("b", "a"))
        run = await bus.flows.submit(flow(tmp_path, *steps), run_id="run_1")
        with anyio.fail_after(PATIENCE_S):
            while run.status is not RunStatus.WAITING:
                run = await bus.flows.wait(run.run_id, run.number)
        (listed,) = (await body_of(client, "/api/flows"))["data"]
        assert (listed["runId"], listed["status"], listed["stepsOver"], listed["steps"]) == ("run_1", "waiting", 0, 2)
        (asked,) = (await body_of(client, "/api/questions"))["data"]
        assert (asked["runId"], asked["stepId"], asked["answer"]) == ("run_1", "a", None)
        assert listed["questions"] == [asked["questionId"]]
        path = f"/api/questions/{asked['questionId']}/answer"
        given = await client.post(path, json={"action": "retry", "message": "try it", "responder": "alice"})
        assert given.json()["question"]["answer"]["responder"] == "alice"
        again = await client.post(path, json={"action": "abort"})
        assert (again.status_code, again.json()["code"]) == (409, "already_answered")
        with anyio.fail_after(PATIENCE_S):
            while not run.status.is_over:
                run = await bus.flows.wait(run.run_id, run.number)
        assert run.status is RunStatus.COMPLETED
        shown = (await body_of(client, "/api/flows/run_1"))["run"]
        assert [(one["stepId"], one["status"], one["tries"]) for one in shown["steps"]] == [
            ("a", "done", 2),
            ("b", "done", 1),
        ]
        assert (await body_of(client, "/api/questions"))["data"] == []
        (settled,) = (await body_of(client, "/api/questions?all=true"))["data"]
        assert settled["answer"]["message"] == "try it"
        over = await client.post("/api/flows/run_1/abort", json={"reason": "late"})
        assert (over.status_code, over.json()["code"]) == (409, "run_over")


async def test_questions_and_transcripts_come_in_pages_and_what_is_not_there_is_not_found() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        for number in range(3):
            await bus.inbox.ask(question(f"q_{number}"))
            await emit(bus, f"s{number}")
            await bus.transcripts.upsert(f"s{number}", entry())
        found: list[str] = []
        after = ""
        for _ in range(3):
            page = await body_of(client, f"/api/questions?limit=1{after}")
            found += [one["questionId"] for one in page["data"]]
            after = f"&after={page['next']}"
        assert found == ["q_0", "q_1", "q_2"]
        assert page["next"] is None
        first = await body_of(client, "/api/transcripts?limit=2")
        rest = await body_of(client, f"/api/transcripts?after={first['next']}")
        assert [one["sessionId"] for one in (*first["data"], *rest["data"])] == ["s0", "s1", "s2"]
        for path, code in {
            "/api/questions/none/answer": "no_question",
            "/api/flows/none/abort": "no_run",
            "/api/consumers/none/reset": "no_cursor",
        }.items():
            body = {"action": "retry"} if path.endswith("answer") else {}
            missing = await client.post(path, json=body)
            assert (missing.status_code, missing.json()["code"]) == (404, code), path
        assert (await client.get("/api/questions?after=x")).status_code == 400


async def test_a_page_that_only_reads_is_refused_every_action_by_the_gateway() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client({}) as client:
        await bus.inbox.ask(question("q_1"))
        await log_in(client, daemon.settings.runtime_dir)
        actions = {
            "/api/questions/q_1/answer": {"action": "retry"},
            "/api/flows/run_1/abort": {},
            "/api/consumers/desk/reset": {},
            "/api/orchestrator/jobs/j1/cancel": {},
        }
        for path, body in actions.items():
            refused = await client.post(path, json=body)
            assert (refused.status_code, refused.json()["code"]) == (403, "read_only"), path
        assert (await body_of(client, "/api/questions"))["data"][0]["answer"] is None
        await log_in(client, daemon.settings.runtime_dir, write=True)
        done = await client.post("/api/questions/q_1/answer", json={"action": "retry"})
        assert done.status_code == 200


async def test_jobs_of_all_projects_and_the_reset_of_a_consumer() -> None:
    async with (
        running_gateway(queue=QueueSettings()) as (daemon, address),
        connected(daemon) as bus,
        address.client() as client,
    ):
        for project in ("p1", "p2"):
            payload = {"argv": ["true"], "cwd": "/"}
            job = (await bus.jobs.enqueue(NewJob(type="command", project_id=project, payload=payload))).job
            assert (await bus.jobs.wait(job.id)).state is JobState.COMPLETED
        found = await body_of(client, "/api/orchestrator/jobs")
        assert [(one["projectId"], one["state"]) for one in found["data"]] == [("p1", "completed"), ("p2", "completed")]
        await emit(bus, "s1", 5)
        async with bus.consume("desk", since="start") as deliveries:
            await anext(deliveries)
        (standing,) = (await body_of(client, "/api/consumers"))["data"]
        assert (standing["name"], standing["position"], standing["lag"]) == ("desk", 0, standing["head"])
        moved = (await client.post("/api/consumers/desk/reset", json={})).json()["consumer"]
        assert (moved["position"], moved["lag"]) == (moved["head"], 0)
        moved = (await client.post("/api/consumers/desk/reset", json={"after": 2})).json()["consumer"]
        assert moved["position"] == 2


async def test_the_ledger_says_how_it_stands_and_checks_its_chain() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "s1", 5)
        found = await body_of(client, "/api/ledger")
        assert (found["head"], found["floor"], found["writable"], found["damaged"]) == (5, 0, True, [])
        assert found["retention"]["keepDays"] == 30
        assert str(daemon.settings.state_dir) not in json.dumps(found)
        assert await body_of(client, "/api/ledger/check") == {"status": "ok", "checked": 5, "faults": []}


async def test_reports_are_what_the_commands_print(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    async with running_gateway() as (daemon, address), address.client() as client:
        checks = {one["check"]: one for one in (await body_of(client, "/api/doctor"))["data"]}
        # It is this broker that is found, whatever the environment says.
        assert checks["broker"]["state"] == "ok", checks["broker"]
        assert str(daemon.settings.state_dir) in checks["state"]["evidence"]
        assert (await body_of(client, "/api/hooks"))["data"] == []


async def test_reports_are_made_one_at_a_time_and_a_command_that_fails_is_no_report(tmp_path: Path) -> None:
    ends, running = [Finished(stdout=b"[]", exit_code=1, failure=Failure.EXIT_CODE)], [0]
    begun, goes_on = anyio.Event(), anyio.Event()

    async def run_once(spec: CommandSpec, _: bytes, seconds: float) -> Finished:
        assert (spec.argv[-2:], seconds) == (REPORTS["doctor"], 60.0)
        running[0] += 1
        assert running[0] == 1
        begun.set()
        await goes_on.wait()
        running[0] -= 1
        return ends[-1]

    reports = CommandReports(settings_in(tmp_path), run_once)
    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(reports, "doctor")
        await begun.wait()
        await anyio.wait_all_tasks_blocked()
        with pytest.raises(LifebusError, match="ask again"):
            await reports("doctor")
        goes_on.set()
    for end, code in (
        (Finished(failure=Failure.DEADLINE), "deadline"),
        (Finished(stdout=b"[]", exit_code=2, failure=Failure.EXIT_CODE), "exit_code"),
        (Finished(stdout=b"no", exit_code=0), "bad_answer"),
    ):
        ends.append(end)
        with pytest.raises(LifebusError) as fault:
            await reports("doctor")
        assert fault.value.code == code
