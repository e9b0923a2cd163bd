"""The real hook while the real broker is away, stopped or dead: it ends at once, its call is recorded once."""

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio.to_thread
import pytest

import lifebus
from support.broker_process import BrokerProcess, broker_process
from support.clients.hook_box import HookBox, scripted_broker
from support.crash.ledger_file import read_ledger
from support.integration.serving import serving
from support.patience import PATIENCE_S, SOON_S
from support.transports.hook_server_box import short_directory

START = {"session_id": "s1", "hook_event_name": "SessionStart", "source": "startup", "cwd": "/w", "model": "m"}
GOOD = json.dumps(START).encode()
BAD = json.dumps(START | {"model": 7}).encode()
EVENTS = ["session.starting", "session.started"]


@pytest.fixture
def base() -> Iterator[Path]:
    with short_directory() as directory:
        yield directory


async def run_hook(base: Path, stdin: bytes = GOOD) -> None:
    """Run a hook to its end: silent, successful, soon; and wait until its call is in the spool, which may be later."""
    box = HookBox(base)
    run = await anyio.to_thread.run_sync(box.run, stdin)
    assert (run.code, run.stdout, run.stderr) == (0, b"", b"")
    assert run.seconds < SOON_S
    assert len(await anyio.to_thread.run_sync(box.spooled, 1)) == 1


async def recorded(broker: BrokerProcess, count: int) -> None:
    """Wait until the broker has recorded so many receipts."""
    async with (
        asyncio.timeout(PATIENCE_S),
        lifebus.connect(client_id="look", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
    ):
        async for _ in bus.receipts(since="start"):
            count -= 1
            if not count:
                return


async def settle(base: Path) -> list[dict[str, Any]]:
    """Start a broker, which drains the spool first, stop it, and return what the ledger holds then."""
    async with broker_process(base) as broker:
        assert await broker.terminate() == 0
    assert not HookBox(base).spooled()
    return [row.content for row in read_ledger(base / "state" / "ledger.db", base / "copy")]


def is_spooled(receipt: dict[str, Any]) -> bool:
    return "spooled_late" in [warning["code"] for warning in receipt["warnings"]]


async def test_a_call_while_no_broker_runs_is_recorded_once_and_late(base: Path) -> None:
    await run_hook(base)
    found = await settle(base)
    assert [receipt["event"] for receipt in found] == EVENTS
    assert all(is_spooled(receipt) for receipt in found)
    assert await settle(base) == found


async def test_a_call_while_the_broker_is_stopped_is_recorded_once_and_late(base: Path) -> None:
    async with broker_process(base) as broker:
        broker.signal(signal.SIGSTOP)
        await run_hook(base)
        broker.signal(signal.SIGCONT)
        await recorded(broker, 2)  # it finds the connection that waited, or the spool, whichever is first
        assert await broker.terminate() == 0
    found = await settle(base)
    assert [receipt["event"] for receipt in found] == EVENTS
    assert all(is_spooled(receipt) for receipt in found)


async def test_a_call_that_a_killed_broker_left_behind_is_recorded_once_and_late(base: Path) -> None:
    async with broker_process(base) as broker:
        await broker.kill()
    await run_hook(base)
    found = await settle(base)
    assert [receipt["event"] for receipt in found] == EVENTS
    assert all(is_spooled(receipt) for receipt in found)


async def test_a_call_to_a_door_that_never_answers_is_recorded_once_and_late(base: Path) -> None:
    box = HookBox(base)
    with scripted_broker(box, lambda connection: while_open(connection.recv)):
        await run_hook(base)
    box.socket_path.unlink()
    found = await settle(base)
    assert [receipt["event"] for receipt in found] == EVENTS
    assert all(is_spooled(receipt) for receipt in found)


def while_open(receive: Any) -> None:
    """Take everything and say nothing until the peer gives up."""
    while receive(65_536):
        pass


async def test_a_bad_call_while_no_broker_runs_is_one_failed_receipt(base: Path) -> None:
    await run_hook(base, BAD)
    (receipt,) = await settle(base)
    assert (receipt["status"], receipt["failure_class"]) == ("failed", "invalid_request")
    assert (receipt["harness_session_id"], receipt["telemetry_summary"]["field"]) == ("s1", "$.model")
    assert is_spooled(receipt)


async def test_nothing_is_delivered_into_the_past_after_a_stop(base: Path) -> None:
    asked: list[lifebus.DispatchEnvelope] = []

    async def answer(envelope: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
        asked.append(envelope)
        return lifebus.CallbackResponse.ok()

    async with (
        broker_process(base) as broker,
        lifebus.connect(client_id="asked", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        serving(bus, answer, EVENTS),
    ):
        broker.signal(signal.SIGSTOP)
        await run_hook(base)
        broker.signal(signal.SIGCONT)
        await recorded(broker, 2)
    assert asked == []
