"""A broker steers an app-server behind `app-server tee`; its client goes on as before, and its own answers win."""

import asyncio
from getpass import getuser
from typing import Any

import pytest

import lifebus
import lifebus.blocking
from lifebus_contract import InvalidRequest, LifebusError, Receipt
from lifebus_contract.actions.approvals import approval_id
from lifebus_contract.actions.payloads import ApprovalDecision, DecisionScope
from lifebus_contract.extensions import ActionRequest, ActionScope, ActionStatus
from lifebus_supervisor.actions.ports import ControlOutcome, ControlState, PendingApproval
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.steering import DecidedApproval
from support.integration.steering import Scene, scene
from support.parts import sessions_of
from support.patience import PATIENCE_S
from support.running import connected, running_bus, until_answered


async def receipts_until(daemon: Daemon, key: str, value: str) -> Receipt:
    async with asyncio.timeout(PATIENCE_S), connected(daemon) as bus:
        async for one in bus.receipts(since="start"):
            if isinstance(one, lifebus.Receipt) and one.telemetry_summary.get(key) == value:
                return one
    raise AssertionError("the receipts ended")


async def test_an_approval_is_decided_while_the_client_waits_and_its_late_answer_changes_nothing() -> None:
    async with scene() as at:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        found = await at.pending()
        assert found == PendingApproval(approval_id=approval_id("t1", "u1", 0), thread_id="t1", turn_id="u1")
        done = await sessions_of(at.daemon).steering.decide(
            found, ApprovalDecision.ACCEPT, DecisionScope.SESSION, "reviewer"
        )
        assert done.state is ControlState.DONE, done
        await at.client.until("turn/completed")
        await at.client.say(id=0, result={"decision": "decline"})
        answered = await receipts_until(at.daemon, "operator", "answered")
        assert answered.telemetry_summary["answered_by"] == "reviewer"
        assert answered.telemetry_summary["decision"] == "acceptForSession"
        assert await sessions_of(at.daemon).steering.approval("u1:0") is None
        late = await sessions_of(at.daemon).steering.decide(found, ApprovalDecision.ACCEPT, DecisionScope.TURN)
        assert late.state is ControlState.LATE
        await at.client.begin("on", 4)
        answers = [one["result"]["decision"] for one in at.read_by_server() if "method" not in one]
        assert answers == ["acceptForSession", "decline"]


async def test_a_person_who_answers_first_wins() -> None:
    async with scene() as at:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        found = await at.pending()
        await at.client.say(id=0, result={"decision": "decline"})
        done = await sessions_of(at.daemon).steering.decide(found, ApprovalDecision.ACCEPT, DecisionScope.TURN)
        assert done.state is ControlState.LATE
        completed = await at.client.until("item/completed")
        assert completed["params"]["item"]["status"] == "decline"
        assert [one for one in at.read_by_server() if "method" not in one] == [
            {"id": 0, "result": {"decision": "decline"}}
        ]


async def test_a_turn_is_steered_and_the_client_sees_no_answer_that_is_not_its_own() -> None:
    async with scene() as at:
        await at.client.begin("work")
        assert (await at.steered("u1", "Also look at the tests.")).state is ControlState.DONE
        refused = await at.steered("u9", "Too late.")
        assert refused == ControlOutcome(ControlState.REFUSED, "no active turn to steer")
        steered = [one for one in at.read_by_server() if str(one.get("id")).startswith("lifebus:")]
        assert [one["method"] for one in steered] == ["turn/steer", "turn/steer"]
        assert steered[0]["params"]["input"] == [{"type": "text", "text": "Also look at the tests."}]
        await at.client.begin("on", 4)  # behind all answers
        assert not [one for one in at.client.got if str(one.get("id")).startswith("lifebus:")]
        assert (await receipts_until(at.daemon, "steered", "turn/steer")).telemetry_summary["steered_by"] == "lifebus"


async def test_what_is_never_answered_is_unknown_when_its_time_is_over(monkeypatch: Any) -> None:
    async with scene() as at:
        await at.client.begin("work")
        assert (await at.steered("u1", "first")).state is ControlState.DONE
        # Time for the server to be asked on any machine; what counts is that it has not answered by then.
        monkeypatch.setattr("lifebus_supervisor.app_server.steering.TURN_S", 3)
        monkeypatch.setattr("lifebus_supervisor.app_server.steering._GRACE_S", PATIENCE_S)
        assert (await sessions_of(at.daemon).steering.steer("t1", "u1", "silence", None)).state is ControlState.UNKNOWN
        await at.client.say(id=9, method="turn/interrupt", params={"threadId": "t1", "turnId": "u1"})
        await at.client.until("turn/completed")


async def test_a_killed_observer_changes_nothing_for_the_client_and_what_it_knew_is_decided_by_nobody() -> None:
    async with scene() as at:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        found = await at.pending()
        at.box.observer().kill()
        done = await sessions_of(at.daemon).steering.decide(found, ApprovalDecision.ACCEPT, DecisionScope.TURN)
        assert done.state in {ControlState.UNREACHABLE, ControlState.UNKNOWN}
        await at.client.say(id=0, result={"decision": "accept"})
        await at.client.until("turn/completed")
        assert [one for one in at.read_by_server() if "method" not in one] == [
            {"id": 0, "result": {"decision": "accept"}}
        ]


async def test_nothing_is_steered_where_no_app_server_is() -> None:
    async with running_bus(whole=True) as daemon:
        assert await sessions_of(daemon).steering.approval("u1:0") is None
        assert (await sessions_of(daemon).steering.steer("t1", "u1", "text", "a")).state is ControlState.UNREACHABLE


async def test_the_next_broker_learns_from_the_observer_what_was_sent_and_what_was_not(monkeypatch: Any) -> None:
    asked: list[str] = []

    async def note(origin: str) -> None:
        asked.append(origin)

    async with scene() as at:
        await at.client.begin("work")
        assert (await at.steered("u1", "first")).state is ControlState.DONE
        assert (
            await sessions_of(at.daemon).steering.steer("t1", "u1", "more", "sent", before=note)
        ).state is ControlState.DONE
        refused = await sessions_of(at.daemon).steering.steer("t1", "u9", "late", "refused", before=note)
        assert refused.state is ControlState.REFUSED
        # Time for the server to be asked on any machine; what counts is that it has not answered by then.
        monkeypatch.setattr("lifebus_supervisor.app_server.steering.TURN_S", 3)
        monkeypatch.setattr("lifebus_supervisor.app_server.steering._GRACE_S", PATIENCE_S)
        silent = await sessions_of(at.daemon).steering.steer("t1", "u1", "silence", "unanswered", before=note)
        assert silent.state is ControlState.UNKNOWN
        (origin,) = set(asked)
        monkeypatch.setattr("lifebus_supervisor.app_server.steering.RETURN_S", PATIENCE_S)
        steering = sessions_of(await at.broker_again()).steering
        found = [await steering.steered(name, origin) for name in ("sent", "refused", "unanswered", "never")]
        assert [None if one is None else one.state for one in found] == [
            ControlState.DONE,
            ControlState.REFUSED,
            ControlState.UNKNOWN,
            ControlState.UNREACHABLE,
        ]
        again = await steering.steer("t1", "u1", "more", "sent")
        assert again.state is ControlState.DONE
        texts = [one["params"]["input"][0]["text"] for one in at.read_by_server() if one.get("method") == "turn/steer"]
        assert texts == ["first", "more", "late", "silence"], "what was sent under an id is not sent again"


async def test_an_action_decides_an_approval_and_the_receipt_names_who_asked_for_it() -> None:
    async with scene() as at:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        await at.pending()
        payload = {"approvalId": "u1:0", "decision": "decline"}
        request = ActionRequest(action_type="approval.decide", payload=payload, idempotency_key="k")
        for _ in range(2):  # under its key it is done once
            done = await sessions_of(at.daemon).actions.execute(request, ActionScope(), requested_by="supervisor-agent")
            assert done.status is ActionStatus.PERFORMED, done
        completed = await at.client.until("item/completed")
        assert completed["params"]["item"]["status"] == "decline"
        answered = await receipts_until(at.daemon, "operator", "answered")
        assert answered.telemetry_summary["answered_by"] == "supervisor-agent"
        other = ActionRequest(action_type="approval.decide", payload=payload)
        late = await sessions_of(at.daemon).actions.execute(other, ActionScope(), requested_by="supervisor-agent")
        assert late.status is ActionStatus.ALREADY_RESOLVED


async def test_a_person_decides_and_is_told_apart_from_who_was_too_late_and_from_nobody() -> None:
    async with scene() as at, connected(at.daemon) as bus:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        await at.pending()
        done = await bus.inbox.decide_approval("u1:0", "decline", responder="ann")
        assert done == DecidedApproval(approval_id="u1:0", thread_id="t1", turn_id="u1")
        assert (await at.client.until("item/completed"))["params"]["item"]["status"] == "decline"
        answered = await receipts_until(at.daemon, "operator", "answered")
        assert answered.telemetry_summary["answered_by"] == "person:ann"
        for name, code in (("u1:0", "approval_settled"), ("u1:7", "no_approval")):
            with pytest.raises(LifebusError) as refused:
                await bus.inbox.decide_approval(name, "accept")
            assert refused.value.code == code
        with pytest.raises(InvalidRequest):
            await bus.inbox.decide_approval("u1:0", "perhaps")
        # What the client has decided itself is settled, too, though lifebus never looked for it before.
        await at.client.begin("ask", 4)
        await at.client.until("item/commandExecution/requestApproval")
        await at.client.say(id=1, result={"decision": "accept"})
        await at.client.until("turn/completed")
        await until_answered(lambda: is_settled(at, "u2:1"), bool)


async def test_a_script_decides_for_a_session_under_the_name_of_its_user() -> None:
    async with scene() as at:
        await at.client.begin("ask")
        await at.client.until("item/commandExecution/requestApproval")
        await at.pending()

        def script() -> DecidedApproval:
            with lifebus.blocking.connect("script", runtime_dir=at.daemon.settings.runtime_dir) as bus:
                return bus.inbox.decide_approval("u1:0", ApprovalDecision.ACCEPT, scope="session")

        assert (await asyncio.to_thread(script)).thread_id == "t1"
        assert (await at.client.until("item/completed"))["params"]["item"]["status"] == "acceptForSession"
        answered = await receipts_until(at.daemon, "operator", "answered")
        assert answered.telemetry_summary["answered_by"] == f"person:{getuser()}"


async def is_settled(at: Scene, name: str) -> bool:
    """Whether an observer has seen an approval settled; it may not have read so far yet."""
    await sessions_of(at.daemon).steering.approval(name)
    return sessions_of(at.daemon).steering.is_settled(name)
