"""Databases of harnesses: read while they are written, after a clean end and after a crash, and never changed."""

import os
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lifebus_adapters.shared.telemetry import RowQuery
from lifebus_supervisor.tailing import source as files
from lifebus_supervisor.tailing.database import DatabaseTail
from support.patience import PATIENCE_S
from support.supervisor.database_box import RowReader, snapshot_of, writing
from support.supervisor.tailing_box import Box, problems, source, tokens_in

READ_S = PATIENCE_S


def box_of(folder: Path, reader: RowReader | None = None, **limits: Any) -> Box:
    """A tail of one database; polls found no file before it appears."""
    its = source(
        folder / "its.db", form="database", pattern="", make_reader=lambda path, surroundings: reader or RowReader()
    )
    return Box(folder, its, **limits)


@pytest.mark.parametrize("journal", ["wal", "delete", "truncate", "persist"])
async def test_rows_are_read_as_another_process_writes_them(tmp_path: Path, journal: str) -> None:
    with writing(tmp_path / "its.db", journal) as writer:
        box = box_of(tmp_path)
        writer.add(1, 2)
        assert await box.tokens() == [1, 2]
        writer.add(3)
        (update,) = await box.poll()
        assert (tokens_in([update]), update.session, update.grown, update.history) == ([3], None, 1, False)
        assert await box.poll() == []
    assert await box.poll() == []


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_reading_changes_nothing_beside_a_process_that_writes(tmp_path: Path, journal: str) -> None:
    with writing(tmp_path / "its.db", journal) as writer:
        writer.add(1, 2)
        before = snapshot_of(tmp_path)
        assert await box_of(tmp_path).tokens() == [1, 2]
        assert snapshot_of(tmp_path) == before
        writer.add(3)


@pytest.mark.parametrize("journal", ["wal", "delete"])
async def test_reading_leaves_nothing_beside_a_database_that_was_closed(tmp_path: Path, journal: str) -> None:
    with writing(tmp_path / "its.db", journal) as writer:
        writer.add(1, 2)
    assert list(snapshot_of(tmp_path)) == ["its.db"]
    before = snapshot_of(tmp_path)
    assert await box_of(tmp_path).tokens() == [1, 2]
    assert snapshot_of(tmp_path) == before


async def test_a_database_is_read_after_its_process_was_killed(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1, 2)
        writer.kill()
    before = snapshot_of(tmp_path)
    assert set(before) == {"its.db", "its.db-wal", "its.db-shm"}
    assert await box_of(tmp_path).tokens() == [1, 2]
    assert snapshot_of(tmp_path) == before


async def test_rows_are_read_once_over_the_whole_life_of_a_database(tmp_path: Path) -> None:
    box = box_of(tmp_path)
    assert await box.poll() == []
    for run in range(3):
        with writing(tmp_path / "its.db") as writer:
            writer.add(run * 10 + 1)
            assert await box.tokens() == [run * 10 + 1]
            writer.run("PRAGMA wal_checkpoint(TRUNCATE)")
            assert await box.tokens() == []
            writer.add(run * 10 + 2)
            writer.run("PRAGMA wal_checkpoint(RESTART)")
            writer.add(run * 10 + 3)
            assert await box.tokens() == [run * 10 + 2, run * 10 + 3]
            writer.add(run * 10 + 4)
        assert await box.tokens() == [run * 10 + 4]


async def test_the_writer_is_never_kept_from_its_checkpoints(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        box = box_of(tmp_path)
        for number in range(5):
            writer.add(number)
            await box.poll()
            assert writer.run("PRAGMA wal_checkpoint(TRUNCATE)")[0][0] == 0


async def test_a_log_without_its_index_is_not_given_one(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        writer.kill()
    (tmp_path / "its.db-shm").unlink()
    before, box = snapshot_of(tmp_path), box_of(tmp_path)
    (update,) = await box.poll()
    assert (update.problem, update.facts) == ("unreadable", ())
    assert "index" in update.evidence
    assert snapshot_of(tmp_path) == before
    with writing(tmp_path / "its.db"):
        (update,) = await box.poll()
        assert (update.problem, tokens_in([update])) == (None, [1])


async def test_a_locked_database_is_unreadable_until_it_is_free(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db", "delete") as writer:
        box = box_of(tmp_path)
        writer.add(1)
        writer.run("BEGIN EXCLUSIVE")
        (update,) = await box.poll()
        assert update.problem == "unreadable"
        assert update.evidence.startswith("BusyError")
        writer.run("COMMIT")
        (update,) = await box.poll()
        assert (update.problem, tokens_in([update])) == (None, [1])


async def test_an_answer_is_cut_at_its_limit_and_asked_for_again(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(*range(25))
        box = box_of(tmp_path, RowReader(limit=10))
        polls = [await box.poll() for _ in range(4)]
    assert [tokens_in(found) for found in polls] == [[*range(10)], [*range(10, 20)], [*range(20, 25)], []]
    assert [update.history for found in polls for update in found] == [True, True, True]
    assert [update.grown for found in polls for update in found] == [0, 0, 0]


async def test_a_query_that_takes_too_long_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    endless = (
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i, 's', 1 FROM n WHERE i < 0 AND i > ?"
    )
    seconds = 0.0

    class Endless(RowReader):
        def queries(self) -> Sequence[RowQuery]:
            nonlocal seconds
            seconds = READ_S  # the time of this poll is over when its query begins
            return super().queries()

    monkeypatch.setattr(files, "time", SimpleNamespace(monotonic=lambda: seconds))
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        (update,) = await box_of(tmp_path, Endless(endless), read_s=READ_S).poll()
    assert (update.problem, update.evidence) == ("unreadable", "the query took too long")


async def test_a_query_that_writes_is_refused(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        (update,) = await box_of(
            tmp_path, RowReader("DELETE FROM usage WHERE id > ? RETURNING id, session, tokens")
        ).poll()
        assert update.problem == "unreadable"
        assert update.evidence.startswith("ReadOnlyError")
        assert writer.run("SELECT count(*) FROM usage") == [[1]]


@pytest.mark.parametrize(
    ("contents", "evidence"),
    [(b"no database at all", "not a SQLite database"), (b"SQLite format 3\0" + b"\1" * 4_096, "NotADBError")],
)
async def test_what_is_no_database_is_unreadable(tmp_path: Path, contents: bytes, evidence: str) -> None:
    (tmp_path / "its.db").write_bytes(contents)
    (update,) = await box_of(tmp_path).poll()
    assert update.problem == "unreadable"
    assert update.evidence.startswith(evidence)


async def test_a_database_in_which_nothing_is_stored_yet_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "its.db").touch()
    box = box_of(tmp_path)
    assert [update.problem for update in await box.poll()] == [None]
    assert await box.poll() == []


async def test_a_table_that_is_not_there_yet_is_unreadable_until_it_is(tmp_path: Path) -> None:
    sqlite3.connect(tmp_path / "its.db").execute("CREATE TABLE other(id)").connection.close()
    box = box_of(tmp_path)
    (update,) = await box.poll()
    assert (update.problem, update.evidence) == ("unreadable", "SQLError: no such table: usage")
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        assert await box.tokens() == [1]


async def test_rows_that_the_reader_refuses_are_counted(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1, -1)
        (update,) = await box_of(tmp_path).poll()
    assert (update.skipped, update.unreadable_run, update.evidence) == (
        1,
        1,
        "unreadable record out_of_range usage.tokens",
    )


@pytest.mark.parametrize("beside", ["its.db-wal", "its.db-shm"])
async def test_a_pipe_or_link_beside_the_database_is_refused(tmp_path: Path, beside: str) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        writer.kill()
    (tmp_path / beside).unlink()
    os.mkfifo(tmp_path / beside)
    assert problems(await box_of(tmp_path).poll()) == {"its.db": "refused"}


async def test_a_database_that_took_anothers_place_is_asked_from_its_beginning(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1, 2)
    box = box_of(tmp_path)
    assert await box.tokens() == [1, 2]
    with writing(tmp_path / "new.db") as writer:
        writer.add(3)
    (tmp_path / "new.db").rename(tmp_path / "its.db")
    (update,) = await box.poll()
    assert (tokens_in([update]), update.history) == ([3], True)


async def test_a_database_is_found_by_its_log_when_it_was_written_long_ago(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.add(1)
        os.utime(tmp_path / "its.db", (0, 0))
        assert await box_of(tmp_path).tokens() == [1]
    os.utime(tmp_path / "its.db", (0, 0))
    assert await box_of(tmp_path).poll() == []


@pytest.mark.parametrize("link", ["its.db", "."])
async def test_a_link_that_takes_the_place_of_a_checked_path_is_refused_unread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, link: str
) -> None:
    checked, other = tmp_path / "checked", tmp_path / "other"
    for folder in (checked, other):
        folder.mkdir()
        with writing(folder / "its.db", "delete") as writer:
            writer.add(1)
    box, options_of = box_of(checked), DatabaseTail._options

    def swap_then_choose(tail: DatabaseTail, path: str, header: bytes) -> str:
        place = checked / link
        place.rename(tmp_path / "away")
        place.symlink_to(other / link)
        return options_of(tail, path, header)

    monkeypatch.setattr(DatabaseTail, "_options", swap_then_choose)
    (update,) = await box.poll()
    assert (update.problem, update.evidence, update.facts) == ("refused", "a symbolic link on the way", ())


async def test_text_that_is_not_unicode_is_unreadable_and_not_quoted(tmp_path: Path) -> None:
    with writing(tmp_path / "its.db") as writer:
        writer.run("INSERT INTO usage(session, tokens) VALUES (CAST(x'ff736563726574' AS TEXT), 1)")
        (update,) = await box_of(tmp_path).poll()
    assert update.problem == "unreadable"
    assert "secret" not in update.evidence
