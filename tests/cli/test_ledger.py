"""`lifebus ledger`: what a user does with a ledger file, and what becomes of it."""

import contextlib
import json
import os
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from support.command_line import COMMAND, Shell, broker_up
from support.running import short_directory


def emit(shell: Shell, count: int, session: str = "s", first: int = 0) -> None:
    for number in range(first, first + count):
        ran = shell.call(
            "emit", "session.started", "--adapter", "codex", "--session", session, "--key", f"{session}{number}"
        )
        assert ran.code == 0, ran.err


def ledger_of(shell: Shell) -> Path:
    return shell.directory / "state" / "ledger.db"


@pytest.fixture(scope="module")
def filled() -> Iterator[Shell]:
    """A shell whose broker has recorded something and ended."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            emit(shell, 3)
            emit(shell, 2, "other")
        yield shell


@pytest.fixture
def shell(filled: Shell, tmp_path: Path) -> Iterator[Shell]:
    """A shell with a ledger of its own, like that of `filled`."""
    with short_directory() as directory:
        own = Shell(directory)
        (directory / "state").mkdir(mode=0o700)
        ledger_of(own).write_bytes(ledger_of(filled).read_bytes())
        yield own


def test_info_shows_what_the_file_holds(filled: Shell) -> None:
    found = filled.call("ledger", "show", "--json").json
    assert (found["rows"], found["floor"], found["head"], found["sessions"], found["keys"]) == (5, 0, 5, 2, 5)
    assert (found["oldest"]["position"], found["newest"]["position"], found["base"]) == (1, 5, None)
    assert found["bytes"] == found["database_bytes"] + found["wal_bytes"] + found["shm_bytes"] > 0
    ran = filled.run("ledger", "show")
    assert (ran.code, ran.err) == (0, "")
    assert "positions 1 to 5" in ran.out
    assert found["epoch"] in ran.out


def test_info_verify_and_backup_work_beside_a_broker(shell: Shell, tmp_path: Path) -> None:
    with broker_up(shell):
        emit(shell, 1, "late")
        assert shell.call("ledger", "show", "--json").json["head"] == 6
        assert shell.call("ledger", "verify", "--json").json == {"head": 6, "faults": []}
        ran = shell.call("ledger", "backup", str(tmp_path / "copy.db"), "--json")
        assert (ran.code, ran.json["head"]) == (0, 6)
        emit(shell, 1, "later")
    copy = shell.call("ledger", "show", str(tmp_path / "copy.db"), "--json").json
    assert (copy["head"], copy["path"]) == (6, str(tmp_path / "copy.db"))
    assert stat.S_IMODE((tmp_path / "copy.db").stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["copy.db"]


def test_a_backup_overwrites_nothing(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "copy.db").write_text("precious")
    ran = shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    assert (ran.code, "exists" in ran.err) == (1, True)
    assert (tmp_path / "copy.db").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_damaged_ledger_is_not_backed_up(shell: Shell, tmp_path: Path) -> None:
    connection = apsw.Connection(str(ledger_of(shell)))
    connection.execute("UPDATE rows SET sequence = 9 WHERE position = 2")
    connection.close()
    assert shell.call("ledger", "verify").code == 1
    ran = shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    assert (ran.code, "row 2" in ran.err) == (74, True)
    assert list(tmp_path.iterdir()) == []


def test_a_restored_ledger_is_a_new_history_and_the_one_before_lies_aside(shell: Shell, tmp_path: Path) -> None:
    before = shell.call("ledger", "show", "--json").json
    shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    with broker_up(shell):
        emit(shell, 4, "lost")
    done = shell.call("ledger", "restore", str(tmp_path / "copy.db"), "--json").json
    after = shell.call("ledger", "show", "--json").json
    assert (done["head"], after["head"], after["epoch"]) == (5, 5, done["epoch"])
    assert after["epoch"] != before["epoch"]
    aside = shell.call("ledger", "show", str(Path(done["aside"]) / "ledger.db"), "--json").json
    assert (aside["head"], aside["epoch"]) == (9, before["epoch"])
    assert shell.call("ledger", "verify").code == 0
    assert shell.call("ledger", "verify", str(tmp_path / "copy.db")).code == 0
    with broker_up(shell):
        known = ["emit", "session.started", "--adapter", "codex", "--session", "s", "--key", "s1"]
        (again,) = shell.call(*known, "--json").lines
        assert (again["replayed"], shell.call("ledger", "show", "--json").json["head"]) == (True, 5)
        other = shell.call("emit", "session.ended", *known[2:])
        assert (other.code, "used before" in other.err) == (1, True)
        emit(shell, 1, "s", first=50)
        assert shell.call("receipts", "--json", "-n", "1").lines[0]["receipt"]["sequence"] == 4


def test_a_running_broker_keeps_its_ledger(shell: Shell, tmp_path: Path) -> None:
    shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    shell.call("ledger", "export", str(tmp_path / "text"))
    with broker_up(shell):
        for command, file in (("restore", "copy.db"), ("import", "text")):
            ran = shell.call("ledger", command, str(tmp_path / file))
            assert (ran.code, "end the broker" in ran.err) == (69, True)
    names = [path.name for path in (shell.directory / "state").iterdir()]
    assert not [name for name in names if ".before" in name or name.endswith((".next", ".tmp"))]


def test_export_and_import_and_export_again_are_the_same_but_for_the_epoch(shell: Shell, tmp_path: Path) -> None:
    assert shell.call("ledger", "export", str(tmp_path / "one")).code == 0
    assert shell.call("ledger", "export", "-").out.encode() == (tmp_path / "one").read_bytes()
    assert shell.call("ledger", "import", str(tmp_path / "one")).code == 1
    done = shell.call("ledger", "import", str(tmp_path / "one"), "--replace", "--json").json
    assert shell.call("ledger", "verify").code == 0
    assert shell.call("ledger", "export", str(tmp_path / "two")).code == 0
    one, two = ((tmp_path / name).read_bytes().splitlines() for name in ("one", "two"))
    assert one[1:-1] == two[1:-1]
    first, second = json.loads(one[0])["header"], json.loads(two[0])["header"]
    assert first | {"epoch": done["epoch"]} == second
    assert first["epoch"] != done["epoch"]


def test_an_export_makes_a_ledger_where_there_was_none(shell: Shell, alone: Shell, tmp_path: Path) -> None:
    shell.call("ledger", "export", str(tmp_path / "one"))
    done = alone.call("ledger", "import", str(tmp_path / "one"), "--json").json
    assert (done["head"], done["aside"]) == (5, None)
    assert alone.call("ledger", "verify", "--json").json == {"head": 5, "faults": []}
    assert stat.S_IMODE(ledger_of(alone).stat().st_mode) == 0o600


@pytest.mark.parametrize("beside", [False, True])
def test_pruning_says_what_would_go_and_what_went(shell: Shell, beside: bool) -> None:
    with contextlib.ExitStack() as stack:
        if beside:
            stack.enter_context(broker_up(shell))
        would = shell.call("ledger", "prune", "--through", "3", "--dry-run", "--json").json
        assert (would["receipts"], would["before"], would["floor"], would["dry_run"]) == (3, 0, 3, True)
        assert shell.call("ledger", "show", "--json").json["floor"] == 0
        ran = shell.call("ledger", "prune", "--through", "3")
        assert (ran.code, ran.err if beside else "") == (0, "")
        assert "3 receipts went: positions 1 to 3" in ran.out
        assert "there is nothing to drop" in shell.call("ledger", "prune", "--through", "3").out
    found = shell.call("ledger", "show", "--json").json
    assert (found["floor"], found["rows"], found["tombstones"], found["base"]["position"]) == (3, 2, 3, 3)
    assert shell.call("ledger", "verify", "--json").json == {"head": 5, "faults": []}


def test_pruning_by_age_and_compacting(shell: Shell) -> None:
    ran = shell.call("ledger", "prune", "--before", "1h")
    assert (ran.code, "there is nothing to drop" in ran.out) == (0, True)
    assert shell.call("ledger", "prune", "--keep-days", "1", "--json").json["receipts"] == 0
    assert shell.call("ledger", "prune", "--keep-mb", "1", "--json").json["receipts"] == 0
    assert shell.call("ledger", "prune", "--before", "2100-01-01", "--json").json["receipts"] == 5
    assert shell.call("ledger", "prune", "--compact").code == 0
    assert shell.call("ledger", "show", "--json").json["free_bytes"] == 0
    assert shell.call("ledger", "verify").code == 0
    with broker_up(shell):
        assert shell.call("ledger", "prune", "--compact").code == 69
        emit(shell, 1, "s", first=70)
    assert shell.call("receipts", "export").lines[-1]["sequence"] == 4


@pytest.mark.parametrize(
    "arguments",
    [[], ["--through", "1", "--keep-days", "2"], ["--through", "0"], ["--keep-mb", "x"], ["--before", "never"]],
)
def test_a_prune_that_cannot_be_is_a_usage_error(shell: Shell, arguments: list[str]) -> None:
    assert shell.call("ledger", "prune", *arguments).code == 2


def test_a_position_that_is_not_there_yet_cannot_be_pruned(shell: Shell) -> None:
    ran = shell.call("ledger", "prune", "--through", "99")
    assert (ran.code, "the newest is 5" in ran.err) == (1, True)


def test_what_was_pruned_stays_so_through_export_import_and_restore(shell: Shell, tmp_path: Path) -> None:
    shell.call("ledger", "prune", "--through", "3")
    shell.call("ledger", "export", str(tmp_path / "one"))
    shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    for command, file in (("import", "one"), ("restore", "copy.db")):
        more = ["--replace"] if command == "import" else []
        assert shell.call("ledger", command, str(tmp_path / file), *more).code == 0
        found = shell.call("ledger", "show", "--json").json
        assert (found["floor"], found["rows"], found["tombstones"], found["base"]["position"]) == (3, 2, 3, 3)
        assert shell.call("ledger", "verify", "--json").json == {"head": 5, "faults": []}
    with broker_up(shell):
        ran = shell.call("emit", "session.started", "--adapter", "codex", "--session", "s", "--key", "s0")
        assert ran.code == 1
        emit(shell, 1, "s", first=80)
    assert shell.call("receipts", "export").lines[-1]["sequence"] == 4


def test_an_altered_export_is_refused_by_its_first_bad_position(shell: Shell, tmp_path: Path) -> None:
    shell.call("ledger", "export", str(tmp_path / "one"))
    text = (tmp_path / "one").read_bytes()
    (tmp_path / "one").write_bytes(
        text.replace(b'"status":"observed"', b'"status":"degraded"', 3).replace(
            b'"status":"degraded"', b'"status":"observed"', 2
        )
    )
    before = ledger_of(shell).read_bytes()
    ran = shell.call("ledger", "import", str(tmp_path / "one"), "--replace")
    assert (ran.code, "position 3: " in ran.err) == (65, True)
    (tmp_path / "one").write_bytes(text[:-50])
    ran = shell.call("ledger", "import", str(tmp_path / "one"), "--replace")
    assert (ran.code, "cut off" in ran.err or "no line of an export" in ran.err) == (65, True)
    assert ledger_of(shell).read_bytes() == before


@pytest.mark.parametrize("command", ["backup", "import", "prune"])
def test_a_disk_without_room_changes_nothing(shell: Shell, tmp_path: Path, command: str) -> None:
    shell.call("ledger", "backup", str(tmp_path / "copy.db"))
    shell.call("ledger", "export", str(tmp_path / "text"))
    files = {"restore": ["copy.db"], "import": ["text"], "backup": ["new"], "export": ["new"]}
    words = [str(tmp_path / name) for name in files.get(command, [])]
    words += {"import": ["--replace"], "prune": ["--through", "3"]}.get(command, [])
    before = sorted(path.name for path in tmp_path.iterdir())
    ran = subprocess.run(
        ["sh", "-c", 'ulimit -f 8; exec "$@"', "sh", *COMMAND, "ledger", command, *words],
        env={**shell.environment, "PYTHONDONTWRITEBYTECODE": "1"},  # or half of it is written
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 74, ran.stderr
    assert ran.stderr.startswith("lifebus: ")
    assert "Traceback" not in ran.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    assert not [path.name for path in (shell.directory / "state").iterdir() if path.name.endswith((".tmp", ".next"))]
    assert shell.call("ledger", "verify", "--json").json == {"head": 5, "faults": []}
    assert shell.call("ledger", "show", "--json").json["floor"] == 0


COMMANDS = (("show",), ("verify",), ("restore",), ("import",))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize(
    "kind", ["none", "empty", "one byte", "directory", "text", "truncated", "newer", "other", "pipe", "forbidden"]
)
def test_whatever_the_file_is_a_command_says_so_in_words(
    shell: Shell, tmp_path: Path, command: tuple[str, ...], kind: str
) -> None:
    file = tmp_path / "file"
    content = ledger_of(shell).read_bytes()
    if kind == "directory":
        file.mkdir()
    elif kind == "text":
        file.write_text("hello\n" * 2000)
    elif kind == "truncated":
        file.write_bytes(content[: len(content) // 2])
    elif kind in {"empty", "one byte"}:
        file.write_bytes(content[: kind == "one byte"])
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind in {"newer", "other"}:
        connection = apsw.Connection(str(file))
        connection.execute("CREATE TABLE meta (a); PRAGMA user_version = " + ("99" if kind == "newer" else "3"))
        connection.close()
    elif kind == "forbidden":
        file.write_bytes(content)
        file.chmod(0)
        if os.access(file, os.R_OK):
            pytest.skip("this user may read everything")
    before = content
    ran = shell.call("ledger", *command, str(file))
    assert ran.code in {1, 65, 69, 74}
    assert ran.err.startswith("lifebus: ") or "wrong" in ran.out
    assert "Traceback" not in ran.err
    assert "defect" not in ran.err
    assert ledger_of(shell).read_bytes() == before
    assert not [path.name for path in tmp_path.iterdir() if not path.name.startswith("file")]


def test_where_there_is_no_ledger_yet_that_is_said(alone: Shell, tmp_path: Path) -> None:
    for arguments in (["show"], ["verify"], ["backup", str(tmp_path / "x")], ["export", "-"]):
        ran = alone.call("ledger", *arguments)
        assert (ran.code, "no such ledger" in ran.err) == (74, True)
    assert list(tmp_path.iterdir()) == []
