"""Extensions act on the real Codex app-server: an approval, a running turn, and work that a worker's turn does."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import lifebus
from lifebus.live.model.scripting import prompt, run, say
from lifebus_contract.capability import TrustMode
from lifebus_contract.jobs import JobState
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.extensions.settings import ExtensionSettings
from lifebus_supervisor.transcripts.session_marks import SessionKind
from support.broker_process import until
from support.e2e.app_server import LIFEBUS, Client, Place, place
from support.extensions.scene import write_extension
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus

ASKED = "app_server.request.item.command_execution.request_approval"

DECIDES = f"""
    import json
    from lifebus.extensions import Event, Signal, on, request_action

    @on("{ASKED}")
    async def decide(event: Event[Signal]) -> object:
        signal = event.payload
        decision = "decline" if "forbidden" in json.dumps(signal.params) else "accept"
        name = f"{{signal.context.turn_id}}:{{json.dumps(signal.request_id)}}"
        return request_action("approval.decide", {{"approvalId": name, "decision": decision}})
    """

STEERS = f"""
    from lifebus.extensions import Event, Signal, on, request_action

    @on("{ASKED}")
    async def steer(event: Event[Signal]) -> object:
        where = event.payload.context
        payload = {{"sessionId": where.thread_id, "turnId": where.turn_id, "input": "Also look at the tests."}}
        return request_action("turn.steer.create", payload, idempotency_key=f"steer:{{where.turn_id}}")
    """

QUEUES = """
    from pathlib import Path
    from lifebus.extensions import Event, Signal, Tools, on

    @on("app_server.turn.completed")
    async def follow_up(event: Event[Signal], tools: Tools) -> object:
        where = event.payload.context
        project = f"session:{where.thread_id}"
        payload = {"agent": "queues", "jobKind": "review", "projectId": project, "sourceSessionId": where.thread_id}
        payload |= {"threadId": where.thread_id, "turnId": where.turn_id, "expectResponse": "action_intents"}
        text = Path("TEXT").read_text().replace("THREAD", where.thread_id).replace("TURN", where.turn_id)
        payload |= {"instructionText": text}
        return await tools.enqueue_job(
            "agent_instruction", payload, project_id=project, source_session_id=where.thread_id
        )
    """

MANIFEST = """
    name = "NAME"
    [capabilities]
    events = ["*"]
    actions = ["ACTION"]
    """


@asynccontextmanager
async def extended_place(
    folder: Path, name: str, code: str, action: str
) -> AsyncGenerator[tuple[Place, Daemon, Client]]:
    """A real server under `app-server run`, and a broker in this process with one extension that may do one action."""
    manifest = MANIFEST.replace("NAME", name).replace("ACTION", action)
    write_extension(folder / "agents", name, code, manifest=manifest)
    extensions = ExtensionSettings(roots=(str(folder / "agents"),), trust_mode=TrustMode.ENFORCED)
    async with place(with_broker=False) as on, running_bus(whole=True, extensions=extensions) as daemon:
        async with connected(daemon) as bus:
            await until(lambda: sessions_of(daemon).extensions.current.version != "bootstrap")
            await bus.extensions.trust(name)
            assert (await bus.extensions.reload()).status == "ok"
        runtime_dir = str(daemon.settings.runtime_dir)
        async with on.client(*LIFEBUS, "app-server", "run", "--runtime-dir", runtime_dir, "--") as client:
            yield on, daemon, client


async def tick_with(daemon: Daemon, key: str, count: int) -> list[dict[str, object]]:
    """Return the facts of so many receipts that have one."""
    found: list[dict[str, object]] = []
    async with asyncio.timeout(PATIENCE_S), connected(daemon) as bus:
        async for one in bus.receipts(since="start"):
            if isinstance(one, lifebus.Receipt) and key in one.telemetry_summary:
                found.append(dict(one.telemetry_summary))
            if len(found) == count:
                break
    return found


async def test_an_approval_is_decided_by_the_handler_of_an_extension(tmp_path: Path) -> None:
    async with extended_place(tmp_path, "decides", DECIDES, "approval.decide") as (on, daemon, client):
        thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
        for name, made in (("wanted", True), ("forbidden", False)):
            text = prompt(f"Make {name}.", run(f"touch {name}", 2_000), say("done", 3_000))
            assert (await client.turn(thread, text))["status"] == "completed"
            assert (on.box.project / name).exists() is made
        answers = await tick_with(daemon, "answered_by", 2)
        assert [(one["answered_by"], one["decision"]) for one in answers] == [
            ("decides", "accept"),
            ("decides", "decline"),
        ]
        assert await client.close() == 0


async def test_a_turn_is_steered_by_the_handler_of_an_extension(tmp_path: Path) -> None:
    async with extended_place(tmp_path, "steers", STEERS, "turn.steer.create") as (on, daemon, client):
        thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
        turn = await client.begin(thread, prompt("Begin.", run("touch made", 2_000), say("done", 3_000)))
        request = await client.wait(lambda one: str(one.get("method")).endswith("requestApproval"))
        (steered,) = await tick_with(daemon, "steered", 1)
        assert (steered["steered"], steered["steered_by"]) == ("turn/steer", "steers")
        await client.send({"id": request["id"], "result": {"decision": "accept"}})
        assert (await client.ended(turn))["status"] == "completed"
        assert on.model.with_text("Also look at the tests."), "the model has read what the extension said"
        assert await client.close() == 0


async def test_work_that_a_handler_queues_is_done_by_a_workers_turn(tmp_path: Path) -> None:
    entry = {"messageId": "review", "turnId": "TURN", "role": "system", "type": "note", "status": "complete"}
    entry |= {"content": "It is well done."}
    upsert = {"kind": "action_request", "actionType": "transcript.upsert"}
    answer = {"kind": "action_intents", "intents": [{**upsert, "payload": {"sessionId": "THREAD", "entry": entry}}]}
    words = prompt("Review the last turn.", run("touch by-worker", 2_000), say(json.dumps(answer), 3_000))
    (tmp_path / "text").write_text(words)
    code = QUEUES.replace("TEXT", str(tmp_path / "text"))
    async with extended_place(tmp_path, "queues", code, "*") as (on, daemon, client), connected(daemon) as bus:
        thread = await client.start()
        ended = await client.turn(thread, prompt("Work.", say("worked", 2_000)))
        await until(lambda: bool(sessions_of(daemon).queue.standings()))
        (queued,) = sessions_of(daemon).queue.standings()
        async with asyncio.timeout(PATIENCE_S):
            job = await bus.jobs.wait(queued.job_id)
        assert (job.state, job.error) == (JobState.COMPLETED, None)
        assert [one["status"] for one in job.result["actionResults"]] == ["performed"]
        said = {one.message_id: one for one in await bus.transcripts.entries(thread)}
        assert (said["review"].content, said["review"].turn_id) == ("It is well done.", ended["id"])
        # The worker's commands change nothing, its thread is nobody's, and its turn sets off no other job.
        assert not (on.box.project / "by-worker").exists()
        own = str(job.running_context.thread_id)
        assert sessions_of(daemon).transcripts.marks.kind_of(own) is SessionKind.SYSTEM
        await client.turn(thread, prompt("Go on.", say("gone on", 2_000)))
        assert own.encode() not in bytes(client.got)
        await until(lambda: len(sessions_of(daemon).queue.standings()) == 2)
        assert not [one for one in await daemon.signals.kept_threads() if one[1] == own]
        listed = await client.ask("thread/list")
        assert own not in json.dumps(listed)
        assert await client.close() == 0
