"""The shims of steps: few are kept, a killed one costs nobody a step, and none outlives its owner."""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import psutil
import pytest

from lifebus_contract.flows import OutcomeKind
from lifebus_transports.processes.shim_pool import SHIMS, Shim, ShimPool
from support.clients.proxy_box import eventually
from support.leftovers import has_ended
from support.supervisor.steps import OWNER, brief, run, sh_step
from support.transports.children import nothing_left

EXITED = OutcomeKind.EXITED


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    async with nothing_left():
        yield


async def test_an_idle_shim_that_was_killed_costs_nobody_a_step(tmp_path: Path) -> None:
    await run(sh_step(tmp_path, "true"))
    for shim in SHIMS.idle:
        psutil.Process(shim.pid).kill()
    assert brief(await run(sh_step(tmp_path, "exit 4"))) == (EXITED, 4, None)


async def test_a_stopped_or_sleeping_owner_is_no_end_and_signals_of_a_terminal_are_not_the_shims(
    tmp_path: Path,
) -> None:
    await run(sh_step(tmp_path, "true"))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(SHIMS.idle[-1].pid, number)
    before = SHIMS.idle[-1].pid
    assert brief(await run(sh_step(tmp_path, "exit 4"))) == (EXITED, 4, None)
    assert SHIMS.idle[-1].pid == before


async def test_steps_beside_one_another_do_not_mix_and_few_shims_stay(tmp_path: Path) -> None:
    ends: dict[int, object] = {}

    async def one(number: int) -> None:
        command = sh_step(tmp_path, f"echo {number}; sleep 0.05; exit {number}", output=tmp_path / f"{number}.1")
        ends[number] = brief(await run(command))

    async with anyio.create_task_group() as tasks:
        for number in range(12):
            tasks.start_soon(one, number)
    assert ends == {number: (EXITED, number, None) for number in range(12)}
    assert {number: int((tmp_path / f"{number}.1.out").read_text()) for number in range(12)} == {
        n: n for n in range(12)
    }
    assert len(SHIMS.idle) == 2


def test_who_discards_a_shim_does_not_wait_for_its_end() -> None:
    ours, theirs = socket.socketpair()
    pool = ShimPool()
    with theirs, subprocess.Popen(["cat"], stdin=subprocess.PIPE) as slow:  # ends with its input, not with the channel
        pool.discard(Shim(slow.pid, ours))
        assert theirs.recv(1) == b""  # its channel is closed
        assert psutil.Process(slow.pid).status() != psutil.STATUS_ZOMBIE
        assert slow.stdin is not None
        slow.stdin.close()
        eventually(lambda: not psutil.pid_exists(slow.pid))


def test_a_stopped_shim_ends_all_the_same_when_it_is_discarded() -> None:
    pool = ShimPool()
    shim = pool.take()
    os.kill(shim.pid, signal.SIGSTOP)
    eventually(lambda: psutil.Process(shim.pid).status() == psutil.STATUS_STOPPED)
    pool.discard(shim)
    eventually(lambda: not psutil.pid_exists(shim.pid))


def test_the_shims_of_an_owner_end_with_it(tmp_path: Path) -> None:
    show = OWNER + (
        "from lifebus_transports.processes.shim_pool import SHIMS\n"
        "print(*(shim.pid for shim in SHIMS.idle), flush=True)\ninput()\n"
    )
    words = [sys.executable, "-c", show, str(tmp_path), "pass"]
    source = str(Path(__file__).parents[2])
    with subprocess.Popen(
        words, env=os.environ | {"PYTHONPATH": source}, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as owner:
        assert owner.stdout is not None
        (shim,) = (int(pid) for pid in owner.stdout.readline().split())
        assert psutil.pid_exists(shim)
        owner.kill()
    eventually(lambda: has_ended(shim))
