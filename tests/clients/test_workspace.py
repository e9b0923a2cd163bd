"""`lifebus.Workspace`: the files beneath a root for programs with an event loop, and without one."""

from pathlib import Path

import anyio
import pytest

import lifebus
import lifebus.blocking


async def test_files_are_written_read_and_deleted_side_by_side(tmp_path: Path) -> None:
    async with lifebus.Workspace(tmp_path) as files:
        assert files.root == tmp_path

        async def go(number: int) -> None:
            await files.write(f"a/{number}", str(number))
            assert await files.read(f"a/{number}") == str(number)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(go, number)
        assert await files.list("a") == sorted(str(number) for number in range(20))
        await files.delete("a/1")
        assert [await files.exists("a/1"), await files.exists("a/2")] == [False, True]
        written = await files.write_bytes("b", b"\xff")
        assert [await files.read_bytes("b"), await files.digest("b")] == [b"\xff", written]
        with pytest.raises(lifebus.LifebusError) as refused:
            await files.read("../x")
        assert refused.value.code == "path_outside"
    with pytest.raises(lifebus.LifebusError, match="is closed"):
        await files.read("b")


def test_without_an_event_loop_it_is_the_same(tmp_path: Path) -> None:
    with lifebus.blocking.BlockingWorkspace(tmp_path, max_file_bytes=1) as files, lifebus.Workspace(tmp_path):
        files.write("a", "x")
        with pytest.raises(lifebus.LifebusError, match="more than 1 bytes"):
            files.write("a", "xx")
        assert files.read("a") == "x"
