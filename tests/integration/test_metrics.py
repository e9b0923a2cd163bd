"""The metrics of a running broker: on the gateway and as a file, and true."""

import json
import os
import stat
from pathlib import Path

import anyio
import msgspec
import pytest

import lifebus
from lifebus_supervisor.configuration.settings import ClientSettings, MetricSettings
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_supervisor.metrics.families import FAMILIES
from lifebus_supervisor.metrics.text_file import write_text
from support.metric_pages import families_of, samples_of
from support.patience import PATIENCE_S
from support.running import connected, settings_in, short_directory, until_answered
from support.transports.gateway import emit, running_gateway
from support.transports.hook_server_box import a_call, ask


async def test_the_gateway_gives_metrics_to_whoever_has_the_token_alone() -> None:
    async with running_gateway() as (_, address):
        async with address.client() as client:
            answer = await client.get("/metrics")
        assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
        async with address.client({}) as client:
            assert (await client.get("/metrics")).status_code == 401
        async with address.client({**address.bearer, "Host": "elsewhere.example"}) as client:
            assert (await client.get("/metrics")).status_code == 403


async def test_every_counter_of_status_is_a_metric_with_its_value() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "s1", 3)
        shown = samples_of((await client.get("/metrics")).text)
        status = await bus.status()
        names = {one.counter: one.name for one in FAMILIES if one.counter}
        # Numbers of their own move between the two.
        moving = {"requests", "gateway_requests", "keeper_behind"}
        for counter, number in status.counters.items():
            assert counter in moving or shown[names[counter]] == {(): number}, counter
        assert shown["lifebus_ledger_head"] == {(): 3}
        assert shown["lifebus_info"] == {(status.version, status.contract_version, "sqlite", "full"): 1}


async def test_acknowledgements_and_dispatches_are_counted_once_each() -> None:
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "s1", 3)

        async def answer(_: lifebus.DispatchEnvelope) -> lifebus.CallbackResponse:
            return lifebus.CallbackResponse(
                schema_version=lifebus.CONTRACT_VERSION, status=lifebus.ReceiptStatus.DELIVERED
            )

        daemon.bus.register("asked", [lifebus.LifecycleEvent.SESSION_ENDED], answer)
        await bus.emit(lifebus.make_request("session.ended", "codex", session="s1"))
        shown = samples_of((await client.get("/metrics")).text)
        assert shown["lifebus_acknowledgement_seconds_count"] == {(): 3}
        assert shown["lifebus_dispatch_seconds_count"] == {(): 1}
        assert 0 < shown["lifebus_acknowledgement_seconds_sum"][()] < PATIENCE_S


async def send_call(daemon: Daemon, payload: dict[str, str]) -> None:
    """Send a hook call to the broker's socket, and wait for its answer."""
    call = a_call(hook=payload["hook_event_name"], call_id="hook-18c2f3a4b5c-1-1", stdin=json.dumps(payload).encode())
    await ask(daemon.settings.runtime_dir / "hook.sock", call)


async def test_ticks_are_counted_and_harnesses_have_their_sessions() -> None:
    async with running_gateway() as (daemon, address), address.client() as client:
        await send_call(daemon, {"hook_event_name": "SessionStart", "session_id": "s1", "source": "startup"})
        await daemon.supervisor.tick()
        shown = samples_of((await client.get("/metrics")).text)
        assert shown["lifebus_hook_seconds_count"] == {(): 1}
        assert shown["lifebus_tick_seconds_count"] == {(): 1}
        assert shown["lifebus_sessions"] == {("codex",): 1}
        assert shown["lifebus_sessions_waiting"] == {("codex",): 0}


async def test_sessions_make_no_series() -> None:
    """However many sessions there are, a page has as many lines as before."""
    async with running_gateway() as (daemon, address), connected(daemon) as bus, address.client() as client:
        await emit(bus, "first")
        before = (await client.get("/metrics")).text
        await bus.emit([lifebus.make_request("session.started", "codex", session=f"s{n}") for n in range(50)])
        after = (await client.get("/metrics")).text
        assert "first" not in after
        assert after.count("\n") == before.count("\n")


async def test_named_consumers_and_commands_have_their_numbers() -> None:
    with short_directory() as home:
        command = ClientSettings(
            client_id='co"mm', command=("/bin/false",), events=(lifebus.LifecycleEvent.FRAME_ENDED,)
        )
        async with running(msgspec.structs.replace(settings_in(home), clients=(command,))) as daemon:
            async with connected(daemon) as bus, bus.consume("mirror", since="start"):
                await emit(bus, "s1", 2)
                shown = samples_of(daemon.metrics())
            assert shown["lifebus_consumer_lag"] == {("mirror",): 2}
            assert shown["lifebus_consumer_attached"] == {("mirror",): 1}
            assert shown["lifebus_command_dispatches_total"] == {('co"mm',): 0}


async def test_the_file_is_there_while_the_broker_runs_and_is_written_again() -> None:
    with short_directory() as home:
        file = home / "lifebus.prom"
        settings = msgspec.structs.replace(settings_in(home), metrics=MetricSettings(file=str(file), every_s=1))

        async def head() -> float:
            if not file.exists():
                return -1
            return samples_of(file.read_text())["lifebus_ledger_head"][()]

        async with running(settings) as daemon, connected(daemon) as bus:
            with anyio.fail_after(PATIENCE_S):
                await until_answered(head, lambda found: found == 0)
                await emit(bus, "s1", 2)
                await until_answered(head, lambda found: found == 2)
            assert stat.S_IMODE(file.stat().st_mode) == 0o644
            assert set(families_of(file.read_text())) <= {one.name for one in FAMILIES}
        assert not file.exists()
        assert [path.name for path in home.iterdir() if path.name.endswith(".tmp")] == []


async def test_a_file_that_cannot_be_written_ends_nothing_and_is_tried_again() -> None:
    with short_directory() as home:
        file = home / "later" / "lifebus.prom"
        settings = msgspec.structs.replace(settings_in(home), metrics=MetricSettings(file=str(file), every_s=1))

        async def is_there() -> bool:
            return file.exists()

        async with running(settings) as daemon, connected(daemon) as bus:
            await emit(bus, "s1")
            file.parent.mkdir()
            with anyio.fail_after(PATIENCE_S):
                await until_answered(is_there, bool)


def test_a_file_is_replaced_in_one_step_and_no_link_is_followed(tmp_path: Path) -> None:
    path, elsewhere = tmp_path / "a.prom", tmp_path / "elsewhere"
    write_text(path, "a 1\n")
    with path.open() as reader:
        write_text(path, "a 2\n")
        assert reader.read() == "a 1\n"
    elsewhere.write_text("kept")
    (tmp_path / f".a.prom.{os.getpid()}.tmp").symlink_to(elsewhere)
    with pytest.raises(OSError, match="tmp"):
        write_text(path, "a 3\n")
    assert (elsewhere.read_text(), path.read_text()) == ("kept", "a 2\n")
