"""`lifebus ledger caches`, beside a broker and without one; and that deleting them changes nothing but time."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw
import pytest

from lifebus_broker.ledger.sqlite.file import BOOT_TAIL
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from support.command_line import Shell, broker_up
from support.patience import PATIENCE_S
from support.receipts import append, keyed
from support.running import short_directory

RECAPS = Path("state") / "compactions" / "session_recap@1"


def emit(shell: Shell, event: str, session: str, *more: str) -> None:
    ran = shell.call("emit", event, "--adapter", "codex", "--session", session, *more)
    assert ran.code == 0, ran.err


@pytest.fixture(scope="module")
def filled() -> Iterator[Shell]:
    """A shell whose broker has recorded two sessions and ended."""
    with short_directory() as directory:
        shell = Shell(directory)
        with broker_up(shell):
            emit(shell, "session.started", "s1", "--key", "k1")
            emit(shell, "frame.opened", "s1", "--frame", "f1", "--key", "k2")
            emit(shell, "session.started", "s/2 @x", "--key", "k3")
            emit(shell, "session.ended", "s/2 @x", "--key", "k4")
        yield shell


@pytest.fixture
def shell(filled: Shell) -> Iterator[Shell]:
    """A shell with a ledger of its own, like that of `filled`."""
    with short_directory() as directory:
        (directory / "state").mkdir(mode=0o700)
        (directory / "state" / "ledger.db").write_bytes((filled.directory / "state" / "ledger.db").read_bytes())
        yield Shell(directory)


def listed(shell: Shell) -> list[Any]:
    found: list[Any] = shell.call("ledger", "caches", "list", "--json").json["compactions"]
    return found


def test_recaps_are_built_listed_shown_verified_and_deleted_without_a_broker(shell: Shell) -> None:
    assert listed(shell) == []
    assert shell.call("ledger", "caches", "rebuild", "--json").json == {"built": 2, "deleted": 0, "kept": 0}
    assert shell.call("ledger", "caches", "rebuild", "--json").json == {"built": 0, "deleted": 0, "kept": 2}
    found = {one["of"]: one for one in listed(shell)}
    assert set(found) == {"codex/s1", "codex/s/2 @x"}
    assert all(
        (one["purpose"], one["stale"], one["allowmention_handles"]) == ("RECAP", False, []) for one in listed(shell)
    )
    ran = shell.call("ledger", "caches", "verify", "--json")
    assert (ran.code, sorted(ran.json["right"])) == (0, sorted(one["compaction_id"] for one in found.values()))
    name = found["codex/s1"]["compaction_id"]
    shown = shell.call("ledger", "caches", "show", name, "--json").json
    assert (shown["compaction_id"], shown["output"]["receipts"]) == (name, 2)
    assert shell.call("ledger", "caches", "show", "codex/s1", "--json").json == shown
    assert shell.call("ledger", "caches", "remove", name).out == "1 deleted\n"
    assert shell.call("ledger", "caches", "remove", name).code == 1
    assert shell.call("ledger", "caches", "remove", "--all", "--json").json == {"deleted": 1}
    assert listed(shell) == []


def test_a_recap_is_written_for_a_person(shell: Shell) -> None:
    ran = shell.call("ledger", "caches", "show", "codex/s1")
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[0] == "codex/s1  goes on"
    assert "  receipts    2, positions 1 to 2; started once" in lines
    assert "  events      frame.opened 1, session.started 1" in lines
    assert any(line.startswith("  open        frame f1 since 20") for line in lines)
    assert shell.call("ledger", "caches", "show", "codex/s/2 @x").out.startswith("codex/s/2 @x  ended\n")


def test_what_is_not_there_or_cannot_be_believed_is_said_and_what_to_do(shell: Shell) -> None:
    shell.call("ledger", "caches", "rebuild")
    name = next(one["compaction_id"] for one in listed(shell) if one["of"] == "codex/s1")
    path = shell.directory / RECAPS / f"{name}.json"
    sound = path.read_bytes()
    path.write_bytes(sound[:-30])
    ran = shell.call("ledger", "caches", "list")
    assert (ran.code, f"{name}.json: refused" in ran.err) == (1, True)
    assert "lifebus ledger caches rebuild" in shell.call("ledger", "caches", "show", name).err
    ran = shell.call("ledger", "caches", "verify")
    assert (ran.code, name in ran.out) == (1, True)
    assert shell.call("ledger", "caches", "rebuild", "--json").json == {"built": 1, "deleted": 0, "kept": 1}
    assert path.read_bytes() == sound
    assert "lifebus ledger caches list" in shell.call("ledger", "caches", "show", "0" * 16).err
    assert "no session" in shell.call("ledger", "caches", "show", "codex/nobody").err
    assert shell.call("ledger", "caches", "remove").code != 0
    assert shell.call("ledger", "caches", "remove", name, "--all").code != 0


async def long_ledger(path: Path) -> None:
    """Write a ledger that is longer than what each start verifies."""
    ledger = await SqliteLedger.open(path)
    await append(ledger, keyed(range(BOOT_TAIL + 10), at_epoch_s=int(time.time())))
    await ledger.aclose()


def test_a_log_that_was_damaged_long_ago_is_found_by_a_start_and_shown_by_doctor(alone: Shell) -> None:
    path = alone.directory / "state" / "ledger.db"
    path.parent.mkdir(mode=0o700)
    asyncio.run(long_ledger(path))
    with closing(apsw.Connection(str(path))) as connection:
        connection.execute(
            "UPDATE rows SET receipt = CAST(replace(receipt, 'evt_', 'evz_') AS BLOB) WHERE position = 5"
        )
    with broker_up(alone):
        emit(alone, "session.started", "s1")
        deadline = time.monotonic() + PATIENCE_S
        while not alone.call("status", "--json").json["counters"].get("keeper_broken"):
            assert time.monotonic() < deadline
        found = {one["check"]: one for one in alone.call("doctor", "--json").json}
        assert found["broker"]["state"] == "bad"
        assert "lifebus ledger verify" in found["broker"]["fix"]
    assert "row 5" in alone.call("ledger", "caches", "list").err
    assert "row 5" in alone.call("ledger", "verify").out


def test_without_a_ledger_they_say_so(alone: Shell) -> None:
    ran = alone.call("ledger", "caches", "list")
    assert ran.code != 0
    assert "no such ledger" in ran.err


def test_beside_a_broker_a_stale_recap_is_named_and_never_shown(shell: Shell) -> None:
    with broker_up(shell):
        shell.call("ledger", "caches", "rebuild")
        name = next(one["compaction_id"] for one in listed(shell) if one["of"] == "codex/s1")
        emit(shell, "frame.ended", "s1", "--frame", "f1")
        assert [one["compaction_id"] for one in listed(shell) if one["stale"]] == [name]
        ran = shell.call("ledger", "caches", "show", name, "--json")
        assert ran.json["output"]["receipts"] == 3
        assert "built anew" in ran.err
        assert shell.call("ledger", "caches", "rebuild", "--json").json == {"built": 1, "deleted": 1, "kept": 1}
        assert [one["stale"] for one in listed(shell)] == [False, False]


def test_deleting_all_of_them_changes_nothing(shell: Shell) -> None:
    def shown() -> tuple[object, ...]:
        with broker_up(shell):
            sessions = shell.call("sessions", "--json").out
            receipts = shell.call("receipts", "export").out
            again = shell.call("emit", "session.ended", "--adapter", "codex", "--session", "s1", "--key", "k1").err
            assert "was used before" in again
            assert shell.call("receipts", "verify").code == 0
        recap = shell.call("ledger", "caches", "show", "codex/s1", "--json").out
        return sessions, receipts, again, recap

    before_any = shown()
    shell.call("ledger", "caches", "rebuild")
    with_all = shown()
    shell.call("ledger", "caches", "remove", "--all")
    assert before_any == with_all == shown()
