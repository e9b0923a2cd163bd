"""The composition root in this process: it opens in order, stops in order, and leaves nothing behind."""

import os
import stat
import threading

import anyio
import msgspec
import psutil
import pytest
import zmq

import lifebus
from lifebus_contract import CallbackResponse, DispatchEnvelope, Emission, InternalError, LifebusError, LifecycleEvent
from lifebus_supervisor.daemon.halt import EXIT_IO, EXIT_OK, Halt
from lifebus_supervisor.daemon.lifecycle import running
from lifebus_transports.framing.frames import BEACON_TOPIC
from lifebus_transports.messages.reads import Beacon
from support.broker_process import until
from support.patience import PATIENCE_MS, PATIENCE_S
from support.running import connected, running_bus, settings_in, short_directory

POOLED = ("AnyIO worker thread", "asyncio_")
"""What the names of threads begin with that are kept for the next work of an event loop."""


async def test_the_first_reason_to_halt_counts() -> None:
    halt = Halt()
    halt.storage_failed(InternalError("disk"))
    halt.stop(EXIT_OK)
    assert (halt.event.is_set(), halt.exit_code) == (True, EXIT_IO)


async def test_every_socket_is_open_and_ours_alone_when_it_is_up() -> None:
    async with running_bus() as daemon:
        found = {path.name: path.stat().st_mode for path in daemon.settings.runtime_dir.iterdir()}
    assert sorted(found) == ["hook.sock", "lines.sock", "lock", "receipts.ipc", "requests.ipc"]
    assert all(mode & 0o077 == 0 for mode in found.values())
    assert [name for name, mode in sorted(found.items()) if not stat.S_ISSOCK(mode)] == ["lock"]


async def test_it_can_be_started_and_stopped_again_and_again_without_leaking() -> None:
    process = psutil.Process(os.getpid())

    def held() -> tuple[int, int]:
        """How many descriptors and threads there are, without threads of pools: how many those keep is luck."""
        pooled = [thread.name for thread in threading.enumerate() if thread.name.startswith(POOLED)]
        return process.num_fds(), process.num_threads() - len(pooled)

    counts: list[tuple[int, int]] = []
    with short_directory() as directory:
        for number in range(1, 8):
            async with running_bus(directory=directory) as daemon, connected(daemon) as bus:
                result = await bus.emit(lifebus.make_request("session.started", "codex", session="s"))
                assert result.receipts[0].sequence == number
            counts.append(held())
    # The last thread of a context may still be on its way out when it has been waited for.
    await until(lambda: all(now <= then for now, then in zip(held(), counts[1], strict=True)))


async def test_a_failing_start_lets_go_of_everything() -> None:
    with short_directory() as directory:
        settings = settings_in(directory)
        (directory / "state").mkdir(mode=0o700)
        settings.ledger_path.write_bytes(b"no database" * 100)
        for _ in range(3):
            with pytest.raises(LifebusError) as refused:
                async with running(settings):
                    raise AssertionError("it must not start")
            assert refused.value.code == "ledger_failed"
        settings.ledger_path.unlink()
        async with running(settings) as daemon:
            assert daemon.bus.ledger.head == 0


async def test_a_second_one_in_the_same_process_is_refused_too() -> None:
    async with running_bus() as daemon:
        with pytest.raises(LifebusError) as refused:
            async with running(daemon.settings):
                raise AssertionError("it must not start")
    assert refused.value.code == "already_running"


BEACON_MS = 50
AFTERWARDS_MS = 200
"""How long is listened whether anything comes after the last beacon."""


async def some_beacons_long() -> None:
    with anyio.move_on_after(4 * BEACON_MS / 1000):
        await anyio.sleep_forever()


async def test_a_stop_is_announced_by_a_last_beacon(monkeypatch: pytest.MonkeyPatch) -> None:
    beacons: list[Beacon] = []
    with zmq.Context() as context, context.socket(zmq.SUB) as listener:
        listener.setsockopt(zmq.SUBSCRIBE, BEACON_TOPIC)
        async with running_bus(beacon_ms=BEACON_MS) as daemon:
            listener.connect(f"ipc://{daemon.settings.runtime_dir / 'receipts.ipc'}")
            await until(lambda: bool(listener.poll(0)))
            # What has not left 200 ms after the end is dropped, and a busy machine may take longer to send anything.
            daemon.receipts._socket.setsockopt(zmq.LINGER, PATIENCE_MS)
            monkeypatch.setattr(daemon.snapshots, "stop", some_beacons_long)
        # One publisher's messages come in order, and on a busy machine late: wait for the last one, and then for none.
        while listener.poll(AFTERWARDS_MS if beacons and beacons[-1].closing else PATIENCE_MS):
            beacons.append(msgspec.msgpack.decode(listener.recv_multipart()[2], type=Beacon))
    assert [beacon.closing for beacon in beacons] == [False] * (len(beacons) - 1) + [True]


async def test_a_ledger_that_fails_halts_the_broker_and_is_not_waited_for() -> None:
    """A dispatch that never ends would hold an orderly stop; after a failure nothing can become durable any more."""
    asked = anyio.Event()

    async def hang(_: DispatchEnvelope) -> CallbackResponse:
        asked.set()
        await anyio.sleep_forever()
        return CallbackResponse.ok()

    async with running_bus(shutdown_ms=60_000) as daemon, connected(daemon) as bus, anyio.create_task_group() as tasks:
        daemon.bus.register("hangs", [LifecycleEvent.SESSION_STARTED], hang, deadline=600.0)
        tasks.start_soon(bus.emit, lifebus.make_request("session.started", "codex", session="s"))
        with anyio.fail_after(PATIENCE_S):
            await asked.wait()
        daemon.halt.storage_failed(InternalError("disk"))
        tasks.cancel_scope.cancel()
        began = anyio.current_time()
    assert anyio.current_time() - began < 10.0


async def test_what_was_queued_when_it_stops_is_durable_afterwards() -> None:
    requests = [lifebus.make_request("session.started", "codex", session="s") for _ in range(500)]
    with short_directory() as directory:
        async with running_bus(directory=directory) as daemon:
            emissions = [Emission(request=request) for request in requests]
            daemon.bus.submit("c", emissions, lambda _: None)
        async with running_bus(directory=directory) as daemon:
            assert daemon.bus.ledger.head == 500
