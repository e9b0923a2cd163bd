"""A third adaptor, which calls the API in its own process: every verb of the table passes through it."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

import lifebus
from lifebus_contract import FailureClass, LifebusError, decode_msgpack, encode_msgpack, validate
from lifebus_supervisor.api.api import Api, Message
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.messages.verb_types import Access
from lifebus_transports.messages.verbs import VERBS, find_verb
from support.broker_process import until
from support.golden import golden
from support.integration.observing import EVENT, signal
from support.patience import PATIENCE_S
from support.running import running_bus
from support.transports.valid_bodies import ENTRY


class InProcess:
    """The adaptor: plain data in and out.  `called` names the verbs that passed."""

    def __init__(self, api: Api, identity: str = "test", *, is_operator: bool = True) -> None:
        self.identity, self.is_operator = identity, is_operator
        self.called: set[str] = set()
        self._api = api

    def send(self, number: int, verb: str, body: object) -> bool:
        """Take no messages outside a stream."""
        return False

    async def call(self, verb: str, body: dict[str, Any] | None = None, *, in_reply_to: int = 0) -> Any:
        """Return the answer as it would stand on the wire."""
        self.called.add(verb)
        spec = find_verb(verb)
        answer = await self._api.call(self, verb, validate(body or {}, spec.body), in_reply_to=in_reply_to)
        encoded = encode_msgpack(answer)
        decode_msgpack(encoded, spec.answer)  # it is of the type that the table names
        return decode_msgpack(encoded, object)

    @asynccontextmanager
    async def stream(self, verb: str, body: dict[str, Any]) -> AsyncGenerator[Any]:
        """Yield the messages that follow the answer."""
        self.called |= {verb, "leave"}
        async with self._api.stream(self, verb, validate(body, find_verb(verb).body)) as messages:
            yield messages


def emission(session: str = "s1") -> dict[str, Any]:
    request = lifebus.make_request("session.started", "codex", session=session)
    return {"client_id": "test", "emissions": [{"request": msgspec.to_builtins(request)}]}


async def test_every_verb_of_the_table_passes_through_an_adaptor_in_this_process(tmp_path: Path) -> None:
    async with running_bus() as daemon:
        bus = InProcess(daemon.api)
        await record_and_read(bus)
        await observe_and_follow(bus)
        await consume(bus)
        await serve(bus, daemon)
        await ask_people(bus)
        await do_jobs(bus)
        await keep(bus, daemon)
        await administer_extensions(bus)
        await run_flows(bus, tmp_path)
        await keep_transcripts(bus)
        await suggest(bus)
        await close_and_forget(bus)
    assert bus.called == set(VERBS)


async def record_and_read(bus: InProcess) -> None:
    assert await bus.call("ping") == {}
    (result,) = (await bus.call("emit", emission()))["results"]
    assert result["positions"] == [1]
    assert (await bus.call("negotiate", {"adapter_id": "codex", "requirements": []}))["outcome"] == "satisfied"
    assert [row[0] for row in (await bus.call("backfill", {"after": 0}))["rows"]] == [1]
    assert [head["sequence"] for head in await bus.call("sessions")] == [1]
    assert (await bus.call("verify"))["checked"] == 1
    assert await bus.call("marker", {"nonce": "n"}) == {}
    assert len((await bus.call("tick", {"client_id": "test"}))["receipts"]) == 1
    assert (await bus.call("status"))["ledger"]["head"] == 2
    assert "codex" in [manifest["adapter_id"] for manifest in await bus.call("manifests")]


async def observe_and_follow(bus: InProcess) -> None:
    seen = msgspec.to_builtins(signal(), builtin_types=(bytes,))
    batch = {"client_id": "test", "adapter_id": "codex", "origin": "o", "first": 1, "observations": [seen]}
    assert await bus.call("observe", batch) == {"through": 1}
    page = await bus.call("signals", {"adapter_id": "codex", "thread": seen["thread"]})
    assert [row[1] for row in page["rows"]] == [EVENT]
    assert len((await bus.call("threads", {"adapter_id": "codex"}))["threads"]) == 1
    observer = {"client_id": "test", "origin": "o"}
    assert await bus.call("steer", {**observer, "adapter_id": "codex", "wait_ms": 0}) == {}
    assert await bus.call("steered", {**observer, "number": 1, "state": "done"}) == {}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(report_approvals, bus, observer)
        decision = {"approval_id": "u1:0", "decision": "accept", "responder": "me"}
        assert await bus.call("approval_decide", decision) == {
            "approval_id": "u1:0",
            "thread_id": "t1",
            "turn_id": "u1",
        }


async def report_approvals(bus: InProcess, observer: dict[str, Any]) -> None:
    """Find the approval that is asked for, and have it decided."""
    for state in ("pending", "done"):
        order = (await bus.call("steer", {**observer, "adapter_id": "codex", "wait_ms": 30_000}))["order"]
        where = {"number": order["number"], "state": state, "thread": "t1", "turn": "u1"}
        await bus.call("steered", {**observer, **where})


async def consume(bus: InProcess) -> None:
    name = {"cursor": "n"}
    assert (await bus.call("consume", {**name, "client_id": "test", "after": 0}))["attached"]
    fetched = await bus.call("fetch", {**name, "limit": 2})
    assert [delivery[0] for delivery in fetched["deliveries"]] == [1, 2]
    assert await bus.call("ack", {**name, "epoch": fetched["epoch"], "positions": [1]}) == {"settled": 1}
    assert await bus.call("nack", {**name, "epoch": fetched["epoch"], "positions": [2]}) == {"settled": 1}
    assert await bus.call("release", name) == {}
    assert [one["position"] for one in await bus.call("cursors", {})] == [1]
    assert await bus.call("letters", name) == {"letters": [], "complete": True}
    assert (await bus.call("reset", {**name, "after": 0}))["position"] == 0
    assert await bus.call("evict", name) == {}


async def administer_extensions(bus: InProcess) -> None:
    assert (await bus.call("extensions_list"))["snapshotVersion"] == "bootstrap"
    reloaded = await bus.call("extensions_reload", {})
    assert (reloaded["status"], reloaded["modules"]) == ("ok", [])
    with pytest.raises(LifebusError) as refused:
        await bus.call("extensions_trust", {"name": "nobody"})
    assert refused.value.code == "unknown_extension"
    denied = {"actor": {"role": "member", "id": "eve", "origin": {"ip": "10.0.0.1"}}, "why": "insufficient_role"}
    assert await bus.call("extensions_denied", denied) == {}
    records = (await bus.call("extensions_audit", {}))["records"]
    assert [(one["result"], one["actorRole"], one["errorSummary"]) for one in records] == [
        ("success", "operator", None),
        ("forbidden", "member", "insufficient_role"),
    ]


async def serve(bus: InProcess, daemon: Daemon) -> None:
    async with (
        bus.stream("serve", {"client_id": "w", "events": ["session.started"]}) as messages,
        anyio.create_task_group() as tasks,
    ):
        assert [client["client_id"] for client in await bus.call("clients")] == ["w"]
        tasks.start_soon(bus.call, "emit", emission("s2"))
        message: Message = await anext(messages)
        assert message.verb == "dispatch"
        await bus.call("response", {"response": golden("response", "minimal")}, in_reply_to=message.number)
    assert await bus.call("clients") == []
    assert daemon.bus.ledger.head == 3


async def ask_people(bus: InProcess) -> None:
    asked = {"question_id": "q", "client_id": "test", "title": "t", "reason": "r", "asked_at_ms": 1}
    assert (await bus.call("inbox_ask", {"question": asked}))["question"]["question_id"] == "q"
    assert len((await bus.call("inbox_list"))["questions"]) == 1
    answer = {"action": "retry", "responder": "me", "responded_at_ms": 2}
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(bus.call, "inbox_answer", {"question_id": "q", "answer": answer})
        assert (await bus.call("inbox_show", {"question_id": "q", "wait_ms": 20_000}))["answer"]["action"] == "retry"
    await bus.call("inbox_ask", {"question": asked | {"question_id": "q2"}})
    assert (await bus.call("inbox_withdraw", {"question_id": "q2"}))["withdrawn_at_ms"] > 2


async def do_jobs(bus: InProcess) -> None:
    payload = {"argv": ["sh", "-c", "echo noise; echo '{\"x\": 1}'"], "cwd": "/"}
    new = {"type": "command", "projectId": "p", "jobId": "j", "payload": payload}
    assert (await bus.call("job_enqueue", {"job": new}))["status"] == "enqueued"
    job: dict[str, Any] = {"state": "queued"}
    while job["state"] in {"queued", "running"}:
        job = await bus.call("job_wait", {"job_id": "j", "wait_ms": 30_000})
    assert (job["state"], job["result"]) == ("completed", {"x": 1})
    assert (await bus.call("job_drain", {}))["drains"] is True
    await bus.call("job_enqueue", {"job": {**new, "jobId": "j2"}})
    assert (await bus.call("job_cancel", {"job_id": "j2"}))["state"] == "canceled"
    assert (await bus.call("job_retry", {"job_id": "j2"}))["state"] == "queued"
    listed = await bus.call("job_list", {"project_id": "p"})
    assert [(one["id"], one["state"]) for one in listed["jobs"]] == [("j", "completed"), ("j2", "queued")]
    assert (await bus.call("job_show", {"job_id": "j"}))["payload"] == payload


async def keep(bus: InProcess, daemon: Daemon) -> None:
    follower = daemon.follower
    assert follower is not None
    await until(follower.caught_up.is_set)
    assert (await bus.call("resume"))["position"] == 3
    saved = await bus.call("save", {"save_type": "SESSION"})
    assert saved["position"] == 3
    with pytest.raises(LifebusError, match="no revision was written"):
        await bus.call("revise", {"snapshot_id": saved["snapshot_id"], "reason": "nothing has changed"})
    assert (await bus.call("prune", {"through": 1}))["floor"] == 1
    assert (await bus.call("state"))["position"] == 1


async def keep_transcripts(bus: InProcess) -> None:
    one = {"session_id": "s1", "entry": ENTRY}
    assert await bus.call("transcript_upsert", one) == one
    page = await bus.call("transcript_show", {"session_id": "s1"})
    assert [row["entry"] for row in page["entries"]] == [ENTRY]
    assert [info["sessionId"] for info in (await bus.call("transcript_list"))["transcripts"]] == ["s1"]


async def close_and_forget(bus: InProcess) -> None:
    await bus.call("emit", emission("s9"))
    of = {"client_id": "test", "adapter_id": "codex", "session": "s9"}
    whole, of_open = [await bus.call("sessions", body) for body in ({}, {"ended": False})]
    assert [one for one in whole if not one["ended"]] == of_open != []
    (closed,) = (await bus.call("session_close", of))["positions"]
    whole, of_open = [await bus.call("sessions", body) for body in ({}, {"ended": False})]
    assert [one for one in whole if not one["ended"]] == of_open != whole
    assert (await bus.call("session_forget", of))["positions"] == [closed + 1]
    assert "s9" not in [head["harness_session_id"] for head in await bus.call("sessions")]


async def suggest(bus: InProcess) -> None:
    with pytest.raises(LifebusError, match="no extension queued"):
        await bus.call("suggest_request", {"session_id": "s1"})
    one = {"session_id": "s1", "request_key": "k"}
    stands = await bus.call("suggestion_upsert", {**one, "status": "complete", "suggestion": "do this"})
    assert stands["suggestion"]["suggestion"] == "do this"
    assert await bus.call("suggestion_show", {**one, "wait_ms": 30_000}) == stands


async def run_flows(bus: InProcess, root: Path) -> None:
    run = {"run_id": "r-1"}
    step = {"step_id": "ask", "command": ["sh", "-c", "echo said; exit 2"]}
    flow = {"name": "f", "client_id": "test", "root": str(root), "steps": [step]}
    begun = await bus.call("flow_submit", {**run, "by": "me", "definition": flow})
    assert [one["run_id"] for one in (await bus.call("flow_list"))["runs"]] == ["r-1"]
    assert (await bus.call("flow_show", run))["definition"]["name"] == "f"
    stands, number = begun, 0
    while stands["status"] != "waiting":
        stands = await bus.call("flow_wait", {**run, "after_number": number, "wait_ms": 30_000})
        number = stands["number"]
    assert stands["steps"][0]["tries"][0]["outcome"] == {"kind": "exited", "code": 2}
    assert (await bus.call("flow_logs", {**run, "step_id": "ask"}))["text"] == "said\n"
    await bus.call("flow_retry", {**run, "by": "me", "step_id": "ask"})
    await bus.call("flow_resume", {**run, "by": "me"})
    await bus.call("flow_abort", {**run, "by": "me", "reason": "enough"})
    while stands["status"] != "aborted":
        stands = await bus.call("flow_wait", {**run, "after_number": number, "wait_ms": 30_000})
        number = stands["number"]
    assert (await bus.call("flow_signals", run))["max_retries"] == 3
    await bus.call("flow_log", {"event": {"event": "x", **run, "at_ms": 1}})
    events = (await bus.call("flow_events", run))["events"]
    assert [one["event"] for one in events][-1] == "x"
    assert (await bus.call("flow_cost", {"record": {**run, "step_id": "ask", "input_tokens": 7}}))["input_tokens"] == 7
    assert (await bus.call("flow_costs", run))["unpriced_calls"] == 1
    with pytest.raises(LifebusError, match="is a program"):
        await bus.call("flow_compact", {**run, "step_id": "ask"})
    other = {**run, "owner": "me"}
    with pytest.raises(LifebusError, match="is aborted"):
        await bus.call("flow_claim", other)
    with pytest.raises(LifebusError, match="does not run it"):
        await bus.call("flow_record", {**other, "after_number": 1, "records": [DETACHED]})


FLOW = {"name": "f", "client_id": "c", "root": "/", "steps": [{"step_id": "s", "command": ["true"]}]}
DETACHED = {"kind": "detached", "at_ms": 1}


async def test_a_peer_that_is_no_operator_may_not_change_what_is_kept_for_everybody() -> None:
    refused: set[str] = set()
    async with running_bus() as daemon:
        guest = InProcess(daemon.api, "guest", is_operator=False)
        bodies: dict[str, dict[str, Any]] = {
            "reset": {"cursor": "n"},
            "evict": {"cursor": "n"},
            "save": {"save_type": "SESSION"},
            "revise": {"snapshot_id": "0" * 16, "reason": "x"},
            "prune": {"through": 1},
            "session_close": {"client_id": "c", "adapter_id": "codex", "session": "s"},
            "session_forget": {"client_id": "c", "adapter_id": "codex", "session": "s"},
            "inbox_answer": {
                "question_id": "q",
                "answer": {"action": "retry", "responder": "me", "responded_at_ms": 2},
            },
            "inbox_withdraw": {"question_id": "q"},
            "flow_submit": {"run_id": "r", "by": "x", "definition": FLOW},
            **{verb: {"run_id": "r", "by": "x"} for verb in ("flow_resume", "flow_abort")},
            "job_enqueue": {"job": {"type": "command", "projectId": "p"}},
            "job_cancel": {"job_id": "j"},
            "job_retry": {"job_id": "j"},
            "job_drain": {},
            "flow_retry": {"run_id": "r", "by": "x", "step_id": "s"},
            "flow_logs": {"run_id": "r", "step_id": "s"},
            "flow_events": {"run_id": "r"},
            "flow_compact": {"run_id": "r", "step_id": "s"},
            "approval_decide": {"approval_id": "u:0", "decision": "accept", "responder": "x"},
            "extensions_reload": {},
            "extensions_trust": {"name": "x"},
            "extensions_denied": {"actor": {"role": "x"}, "why": "x"},
            "flow_claim": {"run_id": "r", "owner": "x"},
            "flow_record": {"run_id": "r", "owner": "x", "after_number": 0},
        }
        for verb, body in bodies.items():
            with pytest.raises(LifebusError) as refusal:
                await guest.call(verb, body)
            if refusal.value.failure_class is FailureClass.OPERATOR_REQUIRED:
                refused.add(verb)
        assert (await guest.call("status"))["ledger"]["head"] == 0
    assert refused == {verb.name for verb in VERBS.values() if verb.access is Access.OPERATOR}


async def test_a_stream_ends_when_another_peer_takes_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifebus_supervisor.api.api._RENEW_S", 0.01)
    registration = {"client_id": "w", "events": ["session.started"]}
    async with running_bus(backend="memory") as daemon:
        first, second = InProcess(daemon.api, "first"), InProcess(daemon.api, "second")
        with anyio.fail_after(PATIENCE_S):
            async with first.stream("serve", registration) as messages, second.stream("serve", registration):
                assert [message async for message in messages] == []
                assert [client["client_id"] for client in await first.call("clients")] == ["w"]
        assert await first.call("clients") == []


async def test_a_caller_that_gives_up_leaves_its_call_to_end_by_itself() -> None:
    async with running_bus() as daemon:
        bus = InProcess(daemon.api)
        await bus.call("consume", {"cursor": "n", "client_id": "test"})
        with anyio.move_on_after(0.05):
            await bus.call("fetch", {"cursor": "n", "wait_ms": 200})
        await until(lambda: not +daemon.api._under_way)
        assert await bus.call("ping") == {}
