"""The routes of suggested requests: a job that suggests is waited for, and every way in which nothing comes of it."""

from pathlib import Path
from typing import Any

import anyio
import pytest

from lifebus_contract.extensions import EmitResult, EnqueueResult, JobIdentity
from lifebus_contract.jobs import Dedupe, JobState, NewJob, SuggestionStatus
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.daemon.composition import Daemon
from support.broker_process import until
from support.integration.observing import signal
from support.parts import sessions_of
from support.transcripts.boxes import entry
from support.transports.gateway import running_gateway
from support.transports.schemas import fits

WAIT = "/api/sessions/{sessionId}/suggested-request"
ASK, UPSERT = "/api/sessions/s1/suggested-request", "/api/sessions/s1/suggested-request/upsert"
GO_ON = '{"suggestion": "go on"}'


class Suggester:
    """What extensions do: a job for each request, which runs a command; `signals` has it answer the request."""

    def __init__(self, daemon: Daemon, *argv: str, signals: bool = True) -> None:
        self.daemon, self.argv, self.signals = daemon, argv, signals
        self.asked: list[dict[str, Any]] = []
        sessions_of(daemon).synthesis.sink = self

    async def emit(self, event_type: str, payload: dict[str, Any]) -> list[EmitResult]:
        self.asked.append(payload)
        work: dict[str, Any] = {"argv": list(self.argv), "cwd": "/"}
        if self.signals:
            work["completionSignal"] = {"kind": "suggested_request", "requestKey": payload["requestKey"]}
        new = NewJob(
            type="command",
            project_id=payload["projectId"],
            payload=work,
            source_session_id=payload["sessionId"],
            dedupe=Dedupe.SINGLE_FLIGHT,
            dedupe_key="suggest",
            max_attempts=1,
        )
        done = await sessions_of(self.daemon).queue.enqueue(new)
        identity = JobIdentity(id=done.job.id, type=done.job.type, project_id=done.job.project_id)
        return [EnqueueResult(module_name="m", event_type=event_type, status=done.status, job=identity)]


async def spoken(daemon: Daemon, session: str = "s1") -> None:
    """Have a session in which something was said."""
    await daemon.signals.record("o", 1, "codex", [signal(session)])
    await sessions_of(daemon).transcripts.store.upsert(session, entry())


async def test_a_suggestion_is_waited_for_and_what_it_says_is_kept() -> None:
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await spoken(daemon)
        suggester = Suggester(daemon, "echo", GO_ON)
        answer = await client.post(ASK, params={"waitMs": 30_000}, json={"model": "big"})
        body = fits(answer, "post", WAIT)
        assert (answer.status_code, body["status"], body["suggestion"]) == (200, "ok", "go on")
        assert (suggester.asked[0]["requestKey"], suggester.asked[0]["model"]) == (body["requestKey"], "big")
        kept = await sessions_of(daemon).transcripts.suggestions.show("s1", body["requestKey"])
        assert (kept.status, kept.suggestion) == (SuggestionStatus.COMPLETE, "go on")


async def test_what_takes_longer_is_answered_with_its_job_and_its_own_key_by_whoever_asks_again() -> None:
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await spoken(daemon)
        Suggester(daemon, "sleep", "600")
        answers = [await client.post(ASK, params={"waitMs": 1}, json={}), await client.post(f"{ASK}/jobs", json={})]
        bodies = [fits(one, "post", path) for one, path in zip(answers, (WAIT, f"{WAIT}/jobs"), strict=True)]
        assert [one.status_code for one in answers] == [202, 202]
        assert [one["dedupe"] for one in bodies] == ["enqueued", "already_queued"]
        assert len({(one["jobId"], one["requestKey"]) for one in bodies}) == 1
        # Whoever suggests may say it before the job is over, and whoever waits has it then.
        found: list[Any] = []

        async def wait() -> None:
            found.append(await client.post(ASK, params={"waitMs": 30_000}, json={}))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            said = {"requestKey": bodies[0]["requestKey"], "status": "complete", "suggestion": "now", "more": 1}
            upserted: dict[str, Any] = fits(await client.post(UPSERT, json=said), "post", f"{WAIT}/upsert")["entry"]
            assert (upserted["status"], upserted["suggestion"], upserted["updatedAt"] > 0) == ("complete", "now", True)
        assert (found[0].status_code, found[0].json()["suggestion"]) == (200, "now")
        streaming = {"requestKey": bodies[0]["requestKey"], "status": "streaming"}
        assert (await client.post(UPSERT, json=streaming)).json()["entry"]["suggestion"] == "now"


@pytest.mark.parametrize("signals", [True, False])
async def test_where_it_fails_the_draft_is_the_suggestion(signals: bool) -> None:
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await spoken(daemon)
        Suggester(daemon, "false", signals=signals)
        wait = {"waitMs": 30_000}
        answer = await client.post(ASK, params=wait, json={"draft": "mine"})
        body = fits(answer, "post", WAIT)
        assert (answer.status_code, body["status"], body.get("suggestion")) == (200, "fallback", "mine")
        await until(lambda: sessions_of(daemon).queue.job(body["jobId"]).state is JobState.FAILED)
        without = await client.post(ASK, params=wait, json={})
        assert (without.status_code, fits(without, "post", WAIT)["code"]) == (409, "no_suggestion")


async def test_nothing_is_suggested_where_nothing_was_said_and_by_nobody() -> None:
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await daemon.signals.record("o", 1, "codex", [signal("s1")])
        silent = await client.post(ASK, json={})
        assert (silent.status_code, fits(silent, "post", WAIT)["status"]) == (409, "no_context")
        for path, body in ((ASK, {"draft": "d"}), (f"{ASK}/jobs", {})):
            nobody = await client.post(path, json=body)
            assert (nobody.status_code, nobody.json()["code"]) == (409, "job_conflict")
        for params in ({"waitMs": 30_001}, {"waitMs": -1}, {"wait": 1}):
            assert (await client.post(ASK, params=params, json={})).status_code == 400
        without = await client.post(UPSERT, json={"requestKey": "k", "status": "complete"})
        assert (without.status_code, fits(without, "post", f"{WAIT}/upsert")["code"]) == (400, "missing_suggestion")


async def test_a_suggestion_is_upserted_where_the_queue_is_off(tmp_path: Path) -> None:
    async with (
        running_gateway(tmp_path, whole=True, queue=QueueSettings(enabled=False)) as (daemon, address),
        address.client() as client,
    ):
        await spoken(daemon)
        assert (await client.post(ASK, json={})).status_code == 503
        done = await client.post(UPSERT, json={"requestKey": "k", "status": "error"})
        assert (done.status_code, done.json()["entry"]["error"]) == (200, "no request could be suggested")
