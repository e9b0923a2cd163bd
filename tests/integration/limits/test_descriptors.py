"""More connections than the broker may have descriptors: it stays, serves who was there, and recovers."""

import resource
import socket
import struct
from contextlib import ExitStack, suppress
from pathlib import Path

import anyio.to_thread
import pytest

import lifebus
from support.broker_process import BrokerProcess, broker_process, until
from support.clients.hook_box import HookBox
from support.integration.peers import honest_traffic
from support.patience import PATIENCE_S
from support.running import short_directory

SPARE = 24
CONNECTIONS = 100
USUAL = 1_024
ROUNDS = 3
MEBIBYTE = 1_048_576
STEADY = {"LIFEBUS_SCRUB_EVERY_H": "0"}
"""The broker opens no file for a while."""

HOOK = b'{"session_id":"h","hook_event_name":"SessionStart","source":"startup","cwd":"/w"}'


def crowd(stack: ExitStack, path: Path, many: int) -> None:
    """Connect to a socket again and again, and stay; nobody has to accept."""
    for _ in range(many):
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.setblocking(False)
        with suppress(OSError):  # nobody accepts any more, and the queue is full
            connection.connect(str(path))


def queue_up(stack: ExitStack, path: Path, many: int) -> None:
    """Connect to a socket again and again, and stay; each waits for room in the queue of those to be accepted."""
    for _ in range(many):
        connection = stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(PATIENCE_S), 0))
        connection.connect(str(path))


def sockets(broker: BrokerProcess) -> int:
    """How many sockets a broker has: files come and go."""
    found = 0
    for descriptor in Path(f"/proc/{broker.pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # closed meanwhile
            found += str(descriptor.readlink()).startswith("socket:")
    return found


async def serves(broker: BrokerProcess) -> None:
    """Somebody new is served."""
    async with lifebus.connect("new", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus:
        result = await bus.emit(lifebus.make_request("session.started", "codex", session="new"))
        assert result.receipts[0].sequence
        assert (await bus.verify()).faults == ()


async def counter(broker: BrokerProcess, name: str) -> int:
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        return (await bus.status()).counters[name]


async def test_without_descriptors_those_who_are_there_are_served_and_afterwards_everybody() -> None:
    memory: list[int] = []
    with short_directory() as directory:
        async with broker_process(directory, **STEADY) as broker:
            async with honest_traffic(broker.runtime_dir, session="honest") as traffic:
                before = broker.descriptors
                limit = before + SPARE
                resource.prlimit(broker.pid, resource.RLIMIT_NOFILE, (limit, limit))
                for _ in range(ROUNDS):
                    with ExitStack() as stack:
                        crowd(stack, broker.runtime_dir / "hook.sock", CONNECTIONS)
                        await until(lambda: broker.descriptors >= limit - 1)
                        await traffic.goes_on()
                    await until(lambda: broker.descriptors <= before + 2)
                    await traffic.goes_on()
                    memory.append(broker.memory)
            await serves(broker)
            assert await counter(broker, "hook_starved") >= 1
            run = await anyio.to_thread.run_sync(HookBox(directory).run, HOOK)
            assert (run.code, run.stderr) == (0, b"")
            assert "hook_starved" in broker.log
            assert await broker.terminate() == 0
    assert memory[-1] - memory[0] < 16 * MEBIBYTE


async def test_more_connections_than_the_usual_limit_of_descriptors_are_taken_at_the_zeromq_doors() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * USUAL + CONNECTIONS or hard == resource.RLIM_INFINITY:
        pytest.skip("the test itself needs more descriptors than it may have")
    with short_directory() as directory, ExitStack() as limits:
        resource.setrlimit(resource.RLIMIT_NOFILE, (USUAL, hard))  # the broker inherits it
        limits.callback(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        async with broker_process(directory, **STEADY) as broker:
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4 * USUAL), hard))
            async with honest_traffic(broker.runtime_dir, session="honest") as traffic:
                before = broker.descriptors
                with ExitStack() as stack:
                    door = broker.runtime_dir / "requests.ipc"
                    await anyio.to_thread.run_sync(queue_up, stack, door, USUAL + 2 * CONNECTIONS)
                    await until(lambda: sockets(broker) > USUAL)
                    await traffic.goes_on()
                await until(lambda: broker.descriptors <= before + 2)
            await serves(broker)
