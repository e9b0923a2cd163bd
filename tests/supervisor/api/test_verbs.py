"""What each verb does, called over the real socket: answers, refusals, and what stands in `status`."""

import asyncio
from typing import Any

import msgpack
import msgspec
import pytest

import lifebus
from lifebus_contract import CapabilityRequest, LifebusError
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_transports.framing.frames import encode_header
from lifebus_transports.messages.reads import Backfill
from support.broker_process import until
from support.golden import golden
from support.integration.peers import RawPeer, raw_peer
from support.patience import PATIENCE_S
from support.running import connected, running_bus


def pack(**body: Any) -> bytes:
    return bytes(msgpack.packb(body))


async def answer(peer: RawPeer, verb: str, body: bytes = b"\x80") -> Any:
    number = peer.ask(verb, body)
    found, outcome, result = await peer.answer()
    assert (found, outcome) == (number, "ok"), result
    return result


def raw_to(daemon: Daemon) -> Any:
    return raw_peer(daemon.settings.runtime_dir)


async def record(bus: lifebus.Bus, count: int, session: str = "s1") -> None:
    await bus.emit([lifebus.make_request("session.started", "codex", session=session) for _ in range(count)])


async def test_ping_is_answered_with_nothing() -> None:
    async with running_bus(backend="memory") as daemon:
        with raw_to(daemon) as peer:
            assert await answer(peer, "ping") == {}


async def test_status_says_how_the_broker_and_its_sockets_are() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 3)
        with raw_to(daemon) as peer:
            peer.send(b"nonsense")
            await peer.refusal("teleport", b"\x80")
        status = await bus.status()
    assert (status.ledger.backend, status.ledger.durability, status.ledger.head) == ("sqlite", "full", 3)
    assert status.runtime_dir == str(daemon.settings.runtime_dir)
    expected = {
        "requests_malformed": 1,
        "requests_refused": 1,
        "peers_refused": 0,
        "receipts_published": 3,
        "hook_calls": 0,
    }
    assert {name: status.counters[name] for name in expected} == expected


async def test_negotiation_with_an_unknown_adapter_names_those_that_are_known() -> None:
    async with running_bus(backend="memory") as daemon, connected(daemon) as bus:
        with pytest.raises(LifebusError, match=r"known are .*codex") as refused:
            await bus.negotiate("nobody", [])
        found = await bus.negotiate("codex", [msgspec.convert(golden("capability"), CapabilityRequest)])
    assert refused.value.code == "unknown_adapter"
    assert len(found.outcomes) == 1


async def test_pages_follow_each_other_without_hole_or_overlap_until_complete() -> None:
    positions: list[int] = []
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 25)
        after, complete = 0, False
        while not complete:
            page = await bus.read(Backfill(after=after, limit=10))
            positions += [one.position for one in page.rows]
            assert page.next == positions[-1]
            after, complete = page.next, page.complete
    assert positions == list(range(1, 26))


async def test_a_position_of_another_history_gets_no_rows_and_needs_a_snapshot() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 3)
        page = await bus.read(Backfill(epoch="0" * 32, after=1))
        status = await bus.status()
    assert (page.rows, page.complete, page.snapshot_required) == ((), False, True)
    assert (page.epoch, page.head, page.next) == (status.ledger.epoch, 3, page.floor)


async def test_sessions_are_listed_all_or_one() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 2, "s1")
        await record(bus, 1, "s2")
        everyone = await bus.sessions()
        one = await bus.sessions(("codex", "s1"))
        nobody = await bus.sessions(("codex", "unknown"))
    assert [(head.harness_session_id, head.sequence) for head in everyone] == [("s1", 2), ("s2", 1)]
    assert [head.harness_session_id for head in one] == ["s1"]
    assert nobody == []


async def test_verify_checks_what_is_there() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 5)
        found = await bus.verify()
    assert (found.checked, found.faults) == (5, ())


async def test_clients_are_listed_with_their_events_until_they_leave() -> None:
    async with running_bus(backend="memory") as daemon:
        with raw_to(daemon) as peer:
            await answer(peer, "serve", pack(client_id="w", events=["session.started"], deadline_ms=700))
            (listed,) = await answer(peer, "clients")
            await answer(peer, "leave")
            nobody = await answer(peer, "clients")
    assert (listed["client_id"], listed["kind"], listed["deadline_ms"]) == ("w", "worker", 700)
    assert nobody == []


async def test_a_worker_is_asked_and_its_answer_recorded() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        with raw_to(daemon) as peer:
            await answer(peer, "serve", pack(client_id="w", events=["session.started"]))
            async with asyncio.TaskGroup() as tasks:
                emitting = tasks.create_task(bus.emit(lifebus.make_request("session.started", "codex", session="s")))
                number, verb, dispatch = await peer.answer()
                peer.send(
                    b"\x01" + number.to_bytes(8, "big") + b"response", pack(response=golden("response", "minimal"))
                )
    assert (verb, dispatch["client_id"], dispatch["envelope"]["request"]["harness_session_id"]) == (
        "dispatch",
        "w",
        "s",
    )
    assert [receipt.client_id for receipt in emitting.result().receipts] == ["w"]


async def test_a_draining_broker_refuses_emissions_as_busy_and_still_answers_questions() -> None:
    async with running_bus() as daemon, connected(daemon) as bus:
        await record(bus, 2)
        daemon.api.stopping = True
        bus.timeout = 0.2
        with pytest.raises(LifebusError) as refused:
            await record_one(bus)
        assert refused.value.retry_class == "safe_retry"
        bus.timeout = PATIENCE_S
        assert len((await bus.read(Backfill())).rows) == 2
        assert daemon.bus.ledger.head == 2


async def record_one(bus: lifebus.Bus) -> None:
    await bus.emit(lifebus.make_request("session.started", "codex", session="s1"))


async def test_a_read_that_fails_is_an_internal_error_and_frees_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("secret detail")

    async with running_bus(backfills=1) as daemon:
        with raw_to(daemon) as peer:
            with monkeypatch.context() as patched:
                patched.setattr(daemon.bus.ledger, "read", fail)
                for _ in range(3):
                    refusal = await peer.refusal("backfill", b"\x80")
                    assert refusal["failure_class"] == "internal_error"
                    assert "secret" not in refusal["detail"]
            assert (await answer(peer, "backfill"))["complete"]


async def test_an_answer_that_is_no_answer_to_anything_is_dropped() -> None:
    async with running_bus(backend="memory") as daemon:
        with raw_to(daemon) as peer:
            peer.send(encode_header(0, "response"), pack(response=golden("response", "minimal")))
            await peer.caught_up()
            await until(lambda: daemon.requests.counters.requests == 2)
        assert daemon.requests.counters.refused == 0
