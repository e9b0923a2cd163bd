"""The routes of the queue and of sessions: what they answer, and in which order they refuse."""

from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

import lifebus
from lifebus_contract.jobs import JobState, NewJob
from lifebus_supervisor.configuration.queue_settings import QueueSettings
from lifebus_supervisor.daemon.composition import Daemon
from support.broker_process import until
from support.integration.hooking import call_hook
from support.integration.observing import signal
from support.parts import sessions_of
from support.running import connected
from support.transports.gateway import Address, emit, running_gateway
from support.transports.schemas import fits

ENTRY = {"messageId": "m1", "turnId": "t1", "role": "system", "type": "note", "content": "hello", "status": "complete"}
JOBS = "/api/orchestrator/jobs"
UPSERT, SUGGEST = "transcript/upsert", "suggested-request/jobs"
WAIT, STANDS = "suggested-request", "suggested-request/upsert"
NOT_JSON, NOT_AN_ENTRY = b"{", b"{}"


async def queued(daemon: Daemon, *job_ids: str, argv: tuple[str, ...] = ("sleep", "600")) -> None:
    for job_id in job_ids:
        payload = {"argv": list(argv), "cwd": "/"}
        await sessions_of(daemon).queue.enqueue(NewJob(type="command", project_id="p", payload=payload, job_id=job_id))


async def known(daemon: Daemon, *sessions: str) -> None:
    """Have sessions be known by a signal of each."""
    for number, session in enumerate(sessions, 1):
        await daemon.signals.record("o", number, "codex", [signal(session)])


async def test_a_job_is_shown_and_cancelled_once() -> None:
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await queued(daemon, "j1", "j2")
        job = fits(await client.get(f"{JOBS}/j2"), "get", f"{JOBS}/{{jobId}}")["job"]
        assert (job["id"], job["state"], job["payload"]["cwd"]) == ("j2", "queued", "/")
        done = await client.post(f"{JOBS}/j2/cancel", json={})
        job = fits(done, "post", f"{JOBS}/{{jobId}}/cancel")["job"]
        assert (done.status_code, job["state"], job["error"]) == (200, "canceled", "api_cancel")
        again = await client.post(f"{JOBS}/j2/cancel", json={})
        assert again.status_code == 409
        body = fits(again, "post", f"{JOBS}/{{jobId}}/cancel")
        assert (body["status"], body["job"]) == ("already_terminal", job)
        for answer in (await client.get(f"{JOBS}/none"), await client.post(f"{JOBS}/none/cancel", json={})):
            assert (answer.status_code, answer.json()["status"], answer.json()["jobId"]) == (404, "not_found", "none")
        assert (await client.get(f"{JOBS}/..%2F")).status_code in {400, 404}


async def test_the_jobs_of_a_project_come_oldest_first_in_pages() -> None:
    path = "/api/projects/{projectId}/orchestrator/jobs"
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await queued(daemon, "j3", "j1", "j2")
        where, query = path.replace("{projectId}", "p"), dict[str, Any](limit=2)
        first = fits(await client.get(where, params=query), "get", path)
        second = fits(await client.get(where, params=query | {"after": first["next"]}), "get", path)
        found = [(one["createdAt"], one["id"]) for one in (*first["data"], *second["data"])]
        assert sorted(found) == found
        assert ({one for _, one in found}, second["next"]) == ({"j1", "j2", "j3"}, None)
        await until(lambda: sessions_of(daemon).queue.job("j3").state is JobState.RUNNING)
        waiting = (await client.get(where, params={"state": "queued"})).json()["data"]
        assert [one["id"] for one in waiting] == ["j1", "j2"]
        assert (await client.get("/api/projects/other/orchestrator/jobs")).json()["data"] == []
        for wrong in ("after=x", "after=99999999999999999:j", "state=none", "limit=0"):
            assert (await client.get(f"{where}?{wrong}")).status_code == 400


async def test_a_transcript_is_filled_and_read_and_answers_with_what_it_merged(tmp_path: Path) -> None:
    path = "/api/sessions/{sessionId}"
    async with running_gateway(tmp_path, whole=True) as (daemon, address), address.client() as client:
        await known(daemon, "s1")
        for changes in ({"startedAt": 5}, {"status": "streaming", "content": "again", "startedAt": 3, "extra": 1}):
            answer = await client.post(f"/api/sessions/s1/{UPSERT}", json=ENTRY | changes)
            body = fits(answer, "post", f"{path}/{UPSERT}")
        # What was complete does not stream again; the answer is the entry as it is.
        assert body == {"status": "ok", "sessionId": "s1", "entry": ENTRY | {"startedAt": 3}}
        await client.post(f"/api/sessions/s1/{UPSERT}", json=ENTRY | {"messageId": "m2", "details": None})
        found = fits(await client.get("/api/sessions/s1?limit=1"), "get", path)
        assert (found["session"]["sessionId"], found["thread"]["id"]) == ("s1", "s1")
        assert [one["messageId"] for one in found["transcript"]] == ["m1"]
        rest = (await client.get("/api/sessions/s1", params={"after": found["next"]})).json()
        assert ([one["messageId"] for one in rest["transcript"]], rest["next"]) == (["m2"], None)
        # Who follows from `through` on has everything: the events m1, m1 and m2.
        assert rest["through"] == 3


def status_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json().get("code", "")


@pytest.mark.parametrize("queue", [True, False])
async def test_refusals_of_session_routes_come_in_their_order(tmp_path: Path, queue: bool) -> None:
    settings = QueueSettings(enabled=queue)
    async with running_gateway(tmp_path, whole=True, queue=settings) as (daemon, address), address.client() as client:
        await known(daemon, "live", "worker", "gone")
        await sessions_of(daemon).transcripts.store.marks.mark_system("worker", 1)
        await sessions_of(daemon).transcripts.store.delete("gone")
        no_queue = (503, "job_conflict")
        expected = {
            **{(route, "gone"): [(410, "session_deleted")] * 2 for route in ("close", "forget")},
            **{(route, "worker"): [(403, "system_session")] * 2 for route in ("close", "forget")},
            **{
                (route, "unknown"): [(400, "request_failed"), (400, "invalid_request")] for route in ("close", "forget")
            },
            (UPSERT, "gone"): [(410, "session_deleted")] * 2,
            (UPSERT, "worker"): [(400, "request_failed"), (400, "invalid_request")],
            (UPSERT, "unknown"): [(404, "no_session")] * 2,
            (UPSERT, "live"): [(400, "request_failed"), (400, "invalid_request")],
            (SUGGEST, "gone"): [(410, "session_deleted")] * 2,
            (SUGGEST, "worker"): [(403, "system_session")] * 2,
            (SUGGEST, "unknown"): [(404, "no_session")] * 2,
            (WAIT, "gone"): [(410, "session_deleted")] * 2,
            (WAIT, "worker"): [(403, "system_session")] * 2,
            (WAIT, "unknown"): [(404, "no_session")] * 2,
            (WAIT, "live"): [(400, "request_failed"), (409, "no_context")] if queue else [no_queue] * 2,
            (STANDS, "gone"): [(410, "session_deleted")] * 2,
            (STANDS, "worker"): [(403, "system_session")] * 2,
            (STANDS, "unknown"): [(404, "no_session")] * 2,
            (STANDS, "live"): [(400, "request_failed"), (400, "invalid_request")],
            (SUGGEST, "live"): [(400, "request_failed"), (409, "job_conflict")] if queue else [no_queue] * 2,
        }
        for (route, session), wanted in expected.items():
            found = [
                status_of(await write(client, f"/api/sessions/{session}/{route}", body))
                for body in (NOT_JSON, NOT_AN_ENTRY)
            ]
            assert found == wanted, (route, session)
        # A worker's transcript takes entries, though nothing is suggested there.
        assert (await client.post(f"/api/sessions/worker/{UPSERT}", json=ENTRY)).status_code == 200
    async with running_gateway(tmp_path, whole=True, queue=settings) as (_, address), address.client() as client:
        await still_deleted(address, client)


async def still_deleted(address: Address, client: Any) -> None:
    """A deleted session stays so after a restart, with the time of its deletion."""
    first = await client.get("/api/sessions/gone")
    assert fits(first, "get", "/api/sessions/{sessionId}")["status"] == "deleted"
    assert datetime.fromisoformat(first.json()["deletedAt"]).tzinfo is not None
    async with address.client() as other:
        assert (await other.get("/api/sessions/gone")).json() == first.json()


async def write(client: Any, path: str, body: bytes) -> Any:
    return await client.post(path, content=body, headers={"Content-Type": "application/json"})


async def test_a_job_is_not_cancelled_where_the_queue_is_off(tmp_path: Path) -> None:
    async with running_gateway(tmp_path, whole=True) as (daemon, address), address.client() as client:
        await queued(daemon, "j1", "j2")
    async with (
        running_gateway(tmp_path, whole=True, queue=QueueSettings(enabled=False)) as (daemon, address),
        address.client() as client,
    ):
        assert status_of(await client.post(f"{JOBS}/none/cancel", json={})) == (404, "no_job")
        assert status_of(await client.post(f"{JOBS}/j2/cancel", json={})) == (503, "job_conflict")
        assert sessions_of(daemon).queue.job("j2").state is JobState.QUEUED


async def test_a_session_is_closed_once_and_forgotten_when_it_has_ended() -> None:
    path, body = "/api/sessions/{sessionId}", {"adapterId": "codex"}
    async with running_gateway(whole=True) as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "s1")

        async def ask(what: str) -> Any:
            return fits(await client.post(f"/api/sessions/s1/{what}", json=body), "post", f"{path}/{what}")

        assert (await ask("forget"))["code"] == "session_open"
        (closed,) = (await ask("close"))["data"]
        assert (closed["position"], closed["receipt"]["event"]) == (2, "session.ended")
        assert closed["receipt"]["telemetry_summary"]["closed_by"] == "gateway"
        assert (await ask("close"))["code"] == "session_ended"
        (forgotten,) = (await ask("forget"))["data"]
        assert forgotten["receipt"]["telemetry_summary"]["forgotten_by"] == "gateway"
        assert (await ask("forget"))["code"] == "session_deleted"
        assert (await client.get("/api/sessions")).json()["data"] == []


async def test_receipts_are_chosen_by_failure_by_waiting_and_without_canaries() -> None:
    about = {"session_id": "s1", "cwd": "/srv/shop", "prompt_id": "p1"}
    async with running_gateway(whole=True) as (daemon, address), address.client() as client:
        await call_hook(daemon, "claude", hook_event_name="UserPromptSubmit", prompt="hello", **about)
        await call_hook(daemon, "claude", hook_event_name="PermissionRequest", tool_name="Bash", tool_input={}, **about)
        await call_hook(daemon, "claude", hook_event_name="StopFailure", error="rate_limit", **about)
        pages = {
            query: fits(await client.get(f"/api/receipts?{query}"), "get", "/api/receipts")["items"]
            for query in ("", "failed=true", "waiting=true", "canaries=false")
        }
    facts = {query: [one["receipt"]["telemetry_summary"] for one in page] for query, page in pages.items()}
    assert [one["frame_end"] for one in facts["failed=true"]] == ["failed"]
    assert [one["waiting_for"] for one in facts["waiting=true"]][:1] == ["permission"]
    assert len(facts["waiting=true"]) < len(facts[""]) == len(facts["canaries=false"])


async def test_sessions_are_named_as_people_see_them() -> None:
    async with running_gateway(whole=True) as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "a", 2)
        await emit(bus, "both")
        await bus.emit(lifebus.make_request("session.started", "claude", session="both"))
        listed = fits(await client.get("/api/sessions"), "get", "/api/sessions")["data"]
        names = {(one["adapterId"], one["sessionId"]): one["name"] for one in listed}
        for session in (names["codex", "a"], "a"):
            items = (await client.get("/api/receipts", params={"session": session})).json()["items"]
            assert [one["position"] for one in items] == [1, 2]
            (found,) = (await client.get("/api/sessions", params={"session": session})).json()["data"]
            assert (found["adapterId"], found["sessionId"]) == ("codex", "a")
        for path in ("/api/receipts", "/api/sessions", "/api/events"):
            several = await client.get(path, params={"session": "both"})
            assert status_of(several) == (400, "missing")
            assert {names["codex", "both"], names["claude", "both"]} <= set(several.json()["message"].split())
            assert status_of(await client.get(path, params={"session": "nope#7"})) == (400, "no_session")
        body = {"adapterId": "codex"}
        closed = await client.post(f"/api/sessions/{quote(names['codex', 'a'], safe='')}/close", json=body)
        assert (closed.status_code, closed.json()["sessionId"]) == (200, "a")
