"""A client that is there before its broker: it waits for one, for as long as it may, and looks seldom."""

import asyncio
import threading
from pathlib import Path

import pytest

import lifebus
import lifebus.blocking
from lifebus._internal.connection import broker_directory
from lifebus_contract import LifebusError, TransportError
from support.broker_process import broker_process
from support.patience import PATIENCE_S
from support.running import running_bus, short_directory


async def _pid(directory: Path) -> int:
    async with lifebus.connect("early", runtime_dir=directory / "run", timeout=PATIENCE_S, wait=True) as bus:
        return (await bus.status()).pid


class Looks:
    """Counts the looks at a directory, and says when there was one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        self.first = threading.Event()

        def counted(path: Path) -> Path:
            self.count += 1
            self.first.set()
            return broker_directory(path)

        monkeypatch.setattr("lifebus._internal.arrival.broker_directory", counted)

    async def wait(self) -> None:
        assert await asyncio.to_thread(self.first.wait, PATIENCE_S)


async def test_it_waits_for_a_broker_that_comes_later_and_for_the_next_where_one_was_killed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with short_directory() as directory:
        looks = Looks(monkeypatch)
        early = asyncio.create_task(_pid(directory))
        await looks.wait()
        async with broker_process(directory) as broker:
            assert await early == broker.pid
            await broker.kill()
        # The sockets of the dead one are still there.
        assert (directory / "run/requests.ipc").exists()
        looks.first.clear()
        early = asyncio.create_task(_pid(directory))
        await looks.wait()
        async with broker_process(directory) as broker:
            assert await early == broker.pid


async def test_the_wait_is_bounded_and_looks_seldom(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    looks = Looks(monkeypatch)
    with pytest.raises(TransportError, match="no broker came to") as caught:
        async with lifebus.connect("early", runtime_dir=tmp_path / "run", timeout=0.7, wait=True):
            pass
    assert caught.value.code == "no_broker"
    # 20, 40, 80, 160 and 300 ms between them: a machine that is slow looks less often, none looks more often.
    assert 1 <= looks.count <= 7


async def test_without_wait_it_is_refused_at_once_as_ever(tmp_path: Path) -> None:
    with pytest.raises(TransportError, match="no broker at"):
        async with lifebus.connect("early", runtime_dir=tmp_path / "run", timeout=PATIENCE_S):
            pass


async def test_a_directory_of_others_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir(mode=0o777)
    (tmp_path / "run").chmod(0o777)
    with pytest.raises(LifebusError) as caught:
        async with lifebus.connect("early", runtime_dir=tmp_path / "run", timeout=PATIENCE_S, wait=True):
            pass
    assert caught.value.code == "directory_mode"


async def test_a_script_without_an_event_loop_waits_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with short_directory() as directory:
        looks = Looks(monkeypatch)

        def ask() -> str:
            runtime_dir = directory / "run"
            with lifebus.blocking.connect("early", runtime_dir=runtime_dir, timeout=PATIENCE_S, wait=True) as bus:
                return bus.status().runtime_dir

        early = asyncio.create_task(asyncio.to_thread(ask))
        await looks.wait()
        async with running_bus(directory=directory):
            assert await early == str(directory / "run")
