"""Waking up by notices of the operating system: when something happens, not too often, and never for ever."""

import threading
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest
import structlog
import watchfiles

from lifebus_supervisor.tailing import notify
from support.patience import PATIENCE_S
from support.supervisor.tailing_box import Box, line, source, write


@asynccontextmanager
async def waked(box: Box) -> AsyncIterator[AsyncGenerator[None, None]]:
    with anyio.fail_after(PATIENCE_S):
        async with aclosing(box.tailer.changes()) as changes:
            yield changes


async def wakes_while_writing(changes: AsyncGenerator[None, None], path: Path, times: int) -> list[float]:
    """Write until a notification has come so often; return when it did."""
    waked_at: list[float] = []

    async def keep_writing() -> None:
        for number in range(1_000_000):
            write(path, line(number))
            await anyio.to_thread.run_sync(enough.wait, 0.01)

    enough = threading.Event()
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(keep_writing)
        for _ in range(times):
            await anext(changes)
            waked_at.append(anyio.current_time())
        tasks.cancel_scope.cancel()
    enough.set()
    return waked_at


async def test_a_file_that_grows_wakes_us_at_most_every_200_ms(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    await box.poll()
    async with waked(box) as changes:
        waked_at = await wakes_while_writing(changes, tmp_path / "s.jsonl", 5)
    assert all(after - before >= 0.2 for before, after in pairwise(waked_at))


async def test_reading_wakes_nobody(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    await box.poll()
    async with waked(box) as changes:
        await wakes_while_writing(changes, tmp_path / "s.jsonl", 1)
        await box.poll()
        while True:
            with anyio.move_on_after(1.5) as quiet:
                await anext(changes)
            if quiet.cancelled_caught:
                break
            await box.poll()


async def test_a_new_folder_is_monitored_from_the_next_poll_on(tmp_path: Path) -> None:
    box = Box(tmp_path, source(tmp_path, pattern="*/*.jsonl"))
    await box.poll()
    async with waked(box) as changes:
        # The root is monitored once something in it has been noticed: a folder made before that is nobody's news.
        await wakes_while_writing(changes, tmp_path / "elsewhere", 1)
        (tmp_path / "project").mkdir()
        await anext(changes)
        write(tmp_path / "project" / "s.jsonl", line(1))
        assert await box.tokens() == [1]
        await wakes_while_writing(changes, tmp_path / "project" / "s.jsonl", 2)


async def test_a_root_that_appears_later_is_monitored_then(tmp_path: Path) -> None:
    box = Box(tmp_path, source(tmp_path / "root"))
    await box.poll()
    async with waked(box) as changes, anyio.create_task_group() as tasks:
        tasks.start_soon(anext, changes)
        (tmp_path / "root").mkdir()
        await box.poll()


async def test_a_folder_that_goes_away_does_not_end_the_notifications(tmp_path: Path) -> None:
    box = Box(tmp_path, source(tmp_path, pattern="*/*.jsonl"))
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        write(tmp_path / name / "s.jsonl", line(1))
    await box.poll()
    (tmp_path / "a" / "s.jsonl").unlink()
    (tmp_path / "a").rmdir()
    async with waked(box) as changes:
        await wakes_while_writing(changes, tmp_path / "b" / "s.jsonl", 2)


@pytest.mark.parametrize("fault", [OSError("no more watches"), RuntimeError("internal")])
async def test_where_the_system_cannot_notify_it_ends_quietly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Exception
) -> None:
    def refuse(*paths: str, **options: Any) -> Any:
        raise fault

    monkeypatch.setattr(watchfiles, "watch", refuse)
    box = Box(tmp_path)
    await box.poll()
    with structlog.testing.capture_logs() as logs:
        async with waked(box) as changes:
            assert [wake async for wake in changes] == []
    assert [(entry["event"], entry["log_level"]) for entry in logs] == [("change_notifications_ended", "info")]


async def test_no_thread_is_left_when_nobody_listens_any_more(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    await box.poll()
    async with waked(box) as changes:
        await wakes_while_writing(changes, tmp_path / "s.jsonl", 1)
        with anyio.move_on_after(0.01):
            async for _ in changes:
                pass
    for thread in [thread for thread in threading.enumerate() if thread.name == "change notifications"]:
        await anyio.to_thread.run_sync(thread.join, PATIENCE_S)
        assert not thread.is_alive()


def test_the_folders_that_are_monitored_are_limited() -> None:
    assert len(notify._limited(lambda: [str(number) for number in range(10_000)])) == notify.MAX_FOLDERS
