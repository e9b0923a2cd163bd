"""Files that are damaged, huge, many or rewritten, readers that fail, disks that do: what each costs, and no more."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
import structlog

from lifebus_adapters.shared.telemetry import Fact, Surroundings
from support.supervisor.tailing_box import Box, NumberReader, line, problems, source, tokens_in, write


async def test_unreadable_records_are_counted_until_one_can_be_read(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + "{\n[\n")
    (update,) = await box.poll()
    assert (update.skipped, update.unreadable_run, update.problem) == (2, 2, None)
    assert update.evidence == "unreadable record invalid_json $"
    write(log, "nonsense\n")
    (update,) = await box.poll()
    assert (update.skipped, update.unreadable_run) == (1, 3)
    write(log, line(2))
    (update,) = await box.poll()
    assert (update.skipped, update.unreadable_run, update.evidence, tokens_in([update])) == (0, 0, "", [2])


async def test_a_defect_of_a_reader_costs_its_record_and_is_logged_once(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, '{"defect": 1}\n' * 3 + line(1))
    with structlog.testing.capture_logs() as logs:
        (update,) = await box.poll()
        write(log, '{"defect": 1}\n')
        await box.poll()
    assert (update.skipped, tokens_in([update])) == (3, [1])
    assert [(entry["event"], entry["fault"]) for entry in logs] == [("telemetry_reader_defect", "ZeroDivisionError")]


async def test_a_reader_that_cannot_be_made_costs_its_file_only(tmp_path: Path) -> None:
    def make(path: str, surroundings: Surroundings) -> NumberReader:
        if path.endswith("bad.jsonl"):
            raise ZeroDivisionError
        return NumberReader()

    box = Box(tmp_path, source(tmp_path, make_reader=make))
    for name in ("bad.jsonl", "good.jsonl"):
        write(tmp_path / name, line(1))
    with structlog.testing.capture_logs():
        found = await box.poll()
    assert problems(found) == {"bad.jsonl": "unreadable"}
    assert tokens_in(found) == [1]


async def test_a_huge_record_is_skipped_and_the_next_one_read(tmp_path: Path) -> None:
    box, log = Box(tmp_path, record_bytes=1_000), tmp_path / "s.jsonl"
    write(log, line(1) + '{"n": 1, "text": "' + "x" * 10_000 + '"}\n' + line(2))
    (update,) = await box.poll()
    assert (tokens_in([update]), update.skipped, update.unreadable_run) == ([1, 2], 1, 0)


async def test_of_too_many_files_those_that_changed_last_are_tailed(tmp_path: Path) -> None:
    box = Box(tmp_path, max_files=3)
    for number in range(6):
        path = tmp_path / f"{number}.jsonl"
        write(path, line(number))
        os.utime(path, (0, path.stat().st_mtime - 100 + number))
    assert sorted(await box.tokens()) == [3, 4, 5]
    assert await box.poll() == []
    write(tmp_path / "0.jsonl", line(10))
    assert 10 in await box.tokens()
    box.follow("1.jsonl", "1")
    assert await box.tokens() == [1]
    assert {file.session for file in box.tailer.files()} == {"0", "1", "5"}


async def test_a_file_that_is_deleted_while_it_is_open_is_read_to_its_end(tmp_path: Path) -> None:
    class Deleting(NumberReader):
        def read(self, record: bytes) -> Sequence[Fact]:
            (tmp_path / "s.jsonl").unlink(missing_ok=True)
            return super().read(record)

    box = Box(tmp_path, source(tmp_path, make_reader=lambda path, surroundings: Deleting()))
    write(tmp_path / "s.jsonl", "".join(map(line, range(50_000))))
    assert await box.tokens() == list(range(50_000))
    assert problems(await box.poll()) == {"s.jsonl": "missing"}


async def test_what_was_read_before_an_error_of_the_disk_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", "".join(map(line, range(50_000))))
    pread = os.pread

    def broken(file: int, size: int, offset: int) -> bytes:
        if offset > 500_000 and size > 64:
            raise OSError(errno.EIO, "broken")
        return pread(file, size, offset)

    with monkeypatch.context() as patched:
        patched.setattr(os, "pread", broken)
        read = await box.tokens()
        assert read == list(range(len(read)))
        (update,) = await box.poll()
        assert (update.problem, update.evidence) == ("unreadable", "EIO")
    assert read + await box.tokens() == list(range(50_000))


async def test_a_file_of_which_nothing_can_be_opened_is_unreadable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **named: object) -> int:
        raise PermissionError(errno.EACCES, "denied")

    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    with monkeypatch.context() as patched:
        patched.setattr(os, "open", refuse)
        (update,) = await box.poll()
        assert (update.problem, update.evidence) == ("unreadable", "EACCES")
    assert await box.tokens() == [1]


async def test_an_atomic_rewrite_repeats_itself_as_history_and_adds_what_is_new(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    await box.poll()
    write(log, line(1) + line(2))
    assert await box.tokens() == [1, 2]
    write(tmp_path / "new", line(1) + line(2) + line(3))
    (tmp_path / "new").rename(log)
    past, present = await box.poll()
    assert (tokens_in([past]), past.history, past.grown) == ([1, 2], True, 0)
    assert (tokens_in([present]), present.history, present.grown) == ([3], False, len(line(3)))
