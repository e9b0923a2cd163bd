"""Reads that do not return: they cost their own source, one thread, and nothing else."""

import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Sequence
from pathlib import Path

import anyio
import anyio.lowlevel
import pytest
import structlog

from lifebus_adapters.shared.telemetry import Fact
from lifebus_supervisor.tailing.events import FileUpdate
from support.patience import PATIENCE_S, SOON_S
from support.supervisor.tailing_box import Box, NumberReader, line, problems, source, tokens_in, write

READ_S = 0.5
"""How long a poll waits for the source that hangs; a read that is not held takes as long as the machine lets it."""


class StuckReader(NumberReader):
    """Stands for a file system that does not answer until it is released."""

    def __init__(self) -> None:
        super().__init__()
        self.answer = threading.Event()
        self.calls = 0

    def read(self, record: bytes) -> Sequence[Fact]:
        self.calls += 1
        self.answer.wait(PATIENCE_S)
        return super().read(record)


def boxed(folder: Path, stuck_s: float = PATIENCE_S) -> tuple[Box, StuckReader]:
    """A source that hangs beside one that does not; while it hangs a poll waits `stuck_s` seconds for it."""
    reader = StuckReader()
    (folder / "stuck").mkdir()
    (folder / "free").mkdir()
    stuck = source(folder / "stuck", source_id="stuck", make_reader=lambda path, surroundings: reader)
    box = Box(folder, stuck, source(folder / "free", source_id="free"), read_s=PATIENCE_S)
    its = box.tailer._sources[0]
    poll = its.poll

    def poll_impatiently(now: float, within_s: float) -> Awaitable[Sequence[FileUpdate]]:
        return poll(now, within_s if reader.answer.is_set() else stuck_s)

    its.poll = poll_impatiently  # type: ignore[assignment,method-assign]
    return box, reader


async def polled_until_answered(box: Box) -> list[int]:
    with anyio.fail_after(PATIENCE_S):
        while True:
            found = await box.poll()
            if tokens := tokens_in([update for update in found if update.source_id == "stuck"]):
                return tokens
            await anyio.lowlevel.checkpoint()


async def test_a_read_that_hangs_is_reported_and_the_other_source_read(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path, READ_S)
    reader.answer.set()
    await box.poll()
    reader.answer.clear()
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    write(tmp_path / "free" / "f.jsonl", line(2))
    try:
        found = await box.poll()
        assert tokens_in(found) == [2]
        assert [(update.source_id, update.problem) for update in found if update.problem] == [("stuck", "hung")]
    finally:
        reader.answer.set()
    assert await polled_until_answered(box) == [1]


async def test_while_a_read_hangs_no_other_is_started_and_nobody_waits(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path, READ_S)
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    before = set(threading.enumerate())
    try:
        await box.poll()
        start = time.monotonic()
        for number in range(100):
            write(tmp_path / "free" / "f.jsonl", line(number))
            found = await box.poll()
            assert [update.problem for update in found if update.source_id == "stuck"] == ["hung"]
            assert tokens_in(found) == [number]
        assert time.monotonic() - start < 100 * READ_S
        stuck = [thread for thread in set(threading.enumerate()) - before if thread.name == "tail codex stuck"]
        assert len(stuck) == 1
        assert reader.calls == 1
    finally:
        reader.answer.set()
    assert await polled_until_answered(box) == [1]


async def test_what_a_late_read_brings_is_not_lost_and_tailing_goes_on(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path, READ_S)
    log = tmp_path / "stuck" / "s.jsonl"
    write(log, line(1))
    try:
        await box.poll()
        write(log, line(2))
        box.tailer.follow("codex", "named", str(log))
    finally:
        reader.answer.set()
    read = await polled_until_answered(box)
    while 2 not in read:  # it was written while the first line was read: the same read has it, or the next one
        read += await polled_until_answered(box)
    assert read == [1, 2]
    await box.poll()
    assert [(file.session, file.problem) for file in box.tailer.files()] == [("named", None)]


async def test_every_tailed_file_of_a_hung_source_is_hung(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path, READ_S)
    reader.answer.set()
    for name in ("a", "b"):
        write(tmp_path / "stuck" / f"{name}.jsonl", line(1))
    await box.poll()
    reader.answer.clear()
    try:
        write(tmp_path / "stuck" / "a.jsonl", line(2))
        assert problems(await box.poll()) == {"a.jsonl": "hung", "b.jsonl": "hung"}
        assert {file.problem for file in box.tailer.files()} == {"hung"}
    finally:
        reader.answer.set()
    assert await polled_until_answered(box) == [2]
    assert {file.problem for file in box.tailer.files()} == {None}


async def test_a_poll_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path)
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    with anyio.move_on_after(READ_S / 5) as scope:
        await box.poll()
    assert scope.cancelled_caught
    reader.answer.set()
    assert await polled_until_answered(box) == [1]


async def test_two_polls_at_once_are_one_after_the_other(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    found: list[int] = []

    async def poll() -> None:
        found.extend(await box.tokens())

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(poll)
    assert found == [1]


_HANGING = """
import asyncio, threading
from lifebus_supervisor.tailing.blocking_call import BlockingCall
async def main():
    call = BlockingCall("stuck")
    call.start(threading.Event().wait)
    print(await call.wait(0.01))
asyncio.run(main())
"""


def test_a_program_ends_though_a_read_still_hangs() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _HANGING], capture_output=True, text=True, timeout=PATIENCE_S, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "False\n", "")


async def test_a_defect_of_ours_costs_one_source_one_poll(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    box, reader = boxed(tmp_path)
    reader.answer.set()
    for folder in ("stuck", "free"):
        write(tmp_path / folder / "s.jsonl", line(1))
    files = box.tailer._sources[0].files
    with monkeypatch.context() as broken, structlog.testing.capture_logs() as logs:
        broken.setattr(files, "_discover_files", lambda *arguments: 1 / 0)
        assert await box.tokens() == [1]
    assert await box.tokens() == [1]
    assert [(entry["event"], entry["fault"], entry["source_id"]) for entry in logs] == [
        ("source_failed", "ZeroDivisionError", "stuck")
    ]


async def test_one_session_is_not_waited_for_longer_than_was_asked_and_the_next_poll_has_it(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path)
    await box.poll()
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    write(tmp_path / "free" / "s.jsonl", line(2))
    await box.tailer.poll_session("codex", "s", 0.01)  # nothing of the session is tailed yet
    with anyio.move_on_after(READ_S / 5) as scope:
        await box.poll()  # the stuck file is found, and being read
    assert scope.cancelled_caught
    started_at = time.monotonic()
    found = [*await box.tailer.poll_session("codex", "s", READ_S / 10)]
    assert time.monotonic() - started_at < SOON_S  # a read may take a minute here
    assert {update.source_id for update in found} <= {"free"}
    assert problems(found) == {}  # slow is not hung
    reader.answer.set()
    assert await polled_until_answered(box) == [1]


async def test_what_a_read_of_one_session_leaves_unfinished_is_taken_once_by_the_next_poll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box, reader = boxed(tmp_path)
    reader.answer.set()
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    write(tmp_path / "free" / "s.jsonl", line(2))
    assert sorted(await box.tokens()) == [1, 2]
    reader.answer.clear()
    write(tmp_path / "stuck" / "s.jsonl", line(3))
    write(tmp_path / "free" / "s.jsonl", line(4))
    its, other = box.tailer._sources

    async def out_of_time(_: float) -> bool:
        return not await other.call.wait(PATIENCE_S)  # it is over when the other source has been read

    with monkeypatch.context() as patched:
        patched.setattr(its.call, "wait", out_of_time)
        assert tokens_in(await box.tailer.poll_session("codex", "s", PATIENCE_S)) == [4]
    write(tmp_path / "stuck" / "other.jsonl", line(5))
    reader.answer.set()
    # The poll after it reads all files, and not only what was asked for before.
    assert sorted(await box.tokens()) == [3, 5]
    assert await box.tokens() == []


async def test_a_read_of_one_session_that_is_cancelled_loses_nothing(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path)
    reader.answer.set()
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    write(tmp_path / "free" / "s.jsonl", line(2))
    await box.poll()
    reader.answer.clear()
    write(tmp_path / "stuck" / "s.jsonl", line(3))
    write(tmp_path / "free" / "s.jsonl", line(4))
    with anyio.move_on_after(READ_S / 5) as scope:
        await box.tailer.poll_session("codex", "s", 60.0)
    assert scope.cancelled_caught
    reader.answer.set()
    assert sorted(await box.tokens()) == [3, 4]


async def test_a_session_is_not_read_beside_a_poll_that_holds_its_files(tmp_path: Path) -> None:
    box, reader = boxed(tmp_path)
    reader.answer.set()
    write(tmp_path / "stuck" / "s.jsonl", line(1))
    await box.poll()
    reader.answer.clear()
    write(tmp_path / "stuck" / "s.jsonl", line(2))
    found: list[int] = []

    async def poll() -> None:
        found.extend(await box.tokens())

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(poll)
        await anyio.lowlevel.checkpoint()
        assert await box.tailer.poll_session("codex", "s", READ_S / 10) == ()
        reader.answer.set()
    assert found == [2]
