"""What watching costs: counted in calls of the operating system, not in time."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lifebus_supervisor.tailing.discovery import SWEPT_PER_POLL
from lifebus_supervisor.tailing.listing import NEWEST_DATES
from support.supervisor.tailing_box import Box, line, source, write

FILES = 1_000


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Count the calls that touch the file system."""
    calls: Counter[str] = Counter()

    def counting(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            calls[name] += 1
            return real(*arguments, **named)

        return call

    with monkeypatch.context() as patched:
        for name in ("lstat", "stat", "fstat", "open", "scandir", "listdir", "pread", "readlink"):
            patched.setattr(os, name, counting(name, getattr(os, name)))
        yield calls


async def settled(box: Box) -> None:
    """Poll until everything is found and read, and no time stamp is fresh."""
    box.ahead = 10
    while await box.poll():
        pass
    await box.poll()


async def test_a_thousand_idle_files_cost_a_stat_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(tmp_path)
    for number in range(FILES):
        write(tmp_path / f"{number}.jsonl", line(number))
    await settled(box)
    assert len(box.tailer.files()) == FILES
    with counted(monkeypatch) as calls:
        assert await box.poll() == []
    assert calls == {"lstat": FILES + 1}


async def test_of_a_thousand_files_only_the_one_that_grew_is_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box(tmp_path)
    for number in range(FILES):
        write(tmp_path / f"{number}.jsonl", line(number))
    await settled(box)
    write(tmp_path / "500.jsonl", line(7))
    with counted(monkeypatch) as calls:
        assert await box.tokens() == [7]
    assert calls == {"lstat": FILES + 1, "open": 2, "fstat": 1, "pread": 3}


async def test_old_files_are_checked_a_few_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box = Box(tmp_path)
    for number in range(FILES):
        write(tmp_path / f"{number}.jsonl", line(number))
        os.utime(tmp_path / f"{number}.jsonl", (0, 0))
    await settled(box)
    with counted(monkeypatch) as calls:
        assert await box.poll() == []
    assert calls == {"lstat": SWEPT_PER_POLL + 1}


async def test_an_old_file_that_is_written_again_is_found_in_its_turn(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for number in range(SWEPT_PER_POLL * 3):
        write(tmp_path / f"{number}.jsonl", line(number))
        os.utime(tmp_path / f"{number}.jsonl", (0, 0))
    await settled(box)
    write(tmp_path / "7.jsonl", line(8))
    found = [tokens for _ in range(4) for tokens in await box.tokens()]
    assert found == [7, 8]


async def test_of_dated_folders_only_the_newest_are_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    days = [
        f"{year}/{month:02}/{day:02}"
        for year in range(2020, 2027)
        for month in (1, 6, 11, 12)
        for day in (1, 9, 20, 28)
    ]
    for day in days:
        (tmp_path / day).mkdir(parents=True)
        write(tmp_path / day / "rollout-x.jsonl", line(1))
    box = Box(tmp_path, source(tmp_path, pattern="*/*/*/rollout-*.jsonl"))
    await settled(box)
    assert len(box.tailer.files()) == NEWEST_DATES**3
    with counted(monkeypatch) as calls:
        await box.poll()
    folders = 1 + NEWEST_DATES + NEWEST_DATES**2 + NEWEST_DATES**3
    assert calls == {"lstat": folders + NEWEST_DATES**3}


async def test_a_new_day_is_found_and_an_old_one_tailed_where_a_hook_names_it(tmp_path: Path) -> None:
    box = Box(tmp_path, source(tmp_path, pattern="*/*/*/rollout-*.jsonl"))
    for day in ("01", "02", "03", "04"):
        (tmp_path / "2026/11" / day).mkdir(parents=True)
    write(tmp_path / "2026/11/01/rollout-a.jsonl", line(1))
    await settled(box)
    assert box.tailer.files() == []
    box.follow("2026/11/01/rollout-a.jsonl", "a")
    (update,) = await box.poll()
    assert (update.session, update.history) == ("a", True)
    (tmp_path / "2026/11/05").mkdir()
    write(tmp_path / "2026/11/05/rollout-b.jsonl", line(2))
    (update,) = await box.poll()
    assert (update.history, update.grown) == (False, len(line(2)))
    (tmp_path / "2026/12/01").mkdir(parents=True)
    write(tmp_path / "2026/12/01/rollout-c.jsonl", line(3))
    assert await box.tokens() == [3]


async def test_folders_at_any_depth_are_listed_where_the_pattern_says_so(tmp_path: Path) -> None:
    for folder in ("", "a", "a/b", "a/b/c"):
        (tmp_path / folder).mkdir(exist_ok=True)
        write(tmp_path / folder / "s.jsonl", line(len(folder)))
    assert sorted(await Box(tmp_path, source(tmp_path, pattern="**/*.jsonl")).tokens()) == [0, 1, 3, 5]
    assert sorted(await Box(tmp_path, source(tmp_path, pattern="a/**/c/s.*")).tokens()) == [5]


async def test_a_file_that_appears_within_the_same_tick_of_the_clock_is_found(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "a.jsonl", line(1))
    stamp = tmp_path.stat()  # noqa: ASYNC240  a test may block
    assert await box.tokens() == [1]
    write(tmp_path / "b.jsonl", line(2))
    os.utime(tmp_path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert await box.tokens() == [2]


async def test_folders_that_go_away_and_come_back_are_listed_again(tmp_path: Path) -> None:
    box, folder = Box(tmp_path, source(tmp_path / "root", pattern="*/*.jsonl")), tmp_path / "root" / "project"
    for tokens in (1, 2, 3):
        folder.mkdir(parents=True)
        write(folder / f"{tokens}.jsonl", line(tokens))
        assert await box.tokens() == [tokens]
        (folder / f"{tokens}.jsonl").unlink()
        folder.rmdir()
        folder.parent.rmdir()
        await box.poll()
