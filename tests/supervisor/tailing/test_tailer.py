"""Watched files over their life: read as they grow, read again when they are other files, let go when sessions end."""

import os
from pathlib import Path

import pytest

from lifebus_supervisor.tailing.events import TailedFile
from support.supervisor.tailing_box import Box, line, problems, tokens_in, write


async def test_a_file_is_read_from_its_beginning_and_then_as_it_grows(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + line(2))
    assert await box.tokens() == [1, 2]
    assert await box.poll() == []
    write(log, line(3))
    (update,) = await box.poll()
    assert tokens_in([update]) == [3]
    assert (update.adapter_id, update.source_id, update.path, update.session) == ("codex", "log", str(log), "s")
    assert (update.grown, update.history, update.problem) == (len(line(3)), False, None)


async def test_what_stood_in_a_file_before_is_history_and_no_growth(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    (update,) = await box.poll()
    assert (update.history, update.grown, tokens_in([update])) == (True, 0, [1])


async def test_a_file_that_appears_while_its_folder_is_listed_has_no_history(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    assert await box.poll() == []
    write(log, line(1))
    (update,) = await box.poll()
    assert (update.history, update.grown, tokens_in([update])) == (False, len(line(1)), [1])


@pytest.mark.parametrize("polled", [True, False])
async def test_a_file_that_a_hook_names_has_history_unless_its_folder_was_known_without_it(
    tmp_path: Path, polled: bool
) -> None:
    box = Box(tmp_path)
    if polled:
        await box.poll()
    write(tmp_path / "s.jsonl", line(1))
    box.follow("s.jsonl")
    (update,) = await box.poll()
    assert update.history is not polled


async def test_history_and_what_came_since_stand_apart(tmp_path: Path) -> None:
    box, log = Box(tmp_path, poll_bytes=len(line(1)) * 2), tmp_path / "s.jsonl"
    write(log, line(1) + line(2) + line(3))
    assert await box.tokens() == [1, 2]
    write(log, line(4))
    past, present = await box.poll()
    assert (tokens_in([past]), past.history) == ([3], True)
    assert (tokens_in([present]), present.history, present.grown) == ([4], False, len(line(4)))


async def test_a_backlog_takes_several_polls_and_grows_by_nothing(tmp_path: Path) -> None:
    box, log = Box(tmp_path, poll_bytes=1_000), tmp_path / "s.jsonl"
    await box.poll()
    write(log, "".join(map(line, range(500))))
    read: list[int] = []
    polls = 0
    grown: list[int] = []
    while len(read) < 500:
        found = await box.poll()
        read += tokens_in(found)
        grown += [update.grown for update in found]
        polls += 1
    assert read == list(range(500))
    assert polls == pytest.approx(log.stat().st_size / 1_000, abs=1)
    assert grown[1:] == [0] * (polls - 1)


async def test_a_new_file_in_the_place_of_an_old_one_is_read_from_its_beginning(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + line(2))
    await box.poll()
    log.rename(tmp_path / "s.jsonl.1")
    write(log, line(11) + line(12) + line(13))
    assert await box.tokens() == [11, 12, 13]


async def test_what_was_written_before_a_rotation_and_not_read_yet_is_not_lost(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    await box.poll()
    write(log, line(2))
    log.rename(tmp_path / "s.jsonl.1")
    write(log, line(11))
    assert await box.tokens() == [2, 11]


async def test_a_file_that_became_shorter_is_read_from_its_beginning(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + line(2))
    await box.poll()
    log.write_text(line(3))
    assert await box.tokens() == [3]


async def test_a_file_that_was_written_anew_and_is_longer_is_read_from_its_beginning(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + line(2))
    await box.poll()
    log.write_text(line(5) + line(6) + line(7))
    assert await box.tokens() == [5, 6, 7]


async def test_half_a_line_waits_for_its_other_half(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + '{"n"')
    assert await box.tokens() == [1]
    write(log, ": 2}")
    assert await box.tokens() == []
    write(log, "\n")
    assert await box.tokens() == [2]


async def test_a_followed_file_that_is_not_there_is_missing_at_every_poll_until_it_appears(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    assert box.follow("s.jsonl")
    assert problems(await box.poll()) == problems(await box.poll()) == {"s.jsonl": "missing"}
    write(log, line(1))
    (update,) = await box.poll()
    assert (tokens_in([update]), update.problem, update.history) == ([1], None, False)


async def test_a_deleted_file_is_missing_and_read_on_when_it_comes_back(tmp_path: Path) -> None:
    box, log, away = Box(tmp_path), tmp_path / "s.jsonl", tmp_path / "away"
    write(log, line(1))
    await box.poll()
    log.rename(away)
    assert problems(await box.poll()) == {"s.jsonl": "missing"}
    away.rename(log)
    (update,) = await box.poll()
    assert (update.problem, update.facts) == (None, ())
    write(log, line(2))
    assert await box.tokens() == [2]


async def test_a_file_that_nobody_follows_is_missed_for_a_while_only(tmp_path: Path) -> None:
    box, log = Box(tmp_path, recent_s=100), tmp_path / "s.jsonl"
    write(log, line(1))
    await box.poll()
    log.unlink()
    assert problems(await box.poll())
    box.ahead = 101
    assert problems(await box.poll())
    assert await box.poll() == []
    assert box.tailer.files() == []


async def test_the_end_of_a_session_is_read_and_then_nothing_more(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    await box.poll()
    write(log, line(2))
    box.tailer.forget("codex", "s")
    assert await box.tokens() == [2]
    assert box.tailer.files() == []
    log.unlink()
    assert await box.poll() == []


@pytest.mark.parametrize("named", [True, False])
async def test_a_resumed_session_is_read_on_and_not_again(tmp_path: Path, named: bool) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    await box.poll()
    box.tailer.forget("codex", "s")
    await box.poll()
    assert await box.poll() == []
    write(log, line(2))
    os.utime(log, (log.stat().st_atime, log.stat().st_mtime + 1))
    if named:
        box.follow("s.jsonl")
    assert await box.tokens() == [2]
    assert [file.records for file in box.tailer.files()] == [2]


async def test_a_file_that_changed_long_ago_is_not_tailed_until_it_changes_again(tmp_path: Path) -> None:
    box, log = Box(tmp_path, recent_s=100), tmp_path / "s.jsonl"
    write(log, line(1))
    os.utime(log, (0, 0))
    assert await box.poll() == []
    assert box.tailer.files() == []
    write(log, line(2))
    past, present = await box.poll()
    assert (tokens_in([past]), past.history) == ([1], True)
    assert (tokens_in([present]), present.history) == ([2], False)


async def test_without_discovery_only_followed_files_are_tailed(tmp_path: Path) -> None:
    box = Box(tmp_path, discover=False)
    for name in ("s.jsonl", "t.jsonl"):
        write(tmp_path / name, line(1))
    box.follow("t.jsonl", "t")
    assert [update.session for update in await box.poll()] == ["t"]


@pytest.mark.parametrize(
    "path",
    ["relative.jsonl", "/a/../s.jsonl", "/a/./s.jsonl", "/a//s.jsonl", "/a\0.jsonl", "/" + "a" * 4_096 + ".jsonl"],
)
async def test_a_path_with_detours_is_not_followed(tmp_path: Path, path: str) -> None:
    assert not Box(tmp_path).tailer.follow("codex", "s", path)


async def test_a_path_that_is_nobodys_is_not_followed(tmp_path: Path) -> None:
    box = Box(tmp_path)
    assert not box.follow("s.txt")
    assert not box.tailer.follow("claude", "s", str(tmp_path / "s.jsonl"))
    assert await box.poll() == []


async def test_the_hooks_session_wins_over_the_files_name(tmp_path: Path) -> None:
    box = Box(tmp_path)
    write(tmp_path / "s.jsonl", line(1))
    box.follow("s.jsonl", "another")
    (update,) = await box.poll()
    assert update.session == "another"


async def test_files_returns_how_each_file_is(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1) + "{\n" + line(2))
    box.follow("t.jsonl", "t")
    await box.poll()
    box.ahead = 60
    there, absent = sorted(box.tailer.files(), key=lambda file: file.path)
    assert (there.size, there.records, there.skipped, there.problem) == (log.stat().st_size, 2, 1, None)
    assert there.age_s is not None
    assert 60 <= there.age_s < 90
    assert absent == TailedFile(
        adapter_id="codex",
        source_id="log",
        path=str(tmp_path / "t.jsonl"),
        session="t",
        size=0,
        age_s=None,
        records=0,
        skipped=0,
        problem="missing",
    )


async def test_a_poll_of_one_session_reads_its_files_and_no_others(tmp_path: Path) -> None:
    box = Box(tmp_path)
    for name in ("s", "t"):
        write(tmp_path / f"{name}.jsonl", line(1))
    await box.poll()
    for name in ("s", "t"):
        write(tmp_path / f"{name}.jsonl", line(2))
    (update,) = await box.tailer.poll_session("codex", "s", 60.0)
    assert (update.session, tokens_in([update]), update.grown) == ("s", [2], len(line(2)))
    assert await box.tailer.poll_session("codex", "s", 60.0) == []
    assert await box.tailer.poll_session("claude", "s", 60.0) == []
    assert await box.tokens() == [2]


async def test_a_poll_of_one_session_reads_a_file_that_a_hook_has_just_named(tmp_path: Path) -> None:
    box = Box(tmp_path, discover=False)
    write(tmp_path / "named.jsonl", line(1))
    assert box.follow("named.jsonl", "s")
    assert tokens_in(await box.tailer.poll_session("codex", "s", 60.0)) == [1]
    assert await box.tokens() == []
