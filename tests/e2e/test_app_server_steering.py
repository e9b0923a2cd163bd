"""The real Codex app-server is steered by the bus, while its own client goes on."""

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import msgspec

import lifebus
from lifebus.live.model.scripting import HOLD, prompt, run, say
from lifebus_contract.actions.approvals import approval_id
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.jobs import AgentInstruction, ExpectResponse, JobState, NewJob
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from lifebus_supervisor.daemon.composition import Daemon
from support.e2e.app_server import LIFEBUS, Client, Message, Place, place
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus, until_answered


@asynccontextmanager
async def steered_place() -> AsyncGenerator[tuple[Place, Daemon, Client]]:
    """A real server under `lifebus app-server run`, beside a broker in this process."""
    async with (
        place(with_broker=False) as on,
        running_bus(whole=True) as daemon,
        on.client(*LIFEBUS, "app-server", "run", "--runtime-dir", str(daemon.settings.runtime_dir), "--") as client,
    ):
        yield on, daemon, client


async def asked(client: Client, daemon: Daemon, thread: str, turn: str) -> tuple[Message, PendingApproval]:
    """Return the request for an approval, and the approval as the broker knows it."""
    request = await client.wait(
        lambda one: one.get("method", "").endswith("requestApproval") and one["params"]["turnId"] == turn
    )
    name = approval_id(thread, turn, request["id"])
    async with asyncio.timeout(PATIENCE_S):
        found = await until_answered(lambda: sessions_of(daemon).steering.approval(name), lambda one: one is not None)
    assert found is not None
    assert found == PendingApproval(approval_id=name, thread_id=thread, turn_id=turn)
    return request, found


def is_ours(message: Message) -> bool:
    return str(message.get("id")).startswith("lifebus:")


async def test_an_approval_is_decided_by_the_bus_while_the_client_waits() -> None:
    async with steered_place() as (on, daemon, client):
        thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
        for number, decision, made in [
            (1, ApprovalDecision.DECLINE, False),
            (2, ApprovalDecision.ACCEPT, True),
        ]:
            text = prompt(f"Work {number}.", run(f"touch made{number}", 2_000), say("done", 3_000))
            turn = await client.begin(thread, text)
            request, found = await asked(client, daemon, thread, turn)
            done = await sessions_of(daemon).steering.decide(found, decision, DecisionScope.TURN, "reviewer")
            assert done.state is ControlState.DONE, done
            # A person who answers later changes nothing, and the stream stays whole.
            await client.send({"id": request["id"], "result": {"decision": "cancel"}})
            assert (await client.ended(turn))["status"] == "completed"
            assert (on.box.project / f"made{number}").exists() is made
        turn = await client.begin(thread, prompt("Stop.", run("touch never", 2_000), say("done", 3_000)))
        _, found = await asked(client, daemon, thread, turn)
        assert (
            await sessions_of(daemon).steering.decide(found, ApprovalDecision.CANCEL, DecisionScope.TURN)
        ).state is ControlState.DONE
        assert (await client.ended(turn))["status"] == "interrupted"
        assert await client.close() == 0
        async with asyncio.timeout(PATIENCE_S), connected(daemon) as bus:
            answers: list[object] = []
            async for one in bus.receipts(since="start"):
                if isinstance(one, lifebus.Receipt) and one.telemetry_summary.get("operator") == "answered":
                    answers.append((one.telemetry_summary["answered_by"], one.telemetry_summary["decision"]))
                if len(answers) == 3:
                    break
        assert answers == [("reviewer", "decline"), ("reviewer", "accept"), ("lifebus", "cancel")]


async def test_a_persons_answer_wins_whenever_it_was_there_first_and_the_outcome_is_what_the_server_did() -> None:
    async with steered_place() as (on, daemon, client):
        thread = await client.start(approvalPolicy="untrusted", sandbox="workspace-write")
        for number in range(6):
            text = prompt(f"Work {number}.", run(f"touch race{number}", 2_000), say("done", 3_000))
            turn = await client.begin(thread, text)
            request, found = await asked(client, daemon, thread, turn)
            answer = client.send({"id": request["id"], "result": {"decision": "decline"}})
            decide = sessions_of(daemon).steering.decide(found, ApprovalDecision.ACCEPT, DecisionScope.TURN)
            if number % 2:
                await answer
                outcome = await decide
                assert outcome.state is ControlState.LATE
            else:
                outcome, _ = await asyncio.gather(decide, answer)
            assert (await client.ended(turn))["status"] == "completed"
            assert outcome.state in {ControlState.LATE, ControlState.DONE}
            assert (on.box.project / f"race{number}").exists() is (outcome.state is ControlState.DONE)
        assert await client.close() == 0


async def test_a_turn_is_steered_and_one_of_a_worker_had_and_no_answer_of_ours_reaches_the_client() -> None:
    async with steered_place() as (on, daemon, client):
        thread = await client.start()
        await client.turn(thread, prompt("Begin.", say("begun")))
        held = await client.begin(thread, prompt("Wait.", HOLD))
        await asyncio.to_thread(on.model.wait_held)

        async def steer() -> ControlOutcome:
            return await sessions_of(daemon).steering.steer(thread, held, "Also look at the tests.", "a1", "planner")

        async with asyncio.timeout(PATIENCE_S):
            done = await until_answered(steer, lambda one: one.state is not ControlState.UNREACHABLE)
        assert done.state is ControlState.DONE, done
        await client.ask("turn/interrupt", threadId=thread, turnId=held)
        assert (await client.ended(held))["status"] == "interrupted"
        late = await sessions_of(daemon).steering.steer(thread, held, "Too late.", None)
        assert late.state is ControlState.REFUSED
        assert "no active turn" in late.message
        payload = AgentInstruction(
            agent="planner",
            job_kind="plan",
            project_id="p",
            source_session_id=thread,
            thread_id=thread,
            turn_id=held,
            instruction_text=prompt("Go on.", say("gone on")),
            expect_response=ExpectResponse.ASSISTANT_TEXT,
        )
        new = NewJob(type="agent_instruction", project_id="p", payload=msgspec.to_builtins(payload))
        async with asyncio.timeout(PATIENCE_S), connected(daemon) as bus:
            job = await bus.jobs.wait((await bus.jobs.enqueue(new)).job.id)
        assert (job.state, job.error, job.result["outputText"]) == (JobState.COMPLETED, None, "gone on")
        assert client.methods.count("turn/completed") == 2
        assert not [one for one in client.messages if is_ours(one)]
        assert await client.close() == 0
        assert b"lifebus:" not in bytes(client.got)
        assert all(json.loads(line) for line in bytes(client.got).splitlines())
