"""How a broker starts, and what keeps it from starting: each with its exit code and a sentence that says what to do."""

import json
import os
from pathlib import Path

import pytest

import lifebus
from support.broker_process import BrokerProcess, broker_process, start_broker
from support.golden import golden
from support.running import short_directory

HELD, CONFIGURATION, IO = 69, 78, 74
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user, which needs root")


async def refused_start(directory: Path, **settings: str) -> tuple[int, str]:
    """Start a broker that cannot start, and return its exit code and what it said."""
    broker = start_broker(directory, **settings)
    try:
        assert not await broker.ready()
        return await broker.ended(), broker.log
    finally:
        broker.close()


async def record(broker: BrokerProcess, session: str = "s1") -> lifebus.Emitted:
    async with lifebus.connect(runtime_dir=broker.runtime_dir) as bus:
        return await bus.emit(lifebus.make_request("session.started", "codex", session=session))


async def test_a_second_broker_says_who_holds_the_directory_and_steals_nothing() -> None:
    with short_directory() as directory:
        async with (
            broker_process(directory) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir) as bus,
        ):
            code, said = await refused_start(directory, LIFEBUS_STATE_DIR=str(directory / "other"))
            assert code == HELD
            assert f"process {broker.pid}, running since 20" in said
            assert (await bus.status()).pid == broker.pid
            result = await record(broker)
    assert [receipt.sequence for receipt in result.receipts] == [1]


async def test_sockets_that_a_killed_broker_left_behind_are_taken_over() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await record(broker)
            await broker.kill()
            assert sorted(path.name for path in broker.runtime_dir.iterdir()) == [
                "hook.sock",
                "lines.sock",
                "lock",
                "receipts.ipc",
                "requests.ipc",
            ]
        async with broker_process(directory) as broker:
            result = await record(broker)
    assert [receipt.sequence for receipt in result.receipts] == [2]


async def test_a_stopped_broker_leaves_no_socket_and_the_next_one_goes_on_counting() -> None:
    with short_directory() as directory:
        for number in (1, 2, 3):
            async with broker_process(directory) as broker:
                result = await record(broker)
                assert [receipt.sequence for receipt in result.receipts] == [number]
                assert await broker.terminate() == 0
                assert [path.name for path in broker.runtime_dir.iterdir()] == ["lock"]


async def test_every_door_and_directory_is_closed_to_others() -> None:
    with short_directory() as directory:
        async with broker_process(directory) as broker:
            await record(broker)
            made = [broker.runtime_dir, *broker.runtime_dir.iterdir(), directory / "state", broker.ledger_path]
            assert {path.name: path.stat().st_mode & 0o077 for path in made} == {path.name: 0 for path in made}


@pytest.mark.parametrize("mode", [0o755, 0o710, 0o701, 0o777])
async def test_a_runtime_directory_that_others_may_enter_is_refused(mode: int) -> None:
    with short_directory() as directory:
        (directory / "run").mkdir()
        (directory / "run").chmod(mode)
        code, said = await refused_start(directory)
    assert code == CONFIGURATION
    assert f"chmod 700 {directory / 'run'}" in said


@as_root
async def test_a_runtime_directory_of_another_user_is_refused() -> None:
    with short_directory() as directory:
        (directory / "run").mkdir(mode=0o700)
        os.chown(directory / "run", 65534, 65534)
        code, said = await refused_start(directory)
    assert code == CONFIGURATION
    assert "belongs to user 65534" in said


async def test_a_runtime_directory_behind_a_link_is_refused() -> None:
    with short_directory() as directory:
        (directory / "real").mkdir(mode=0o700)
        (directory / "run").symlink_to(directory / "real")
        code, said = await refused_start(directory)
        assert list((directory / "real").iterdir()) == []
    assert code == CONFIGURATION
    assert "no link is followed" in said


async def test_a_path_that_no_socket_can_have_is_refused_with_the_way_out() -> None:
    with short_directory() as directory:
        code, said = await refused_start(directory, LIFEBUS_RUNTIME_DIR=str(directory / ("long" * 30)))
    assert code == CONFIGURATION
    assert "set LIFEBUS_RUNTIME_DIR to a shorter directory" in said


async def test_something_else_in_the_place_of_a_socket_is_left_alone() -> None:
    with short_directory() as directory:
        (directory / "run").mkdir(mode=0o700)
        (directory / "run" / "requests.ipc").write_text("precious")
        code, said = await refused_start(directory)
        assert (directory / "run" / "requests.ipc").read_text() == "precious"
    assert code == CONFIGURATION
    assert "in the way" in said


async def test_a_third_party_manifest_is_loaded() -> None:
    with short_directory() as directory:
        manifest = directory / "theirs.json"
        manifest.write_text(json.dumps(golden("manifest", adapter_id="theirs")))
        async with (
            broker_process(directory, LIFEBUS_MANIFESTS=str(manifest)) as broker,
            lifebus.connect(runtime_dir=broker.runtime_dir) as bus,
        ):
            known = {one.adapter_id for one in await bus.manifests()}
    assert known == {"codex", "claude", "gemini", "opencode", "hermes", "openclaw", "flow", "theirs"}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        ("{", "not valid JSON"),
        (json.dumps(golden("manifest", adapter_id="theirs", bogus=1)), "bogus"),
        (json.dumps(golden("manifest", adapter_id="codex")), "codex"),
    ],
)
async def test_a_third_party_manifest_that_cannot_be_used_keeps_the_broker_from_starting(
    content: str | None, said: str
) -> None:
    with short_directory() as directory:
        manifest = directory / "theirs.json"
        if content is not None:
            manifest.write_text(content)
        code, log = await refused_start(directory, LIFEBUS_MANIFESTS=str(manifest))
    assert code == CONFIGURATION
    assert said in log


async def test_a_ledger_file_that_is_none_is_refused_and_left_alone() -> None:
    with short_directory() as directory:
        (directory / "state").mkdir(mode=0o700)
        (directory / "state" / "ledger.db").write_bytes(b"precious" * 1000)
        code, said = await refused_start(directory)
        assert (directory / "state" / "ledger.db").read_bytes() == b"precious" * 1000
    assert code == IO
    assert "ledger.db" in said
