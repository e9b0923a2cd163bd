"""Questions as files, and replies that are files: real folders, real notifications of changes."""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest

from lifebus_contract import LifebusError
from lifebus_contract.questions import AnswerAction, QuestionAnswer
from lifebus_supervisor.runtime.inbox.channels.question_files import FileChannel, file_name
from lifebus_supervisor.runtime.inbox.channels.replies import ReplyReader, read_answer, read_replies
from lifebus_supervisor.runtime.inbox.inbox import Inbox
from support.inbox.delivering import Clock, delivering, until
from support.inbox.questions import answer, inbox_of, ledger_in, question


@asynccontextmanager
async def folder_inbox(directory: Path) -> AsyncIterator[tuple[Inbox, Path, ReplyReader]]:
    """An inbox whose questions are written into a folder, and a reader of the replies there that does not run."""
    folder = directory / "questions"
    async with ledger_in(directory) as ledger:
        inbox = await inbox_of(ledger)
        async with delivering(inbox, Clock(), paper=FileChannel(folder)):
            yield inbox, folder, ReplyReader(folder, "paper", inbox)


async def asked(inbox: Inbox, name: str = "q_1") -> None:
    await inbox.ask(question(name))
    await until(inbox, name, lambda info: bool(info.notifications))


async def looked(reader: ReplyReader) -> None:
    """Look twice: what is the same then is not being written."""
    await reader.look()
    await reader.look()


async def test_a_question_is_written_for_people_and_programs_and_again_when_it_is_settled(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, _):
        await inbox.ask(question(title="a *bold* title", context={"log": "```\nend\x1b[31m"}))
        await until(inbox, "q_1", lambda info: bool(info.notifications))
        text, document = (folder / "q_1.md").read_text(), json.loads((folder / "q_1.json").read_text())
        assert (folder.stat().st_mode & 0o777, (folder / "q_1.md").stat().st_mode & 0o777) == (0o700, 0o600)
        assert text.startswith("# a \\*bold\\* title\n")
        for words in ("the credentials have expired", "- log in again", "lifebus inbox answer q_1 retry", "q_1.reply"):
            assert words in text
        assert "\x1b" not in text
        assert document["question"]["context"] == {"log": "```\nend\x1b[31m"}
        assert (document["type"], document["reply"]) == ("question.asked", "q_1.reply")
        await inbox.answer("q_1", answer(message="done"))
        await until(inbox, "q_1", lambda info: info.notifications[0].tries == 2)
        assert "**Answered: retry** by alice." in (folder / "q_1.md").read_text()
        assert json.loads((folder / "q_1.json").read_text())["answer"]["message"] == "done"


async def test_a_reply_that_somebody_writes_is_noticed_and_answers(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader), anyio.create_task_group() as tasks:
        tasks.start_soon(reader.run)
        await asked(inbox)
        (folder / "q_1.reply").write_text("retry\nI renewed the token\nby hand\n")
        info = await until(inbox, "q_1", lambda info: not info.is_open)
        assert info.answer is not None
        assert (info.answer.action, info.answer.message) == (AnswerAction.RETRY, "I renewed the token\nby hand")
        assert info.answer.channel == "paper"
        tasks.cancel_scope.cancel()


async def test_a_reply_counts_once_also_after_a_crash_before_it_was_removed(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        reply = folder / "q_1.reply"
        reply.write_text("abort")
        (found,) = read_replies(folder)
        await inbox.answer("q_1", read_answer(found, "paper"))  # and here the broker died
        await looked(reader)
        assert not reply.exists()
        assert not (folder / "q_1.problem.txt").exists()


async def test_a_reply_stays_until_its_answer_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        (folder / "q_1.reply").write_text("retry")

        async def refuse(*_: object) -> None:
            raise LifebusError("the disk is full", code="disk_full")

        with monkeypatch.context() as patch:
            patch.setattr(inbox, "answer", refuse)
            await looked(reader)
        assert (folder / "q_1.reply").exists()
        assert not (folder / "q_1.problem.txt").exists()
        await reader.look()
        assert not inbox.require("q_1").is_open


async def test_a_second_reply_is_refused_with_the_facts_of_the_first_answer(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        await inbox.answer("q_1", answer(message="first"))
        (folder / "q_1.reply").write_text("abort")
        await looked(reader)
        problem = (folder / "q_1.problem.txt").read_text()
        assert "answered already: `retry` by alice" in problem
        assert (folder / "q_1.reply").exists()
        assert inbox.require("q_1").answer == answer(message="first")


async def test_json_modifies_what_the_question_declares(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        reply = folder / "q_1.reply"
        reply.write_text('{"action": "modify", "modifications": {"depth": 9}}')
        await looked(reader)
        assert "`depth` is one of 1, 2, 3" in (folder / "q_1.problem.txt").read_text()
        assert inbox.require("q_1").is_open
        reply.write_text('{"action": "modify", "message": "deeper", "modifications": {"depth": 3}}')
        await looked(reader)
        given = inbox.require("q_1").answer
        assert isinstance(given, QuestionAnswer)
        assert (given.modifications, given.message) == ({"depth": 3}, "deeper")
        # The end of the question is written by a worker of its own.
        await until(inbox, "q_1", lambda info: info.notifications[0].tries == 2)
        assert [path.name for path in sorted(folder.iterdir())] == ["q_1.json", "q_1.md"]


async def test_a_reply_that_is_still_being_written_is_waited_for(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        reply = folder / "q_1.reply"
        reply.touch()
        await looked(reader)
        for text in ("re", "retry", "retry\nbecause"):
            reply.write_text(text)
            await reader.look()
            assert inbox.require("q_1").is_open
        await reader.look()
        given = inbox.require("q_1").answer
        assert given is not None
        assert given.message == "because"


async def test_a_reply_that_somebody_writes_anew_while_it_is_read_is_not_taken_by_halves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        reply = folder / "q_1.reply"
        reply.write_text("abort\n")
        await reader.look()
        read = os.read

        def read_a_half(descriptor: int, size: int) -> bytes:
            monkeypatch.undo()  # the first piece alone
            reply.write_text("retry\n")  # what is still to come: because of the token
            os.utime(reply, ns=(0, 0))  # however coarse the times of files are
            return read(descriptor, size)

        monkeypatch.setattr(os, "read", read_a_half)
        await reader.look()
        assert inbox.require("q_1").is_open
        reply.write_text("retry\nbecause of the token\n")
        await looked(reader)
        given = inbox.require("q_1").answer
        assert given is not None
        assert (given.action, given.message) == (AnswerAction.RETRY, "because of the token")


@pytest.mark.parametrize(
    "text", ["yes", "{", '{"action": "sing"}', '{"message": "retry"}', '{"action": "retry", "x": 1}']
)
async def test_a_reply_that_says_nothing_usable_is_explained(tmp_path: Path, text: str) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        (folder / "q_1.reply").write_text(text)
        await looked(reader)
        assert (folder / "q_1.problem.txt").read_text().strip()
        assert inbox.require("q_1").is_open


@pytest.mark.parametrize("kind", ["link", "hard link", "writable", "pipe", "directory", "large", "bytes"])
async def test_a_reply_that_may_be_somebody_elses_is_not_read(tmp_path: Path, kind: str) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        reply, other = folder / "q_1.reply", tmp_path / "other"
        other.write_text("retry")
        match kind:
            case "link":
                reply.symlink_to(other)
            case "hard link":
                reply.hardlink_to(other)
            case "writable":
                reply.write_text("retry")
                reply.chmod(0o666)
            case "pipe":
                os.mkfifo(reply)
            case "directory":
                reply.mkdir()
            case "large":
                reply.write_text("retry\n" + "x" * 70_000)
            case _:
                reply.write_bytes(b"retry\n\xff")
        await looked(reader)
        assert inbox.require("q_1").is_open
        assert "repl" in (folder / "q_1.problem.txt").read_text()
        assert other.read_text() == "retry"


async def test_a_reply_to_no_question_is_explained(tmp_path: Path) -> None:
    async with folder_inbox(tmp_path) as (inbox, folder, reader):
        await asked(inbox)
        (folder / "q_7.reply").write_text("retry")
        await looked(reader)
        assert "no question of this name" in (folder / "q_7.problem.txt").read_text()


@pytest.mark.parametrize("question_id", ["../../etc/x", ".hidden", "a/b", "ä" * 200, "x" * 250, "a b\\c:d*"])
def test_a_file_is_named_so_that_it_stays_in_its_folder(question_id: str) -> None:
    name = file_name(question_id)
    assert len(name.encode()) < 200
    assert "/" not in name
    assert not name.startswith(".")
    assert file_name(f"{question_id}x") != name


async def test_a_folder_that_others_may_enter_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "questions"
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    async with folder_inbox(tmp_path) as (inbox, _, reader):
        await inbox.ask(question())
        info = await until(inbox, "q_1", lambda info: bool(info.notifications))
        assert "chmod 700" in str(info.notifications[0].fault)
        (folder / "q_1.reply").write_text("retry")
        await looked(reader)
        assert inbox.require("q_1").is_open
