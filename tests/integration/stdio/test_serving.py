"""A peer of `lifebus dev stdio` as a callback client: dispatches out, responses in."""

import asyncio
import json
from typing import Any

import anyio

import lifebus
from integration.test_wire_document import call_hook
from lifebus_contract import encode_json
from lifebus_supervisor.daemon.composition import Daemon
from support.integration.serving import serving
from support.integration.stdio_peers import Message, Peer, emission, emit, near_peer
from support.patience import PATIENCE_MS
from support.running import connected, running_bus

EDITOR = {"client_id": "editor", "events": ["session.started"], "deadline_ms": PATIENCE_MS}
CONTENT = {"response": {"schema_version": "lifeloop.v0.2", "status": "delivered"}}


async def dispatch(peer: Peer) -> Message:
    return await peer.wait(lambda message: "envelope" in message)


async def outcome(daemon: Daemon, peer: Peer, body: Message | None) -> dict[str, Any]:
    """Have the peer answer a dispatch with a body, or not at all, and return the receipt."""
    async with connected(daemon) as bus, anyio.create_task_group() as tasks:
        emitted: list[lifebus.Emitted] = []

        async def record() -> None:
            emitted.append(await bus.emit(lifebus.make_request("session.started", "codex", session="s1")))

        tasks.start_soon(record)
        asked = await dispatch(peer)
        if body is not None:
            await peer.send({"verb": "response", "id": asked["dispatch"], "body": body})
    receipt: dict[str, Any] = json.loads(encode_json(emitted[0].receipts[0]))
    return receipt


async def test_a_hook_of_a_harness_is_answered_with_what_the_peer_delivers() -> None:
    note = json.loads(
        encode_json(
            lifebus.make_payload("editor", "two files are unsaved", placements=[("pre_prompt_frame", "required")])
        )
    )
    hook = {"v": 1, "call_id": "c-1", "adapter": "codex", "hook": "SessionStart", "cwd": "/", "env": {}}
    facts = {"session_id": "s9", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/", "model": "m"}
    stdin = json.dumps(facts | {"transcript_path": None, "permission_mode": "default"}).encode()
    async with running_bus(hook_answer_ms=PATIENCE_MS) as daemon, near_peer(daemon) as peer:
        await peer.ask("serve", EDITOR)
        answers: list[bytes] = []

        async def call() -> None:
            runtime_dir = daemon.settings.runtime_dir
            answers.append(await anyio.to_thread.run_sync(call_hook, runtime_dir, hook | {"size": len(stdin)}, stdin))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(call)
            asked = await dispatch(peer)
            body = {"response": CONTENT["response"] | {"client_payloads": [note]}}
            await peer.send({"verb": "response", "id": asked["dispatch"], "body": body})

    assert (asked["client_id"], asked["deadline_ms"]) == ("editor", PATIENCE_MS)
    assert asked["envelope"]["request"]["harness_session_id"] == "s9"
    assert b"two files are unsaved" in answers[0]


async def test_every_kind_of_response_has_its_receipt() -> None:
    refusal = {"failure_class": "operator_required", "retry_class": "do_not_retry", "detail": "not now"}
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.ask("serve", EDITOR)
        content = await outcome(daemon, peer, CONTENT)
        refused = await outcome(daemon, peer, {"refusal": refusal})
        bad = await outcome(daemon, peer, {"response": {"surprise": 1}})
        message = await peer.wait(lambda message: "dispatch" in message)
        empty = await outcome(daemon, peer, {})
        await peer.ask("serve", EDITOR | {"deadline_ms": 100})
        silent = await outcome(daemon, peer, None)

    assert content["status"] == "observed"
    assert (refused["status"], refused["failure_class"]) == ("failed", "operator_required")
    assert (bad["status"], bad["failure_class"]) == ("failed", "invalid_request")
    assert message["refused"]["code"] == "unknown_key"
    assert empty["failure_class"] == "invalid_request"
    assert silent["failure_class"] == "timeout"


async def test_a_response_without_an_open_dispatch_is_refused() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        for number in (7, "seven"):
            await peer.send({"verb": "response", "id": number, "body": CONTENT})
            message = await peer.wait(lambda message: "dispatch" in message)
            assert (message["dispatch"], message["refused"]["code"]) == (number, "not_waiting")


async def test_the_same_registration_again_is_fine_and_another_one_takes_its_place() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        answers = [await peer.ask("serve", body) for body in (EDITOR, EDITOR, EDITOR | {"deadline_ms": 100})]
        clients = (await peer.ask("clients"))["ok"]
        answers.append(await peer.ask("leave"))
        gone = (await peer.ask("clients"))["ok"]

    assert [answer["ok"] for answer in answers] == [{}] * 4
    assert [(client["client_id"], client["deadline_ms"]) for client in clients] == [("editor", 100)]
    assert gone == []


async def test_a_peer_that_another_replaces_is_refused_and_may_take_the_name_back() -> None:
    async with running_bus() as daemon, near_peer(daemon) as one, near_peer(daemon) as other:
        await one.ask("serve", EDITOR)
        await other.ask("serve", EDITOR)
        message = await one.wait(lambda message: "serving" in message)
        again = await one.ask("serve", EDITOR)
        back = await other.wait(lambda message: "serving" in message)

    assert (message["serving"], message["refused"]["code"]) == ("editor", "replaced")
    assert again["ok"] == {}
    assert back["refused"] == message["refused"]


async def test_a_peer_that_ends_its_input_owes_nothing_any_more() -> None:
    async with running_bus() as daemon, near_peer(daemon) as peer:
        await peer.ask("serve", EDITOR | {"deadline_ms": 60_000})
        await peer.send({"id": "own", "verb": "emit", "body": emit(emission())})
        await dispatch(peer)
        await peer.close_stdin()
        (answer,) = await peer.rest()

    assert answer["ok"]["results"][0]["receipts"][0]["failure_class"] == "transport_error"


async def test_with_64_requests_under_way_the_next_one_is_not_read() -> None:
    asked, go = asyncio.Semaphore(0), asyncio.Event()

    async def hold(_: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
        asked.release()
        await go.wait()
        return lifebus.CallbackResponse.ok()

    async with (
        running_bus() as daemon,
        connected(daemon) as bus,
        near_peer(daemon, seconds=20) as peer,
        serving(bus, hold, deadline=20),
    ):
        await peer.send(*[{"id": n, "verb": "emit", "body": emit(emission(f"s{n}"))} for n in range(64)])
        await peer.send({"id": "next", "verb": "ping"})
        for _ in range(64):
            await asked.acquire()
        go.set()
        first = json.loads(await peer.line())
        await peer.answer("next")

    assert first["id"] != "next"
