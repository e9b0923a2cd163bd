"""Actions in a running broker: what extensions ask for is done in transcripts and in the queue, once."""

from pathlib import Path
from typing import Any

import msgspec

from lifebus_contract.capability import TrustMode
from lifebus_contract.extensions import ActionResult, ActionStatus, EmitResult, RuntimeEvent
from lifebus_contract.jobs import JobState
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.extensions.settings import ExtensionSettings
from support.broker_process import until
from support.extensions.scene import write_extension
from support.integration.observing import Observer, signal
from support.parts import sessions_of
from support.running import connected, running_bus, short_directory

ASKING = """
    from lifebus.extensions import on

    @on("turn.completed")
    async def asked(event):
        return event.payload["asks"]
    """

MANIFEST = """
    name = "asking"
    [capabilities]
    events = ["turn.completed"]
    actions = ["transcript.upsert", "queue.enqueue"]
    """

ENTRY = {"messageId": "m1", "turnId": "t1", "role": "system", "type": "note", "content": "hi", "status": "complete"}
CONTEXT = {"projectId": "p1", "sourceSessionId": "s1", "threadId": "s1", "turnId": "t1"}


def request(action_type: str, payload: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"kind": "action_request", "actionType": action_type, "payload": payload, **more}


def event(asks: object) -> RuntimeEvent:
    payload = {"context": CONTEXT, "asks": asks}
    return RuntimeEvent(type="turn.completed", payload=payload, emitted_at="2026-11-23T12:00:00.000Z")


async def told(daemon: Daemon, asks: object) -> ActionResult:
    """Return what becomes of what an extension asks for."""
    results: list[EmitResult] = await sessions_of(daemon).extensions.emit(event(asks))
    (result,) = results
    assert isinstance(result, ActionResult), msgspec.json.encode(result)
    return result


async def test_what_an_extension_asks_for_is_done_once_also_over_a_restart(tmp_path: Path) -> None:
    write_extension(tmp_path / "agents", "asking", ASKING, manifest=MANIFEST)
    extensions = ExtensionSettings(roots=(str(tmp_path / "agents"),), trust_mode=TrustMode.ENFORCED)
    upsert = request("transcript.upsert", {"sessionId": "s1", "entry": ENTRY}, idempotencyKey="u", requestId="r1")
    command = {"argv": ["true"], "cwd": "/"}
    job = request("queue.enqueue", {"type": "command", "projectId": "p1", "payload": command}, idempotencyKey="j")
    with short_directory() as home:
        async with running_bus(whole=True, directory=home, extensions=extensions) as daemon, connected(daemon) as bus:
            await until(lambda: sessions_of(daemon).extensions.current.version != "bootstrap")
            await bus.extensions.trust("asking")
            await bus.extensions.reload()
            await Observer(bus).observe(signal("s1"))
            first = await told(daemon, upsert)
            assert (first.status, first.request_id, first.idempotency_key) == (ActionStatus.PERFORMED, "r1", "u")
            page = await bus.transcripts.page("s1")
            assert [one.entry.content for one in page.entries if one.entry.message_id == "m1"] == ["hi"]
            queued = await told(daemon, job)
            assert queued.status is ActionStatus.PERFORMED
            job_id = (queued.details or {})["job"]["id"]
            done = await bus.jobs.wait(job_id)
            assert (done.state, done.source_session_id) == (JobState.COMPLETED, "s1")
            undeclared = request("turn.steer.create", {"sessionId": "s1", "turnId": "t1", "input": "x"})
            assert (await told(daemon, undeclared)).status is ActionStatus.FORBIDDEN
            other = request("transcript.upsert", {"sessionId": "s2", "entry": ENTRY})
            refused = await told(daemon, other)
            assert (refused.details or {})["code"] == "scope_session_mismatch"
        async with running_bus(whole=True, directory=home, extensions=extensions) as daemon, connected(daemon) as bus:
            await until(lambda: bool(sessions_of(daemon).extensions.current.modules))
            assert await told(daemon, upsert) == first
            again = await told(daemon, job)
            assert again == queued
            assert [one.id for one in await bus.jobs.list()] == [job_id]
