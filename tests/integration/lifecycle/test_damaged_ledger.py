"""A damaged ledger as its user meets it: the broker does not start, says where and what to do, and touches nothing."""

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from support.command_line import Shell, broker_up
from support.running import short_directory

IO = 74
COUNT = 6


@pytest.fixture
def shell() -> Iterator[Shell]:
    """A shell whose broker has recorded something and ended."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            for number in range(COUNT):
                ran = shell.call(
                    "emit", "session.started", "--adapter", "codex", "--session", "s", "--key", f"k{number}"
                )
                assert ran.code == 0, ran.err
        yield shell


def contents(shell: Shell) -> dict[str, bytes]:
    """Return what is in the files of the ledger; the index of the log is nobody's truth, and an empty log is none."""
    files = (
        path for path in (shell.directory / "state").glob("ledger.db*") if not path.name.endswith(("-shm", ".lock"))
    )
    return {path.name: path.read_bytes() for path in files if path.stat().st_size}


def damage(shell: Shell, statement: str) -> Path:
    path = shell.directory / "state" / "ledger.db"
    connection = apsw.Connection(str(path))
    connection.execute(statement).fetchall()
    connection.close()
    return path


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("UPDATE rows SET receipt = CAST(CAST(receipt AS TEXT) || ' ' AS BLOB) WHERE position = 4", "row 4: "),
        ("DELETE FROM rows WHERE position = 6", "row 6: was acknowledged and is missing"),
    ],
    ids=["changed", "dropped at the end"],
)
def test_the_broker_does_not_start_says_where_and_what_to_do_and_deletes_nothing(
    shell: Shell, statement: str, expected: str
) -> None:
    damage(shell, statement)
    before = contents(shell)
    ran = shell.run("up")
    assert (ran.code, "Traceback" in ran.err) == (IO, False)
    for word in (expected, "lifebus ledger verify", "lifebus ledger restore", "lifebus receipts export"):
        assert word in ran.err
    assert contents(shell) == before
    saved = shell.call("receipts", "export", "--rescue")
    marks = [line["damaged"]["position"] for line in saved.lines if "damaged" in line]
    assert (saved.code, len(saved.lines), marks) == (1, COUNT, [int(expected[4])])
    verified = shell.call("ledger", "verify")
    assert verified.code
    assert expected in verified.out + verified.err
    assert contents(shell) == before
