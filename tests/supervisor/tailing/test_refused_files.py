"""What is never opened or read: links, pipes, sockets, folders, other people's files, and what links lead to."""

import os
import socket
from pathlib import Path

import psutil
import pytest

from lifebus_supervisor.tailing.safe_open import FilePlace, UnusableFile, open_checked
from support.running import short_directory
from support.supervisor.tailing_box import Box, line, problems, source, tokens_in, write

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can give files away")


def link(path: Path) -> None:
    write(path.parent / "target", line(1))
    path.symlink_to(path.parent / "target")


def listen(path: Path) -> None:
    with short_directory() as short, socket.socket(socket.AF_UNIX) as bound:
        bound.bind(str(short / "s"))
        (short / "s").rename(path)


@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize(
    ("make", "evidence"), [(link, "a symbolic link"), (os.mkfifo, "a named pipe"), (listen, "a socket")]
)
async def test_what_is_no_plain_file_is_refused_at_every_poll(
    tmp_path: Path, make: object, evidence: str, followed: bool
) -> None:
    box = Box(tmp_path)
    assert callable(make)
    make(tmp_path / "s.jsonl")
    if followed:
        box.follow("s.jsonl")
    for _ in range(2):
        (update,) = await box.poll()
        assert (update.problem, update.evidence, update.facts) == ("refused", evidence, ())


async def test_a_folder_in_a_files_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "s.jsonl").mkdir()
    box = Box(tmp_path)
    box.follow("s.jsonl")
    (update,) = await box.poll()
    assert (update.problem, update.evidence) == ("refused", "a directory")


async def test_a_file_that_turns_into_a_pipe_is_refused_and_read_on_when_it_is_a_file_again(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    assert await box.tokens() == [1]
    log.unlink()
    os.mkfifo(log)
    assert problems(await box.poll()) == {"s.jsonl": "refused"}
    log.unlink()
    write(log, line(2))
    (update,) = await box.poll()
    assert (update.problem, tokens_in([update])) == (None, [2])


async def test_a_file_behind_a_link_below_the_root_is_refused(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    write(tmp_path / "elsewhere" / "s.jsonl", line(1))
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "project").symlink_to(tmp_path / "elsewhere")
    box = Box(tmp_path, source(tmp_path / "root", pattern="*/*.jsonl"))
    box.follow("root/project/s.jsonl")
    (update,) = await box.poll()
    assert (update.problem, update.facts) == ("refused", ())
    assert "link" in update.evidence


async def test_a_root_that_is_a_link_is_the_users_own_choice(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to(tmp_path / "disk")
    write(tmp_path / "disk" / "s.jsonl", line(1))
    box = Box(tmp_path, source(tmp_path / "root"))
    box.follow("root/s.jsonl")
    (update,) = await box.poll()
    assert (update.path, tokens_in([update])) == (str(tmp_path / "root" / "s.jsonl"), [1])
    box.follow("disk/s.jsonl")
    assert await box.poll() == []
    assert len(box.tailer.files()) == 1


@needs_root
async def test_somebody_elses_file_is_refused(tmp_path: Path) -> None:
    box, log = Box(tmp_path), tmp_path / "s.jsonl"
    write(log, line(1))
    os.chown(log, 12_345, 0)
    (update,) = await box.poll()
    assert (update.problem, update.evidence, update.facts) == ("refused", "owned by user 12345", ())


async def test_a_tailer_for_another_user_refuses_our_files(tmp_path: Path) -> None:
    write(tmp_path / "s.jsonl", line(1))
    (update,) = await Box(tmp_path, uid=os.getuid() + 1).poll()
    assert (update.problem, update.evidence) == ("refused", f"owned by user {os.getuid()}")


def test_what_is_checked_is_what_was_opened_not_what_the_name_meant_before(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    descriptors = psutil.Process().num_fds()
    with (
        pytest.raises(UnusableFile, match="named pipe"),
        open_checked(FilePlace(str(tmp_path), "pipe", "pipe"), os.getuid()),
    ):
        pass
    assert psutil.Process().num_fds() == descriptors


async def test_a_root_that_is_no_folder_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "root").write_text("")
    (update,) = await Box(tmp_path, source(tmp_path / "root")).poll()
    assert (update.path, update.session, update.problem) == (str(tmp_path / "root"), None, "refused")


async def test_a_root_that_is_not_there_is_no_problem(tmp_path: Path) -> None:
    box = Box(tmp_path, source(tmp_path / "root"))
    assert await box.poll() == []
    (tmp_path / "root").mkdir()
    write(tmp_path / "root" / "s.jsonl", line(1))
    (update,) = await box.poll()
    assert (tokens_in([update]), update.history) == ([1], False)
