"""A broker that died: whoever waits for it knows within a second, because its lock is free (docs/configuration.md)."""

import asyncio
import fcntl
import signal
import sys
import termios
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus.cli.arguments import ConnectionOptions
from lifebus.cli.connection import on_bus
from lifebus_contract import TransportError
from support.broker_process import broker_process, until
from support.command_line import Shell, broker_up
from support.patience import PATIENCE_S, SOON_S
from support.running import short_directory

REQUEST_BYTES = 12
"""Less than any request has, and more than wakes up a loop."""
LONG = "600s"
"""What each command would wait for an answer without a look at the lock."""


async def read_all(bus: lifebus.Bus) -> None:
    async for _ in bus.receipts(until_head=True):
        pass


async def consume(bus: lifebus.Bus) -> None:
    async with bus.consume("mine") as deliveries:
        async for _ in deliveries:
            pass


WAITING: dict[str, Callable[[lifebus.Bus], Awaitable[object]]] = {
    "status": lambda bus: bus.status(),
    "emit": lambda bus: bus.emit(lifebus.make_request("session.started", "codex", session="s")),
    "verify": lambda bus: bus.verify(),
    "save": lambda bus: bus.saves.save("SESSION"),
    "prune": lambda bus: bus.ledger.prune(1),
    "receipts": read_all,
    "consume": consume,
}


@pytest.mark.parametrize("what", WAITING)
async def test_a_command_whose_broker_dies_knows_within_a_second_whatever_it_waits_for(what: str) -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            took: list[float] = []

            async def die_under(bus: lifebus.Bus) -> None:
                # Stopped first: the request is under way, and nobody answers it.
                broker.signal(signal.SIGSTOP)
                # Without a task group: whether the request or the watch over it fails first, one fault is raised.
                asyncio.get_running_loop().call_soon(broker.signal, signal.SIGKILL)
                took.append(time.monotonic())
                await WAITING[what](bus)

            options = ConnectionOptions(runtime_dir=broker.runtime_dir, timeout=LONG)
            with pytest.raises(TransportError) as gone:
                await anyio.to_thread.run_sync(lambda: on_bus(options, die_under))
            assert time.monotonic() - took[0] < SOON_S
    assert gone.value.code == "no_broker"


def unread_by_peers() -> int:
    """Return how many bytes this process has sent over its sockets that nobody has read."""
    unread = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            unread += int.from_bytes(fcntl.ioctl(int(descriptor.name), termios.TIOCOUTQ, bytes(4)), sys.byteorder)
    return unread


@pytest.mark.parametrize("what", ["save", "prune", "verify"])
async def test_what_takes_long_was_lost_with_the_broker_that_was_asked_though_another_one_runs(what: str) -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir, timeout=600.0) as bus,
        ):
            broker.signal(signal.SIGSTOP)
            before = unread_by_peers()
            lost: list[str | None] = []
            async with anyio.create_task_group() as tasks:
                answered = anyio.Event()

                async def ask() -> None:
                    try:
                        await WAITING[what](bus)
                    except TransportError as fault:
                        lost.append(fault.code)
                    answered.set()

                tasks.start_soon(ask)
                # What ZeroMQ has not sent yet would go to the next broker, and be answered.
                await until(lambda: unread_by_peers() >= before + REQUEST_BYTES)
                await broker.kill()
                async with broker_process(directory):
                    with anyio.fail_after(SOON_S):
                        await answered.wait()
            assert lost == ["no_broker"]


async def test_the_files_of_a_dead_broker_are_no_broker() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await broker.kill()
        began = time.monotonic()
        with pytest.raises(TransportError) as gone:
            async with lifebus.connect(runtime_dir=directory / "run", timeout=600.0):
                pass
    assert gone.value.code == "no_broker"
    assert time.monotonic() - began < SOON_S


def test_tail_outlives_its_broker_and_says_so() -> None:
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell) as up, shell.started("tail", "--from", "start", "--json") as tail:
            shell.call("emit", "session.started", "--adapter", "codex", "--session", "one")
            assert tail.stdout is not None
            assert tail.stderr is not None
            assert b'"one"' in tail.stdout.readline()
            up.process.kill()
            assert b"is gone; waiting for another one" in tail.stderr.readline()
            with broker_up(shell):
                assert b"runs again" in tail.stderr.readline()
                shell.call("emit", "session.started", "--adapter", "codex", "--session", "two")
                assert b'"two"' in tail.stdout.readline()
                tail.send_signal(signal.SIGINT)
                assert tail.wait(PATIENCE_S) == 130
