"""Commands as callback clients of a real broker, asked on real hook payloads; nothing is left of them."""

import json
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest
from msgspec import structs

import lifebus
from lifebus_adapters import HookAnswer
from lifebus_contract import SERVABLE_EVENTS, FailureClass, LifecycleEvent, Receipt, ReceiptStatus, StateConflict
from lifebus_supervisor.configuration.settings import ClientSettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from support.adapters.calls import captured
from support.broker_process import broker_process
from support.clients.hook_box import PATIENT_COMMAND
from support.integration.following import recorded, until
from support.integration.serving import content
from support.paths import CAPTURES, EXAMPLES
from support.patience import PATIENCE_MS, PATIENCE_S, SOON_S
from support.running import connected, settings_in, short_directory
from support.transports.children import ANSWER, nothing_left

EXAMPLE = EXAMPLES / "command.py"
OPENING, ENDING = LifecycleEvent.FRAME_OPENING, (LifecycleEvent.SESSION_ENDED,)
READ = "cat >/dev/null; "


def command(client_id: str, script: str | Sequence[str], **fields: Any) -> ClientSettings:
    """A client that is an sh script, or a command."""
    argv = ("/bin/sh", "-c", script.replace("ANSWER", f"'{ANSWER}'")) if isinstance(script, str) else tuple(script)
    return ClientSettings(client_id=client_id, command=argv, **{"events": (OPENING,), "deadline_ms": 10_000, **fields})


@asynccontextmanager
async def broker_with(*clients: ClientSettings, **limits: Any) -> AsyncIterator[Daemon]:
    """A broker with commands as its clients, of which nothing is left afterwards."""
    async with nothing_left():
        with short_directory() as directory:
            settings = structs.replace(settings_in(directory, **limits), clients=clients)
            async with running(settings) as daemon:
                yield daemon


async def opened(bus: lifebus.Bus, **fields: Any) -> dict[str, Receipt]:
    """Tell of a frame that opens, and return the receipts by client."""
    frame = lifebus.FrameContext(frame_id="f1", frame_class="top_level")  # type: ignore[arg-type]  # as users write it
    request = lifebus.make_request("frame.opening", "codex", session="s1", frame=frame, **fields)
    with anyio.fail_after(PATIENCE_S):
        result = await bus.emit(request)
    return {receipt.client_id: receipt for receipt in result.receipts}


@pytest.mark.parametrize("protocol", ["oneshot", "jsonl"])
async def test_a_command_delivers_into_a_frame(protocol: str) -> None:
    client = command("notes", (sys.executable, str(EXAMPLE)), protocol=protocol)
    async with broker_with(client) as daemon, connected(daemon) as bus:
        receipt = (await opened(bus))["notes"]
        (listed,) = await bus.clients()
        status = await bus.status()
    assert receipt.status is ReceiptStatus.DELIVERED or receipt.status is ReceiptStatus.DEGRADED
    assert receipt.telemetry_summary.get("client_exit_code") == (0 if protocol == "oneshot" else None)
    assert (listed.client_id, listed.kind, listed.dispatched, listed.failed) == ("notes", "command", 1, 0)
    assert status.clients == 1


async def test_clients_of_every_kind_on_one_event_each_get_their_receipt() -> None:
    clients = [
        command("good", READ + "echo fine >&2; echo ANSWER"),
        command("failing", "echo 'token=abc is wrong' >&2; exit 3"),
        command("hanging", "trap '' TERM; sleep 60", deadline_ms=100),
        command("missing", ("/no/such/program",)),
        command("warm", "while read line; do echo ANSWER; done", protocol="jsonl"),
        command("strange", "while read line; do echo hello; done", protocol="jsonl"),
        command("holding", READ + "echo ANSWER; sleep 60 &"),
        command("late", READ + "echo ANSWER", background=True),
        command("elsewhere", READ + "echo ANSWER", adapters=("claude",)),
    ]
    async with broker_with(*clients) as daemon, connected(daemon) as bus:
        found = await opened(bus)
        await until(lambda: not daemon.bus.dispatches)
        found |= {one.client_id: one for one in await recorded(daemon) if one.client_id == "late"}
    codes = {name: receipt.warnings[0].code if receipt.warnings else None for name, receipt in found.items()}
    assert codes == {
        "good": None,
        "failing": "exit_code",
        "hanging": "deadline",
        "missing": "spawn",
        "warm": None,
        "strange": "bad_answer",
        "holding": "pipe_held",
        "late": None,
    }
    assert {name for name, receipt in found.items() if receipt.failure_class} == {
        "failing",
        "hanging",
        "missing",
        "strange",
    }
    assert found["hanging"].failure_class is FailureClass.TIMEOUT
    facts = {name: receipt.telemetry_summary for name, receipt in found.items()}
    assert facts["good"]["client_stderr"] == "fine"
    assert facts["failing"]["client_stderr"] == "token=[redacted] is wrong"
    assert facts["failing"]["client_exit_code"] == 3


async def test_a_background_command_may_take_longer_than_a_hook_and_nothing_of_it_reaches_the_harness() -> None:
    """Real payloads of Codex, through the real hook."""
    calls = list(captured(next((CAPTURES / "codex/exec_tool_call").glob("*.jsonl"))))
    clients = [
        command("late", (sys.executable, str(EXAMPLE)), background=True, events=SERVABLE_EVENTS),
        command("warm", (sys.executable, str(EXAMPLE)), protocol="jsonl"),
    ]
    async with broker_with(*clients, hook_answer_ms=PATIENCE_MS) as daemon:
        answers: list[HookAnswer] = []
        for call, payload in calls:
            hook = [*PATIENT_COMMAND, "codex", call.hook]
            environ = {"LIFEBUS_RUNTIME_DIR": str(daemon.settings.runtime_dir), "HOME": "/dev/null"}
            done = await anyio.run_process(hook, input=json.dumps(payload).encode(), env=environ, check=True)
            answers.append(HookAnswer(stdout=done.stdout, exit_code=0))
        await until(lambda: not daemon.bus.dispatches)
        found = await recorded(daemon)
    late = [receipt for receipt in found if receipt.client_id == "late"]
    own = [receipt for receipt in found if receipt.client_id == "lifebus.hook"]
    assert {receipt.invocation_id for receipt in late} == {receipt.invocation_id for receipt in found}
    assert {receipt.parent_receipt_id for receipt in late} <= {None, *(receipt.receipt_id for receipt in found)}
    assert all(one.status is ReceiptStatus.SKIPPED for receipt in late for one in receipt.payload_receipts)
    assert own
    assert any(b"Be brief in" in answer.stdout for answer in answers)


async def test_a_broker_that_stops_ends_its_commands_within_its_bound() -> None:
    clients = [
        command("warm", "while read line; do echo ANSWER; done", protocol="jsonl", workers=3),
        command("deaf", "trap '' TERM HUP INT; while :; do sleep 60; done", protocol="jsonl", events=ENDING),
        command("late", "trap '' TERM; sleep 60 & sleep 60", background=True, deadline_ms=600_000),
    ]
    async with broker_with(*clients, shutdown_ms=1_000) as daemon:
        async with connected(daemon) as bus:
            await opened(bus)
            assert daemon.bus.dispatches == 1
        ledger = daemon.bus.ledger
        started = time.monotonic()
    assert time.monotonic() - started < SOON_S  # ten minutes, or for ever, if it waited for them
    assert ledger.status().queued == 0


async def test_a_background_client_that_the_end_cuts_off_is_in_the_ledger() -> None:
    with short_directory() as directory:
        client = command("late", "sleep 60", background=True, deadline_ms=600_000)
        settings = structs.replace(settings_in(directory, shutdown_ms=200), clients=(client,))
        async with nothing_left():
            async with running(settings) as daemon, connected(daemon) as bus:
                await opened(bus)
            async with running(structs.replace(settings, clients=())) as daemon:
                found = {receipt.client_id: receipt for receipt in await recorded(daemon)}
    assert found["late"].warnings[0].code == "stopped"
    assert found["late"].parent_receipt_id == found["test"].receipt_id


async def test_a_connected_worker_cannot_take_the_place_of_a_command() -> None:
    async with broker_with(command("notes", READ + "echo ANSWER")) as daemon, connected(daemon, "notes") as bus:
        with pytest.raises(StateConflict) as caught:
            await bus.serve([OPENING], content)
        assert caught.value.code == "configured"


async def test_commands_come_from_the_configuration_file_and_end_with_the_broker() -> None:
    async with nothing_left():
        with short_directory() as directory:
            config = directory / "config.toml"
            config.write_text(
                '[[clients]]\nclient_id = "notes"\nevents = ["frame.opening"]\nprotocol = "jsonl"\n'
                f'command = ["{sys.executable}", "{EXAMPLE}"]\ndeadline_ms = 10000\n'
            )
            async with (
                broker_process(directory, LIFEBUS_CONFIG=str(config)) as broker,
                lifebus.connect("test", runtime_dir=broker.runtime_dir) as bus,
            ):
                found = await opened(bus)
                assert found["notes"].payload_receipts
                await broker.kill()
