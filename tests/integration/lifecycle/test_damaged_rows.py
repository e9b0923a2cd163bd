"""A row that was changed long ago, under a running broker: nobody gets it, everybody is told, the rest goes on."""

import asyncio
import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import lifebus
from lifebus_broker.ledger.sqlite.file import BOOT_TAIL
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_contract import LifebusError
from support.clients.proxy_box import eventually
from support.command_line import Shell, Up, broker_up
from support.receipts import append, keyed
from support.running import short_directory

BAD, GONE = 20, 40
ROWS = BOOT_TAIL + 100
EMISSION = ("emit", "frame.opened", "--adapter", "codex", "--session", "s", "--frame", "f", "--key", "once")
ALTER = "UPDATE rows SET receipt = CAST(replace(receipt, 'vt_', 'vz_') AS BLOB) WHERE position = ?"


@pytest.fixture(scope="module")
def running() -> Iterator[tuple[Shell, Up, dict[int, str]]]:
    """A broker on a ledger with a changed row and a dropped one, and the ids that were recorded.

    The changed row is that of an emission with a key.
    """
    with short_directory() as directory:
        shell = Shell(directory)
        path = directory / "state" / "ledger.db"
        path.parent.mkdir(mode=0o700)
        asyncio.run(_fill(path, 1, BAD - 1))
        with broker_up(shell):
            assert shell.call(*EMISSION).code == 0
        asyncio.run(_fill(path, BAD + 1, ROWS))
        with closing(sqlite3.connect(path)) as connection, connection:
            ids = "SELECT position, json_extract(CAST(receipt AS TEXT), '$.receipt_id') FROM rows"
            written = dict(connection.execute(ids).fetchall())
            keys = "SELECT json_extract(CAST(receipt AS TEXT), '$.idempotency_key') FROM rows WHERE position = ?"
            assert connection.execute(keys, (BAD,)).fetchone() == ("once",)
            connection.execute(ALTER, (BAD,))
            connection.execute("DELETE FROM rows WHERE position = ?", (GONE,))
        with broker_up(shell) as up:
            yield shell, up, written


async def _fill(path: Path, first: int, last: int, at_epoch_s: int | None = None) -> None:
    """Record receipts of one session at these positions."""
    ledger = await SqliteLedger.open(path)
    await append(
        ledger, keyed(range(first, last + 1), at_epoch_s=at_epoch_s or int(time.time()), harness_session_id="long")
    )
    assert ledger.head == last
    await ledger.aclose()


async def _follow(shell: Shell, since: int | str) -> tuple[list[str], LifebusError | None]:
    """Return the ids that a subscriber gets up to the newest, and what ends it before."""
    ids: list[str] = []
    async with lifebus.connect("reader", runtime_dir=shell.directory / "run") as bus:
        try:
            async for one in bus.receipts(since=since, until_head=True):
                ids.append(one.receipt_id)  # noqa: PERF401  what came before a refusal counts
        except LifebusError as fault:
            return ids, fault
    return ids, None


def test_a_subscriber_gets_what_is_before_the_damage_a_named_refusal_and_what_is_behind_it(
    running: tuple[Shell, Up, dict[int, str]],
) -> None:
    shell, _, written = running
    ids, fault = asyncio.run(_follow(shell, "start"))
    assert (ids, fault and fault.code) == ([written[n] for n in range(1, BAD)], "row_damaged")
    assert f"row {BAD}: link (hash chain) does not match" in str(fault)
    ids, fault = asyncio.run(_follow(shell, BAD))
    assert (ids, fault and fault.code) == ([written[n] for n in range(BAD + 1, GONE)], "row_damaged")
    assert f"row {GONE}: is missing" in str(fault)
    # the row that continues the missing one cannot be proved
    ids, fault = asyncio.run(_follow(shell, GONE))
    assert (ids, f"row {GONE + 1}: " in str(fault)) == ([], True)
    ids, fault = asyncio.run(_follow(shell, GONE + 1))
    assert (ids[: ROWS - GONE - 1], fault) == ([written[n] for n in range(GONE + 2, ROWS + 1)], None)


def test_commands_that_read_say_where_and_end_with_a_code_that_is_not_0(
    running: tuple[Shell, Up, dict[int, str]],
) -> None:
    shell, _, written = running
    tailed = shell.call("tail", "--no-follow", "--json")
    assert (tailed.code, len(tailed.lines), f"row {BAD}: " in tailed.err) == (74, BAD - 1, True)
    exported = shell.call("receipts", "export")
    assert [line["receipt_id"] for line in exported.lines] == [written[n] for n in range(1, BAD)]
    assert (exported.code, f"row {BAD}: " in exported.err, "--rescue" in exported.err) == (1, True, True)
    assert shell.call("receipts", "show", str(BAD)).code == 74
    assert shell.call("receipts", "show", str(BAD + 1), "--json").code == 0
    rescued = shell.call("receipts", "export", "--rescue")
    marks = [line["damaged"]["position"] for line in rescued.lines if "damaged" in line]
    ids = [line["receipt_id"] for line in rescued.lines if "receipt_id" in line]
    kept = [written[n] for n in range(1, ROWS + 1) if n not in (BAD, GONE, GONE + 1)]
    assert (rescued.code, marks, ids[: len(kept)]) == (1, [BAD, GONE, GONE + 1], kept)


def test_a_request_that_comes_again_is_refused_and_not_answered_with_what_was_altered(
    running: tuple[Shell, Up, dict[int, str]],
) -> None:
    shell, up, written = running
    again = shell.call(*EMISSION, "--json")
    assert (again.code, again.json["receipts"]) == (74, [])
    assert f"row {BAD}: link (hash chain) does not match" in again.json["refusal"]["detail"]
    # it goes on recording, and what is recorded now is answered when it comes again
    once = ("emit", "frame.opened", "--adapter", "codex", "--session", "new", "--frame", "f", "--key", "new", "--json")
    assert [shell.call(*once).code for _ in range(2)] == [0, 0]
    assert shell.call("sessions", "--json").code == 0
    assert (up.process.poll(), written[BAD] in again.out) == (None, False)


def test_status_doctor_and_log_say_it_and_new_receipts_are_recorded(
    running: tuple[Shell, Up, dict[int, str]],
) -> None:
    shell, up, _ = running
    asyncio.run(_follow(shell, "start"))
    status = shell.call("status", "--json").json["ledger"]
    assert (status["writable"], f"row {BAD}: " in status["damaged"][0]) == (True, True)
    assert f"row {BAD}: " in shell.call("status").out
    found = {one["check"]: one for one in shell.call("doctor", "--json").json}
    assert (found["ledger"]["state"], f"row {BAD}: " in found["ledger"]["evidence"]) == ("bad", True)
    # The log is read by a thread, which may be a moment behind.
    eventually(lambda: BAD in {one["position"] for one in logged(up) if one["event"] == "ledger.row_damaged"})
    ran = shell.call("emit", "session.started", "--adapter", "codex", "--session", "later", "--key", "later")
    assert ran.code == 0, ran.err
    # the session of the missing row goes on as well, with an end for which its past is read
    ran = shell.call("emit", "frame.ended", "--adapter", "codex", "--session", "long", "--frame", "f", "--key", "end")
    assert ran.code == 0, ran.err
    assert up.process.poll() is None


def logged(up: Up) -> list[dict[str, Any]]:
    return [json.loads(line) for line in list(up.log)]


def test_a_named_consumer_stands_before_the_damage_until_it_is_reset_to_behind_it(
    running: tuple[Shell, Up, dict[int, str]],
) -> None:
    shell, _, written = running
    ids, fault = asyncio.run(_consume(shell, BAD - 1))
    assert (ids, fault and fault.code) == ([written[n] for n in range(1, BAD)], "row_damaged")
    assert f"row {BAD}: " in str(fault)
    ids, fault = asyncio.run(_consume(shell, 1))
    assert (ids, fault and fault.code) == ([], "row_damaged")
    assert shell.call("clients", "reset-cursor", "mirror", "--to", str(BAD), "--yes").code == 0
    ids, fault = asyncio.run(_consume(shell, 5))
    assert (ids, fault) == ([written[n] for n in range(BAD + 1, BAD + 6)], None)


async def _consume(shell: Shell, most: int) -> tuple[list[str], LifebusError | None]:
    """Return the ids that a named consumer gets and acknowledges, at most so many, and what ends it before."""
    ids: list[str] = []
    async with lifebus.connect("mirror", runtime_dir=shell.directory / "run") as bus:
        try:
            async with bus.consume("mirror", since="start") as deliveries:
                async for delivery in deliveries:
                    ids.append(delivery.receipt.receipt_id)
                    await delivery.ack()
                    if len(ids) == most and most < BAD - 1:
                        break
        except LifebusError as fault:
            return ids, fault
    return ids, None


def test_retention_drops_nothing_from_the_damage_on_and_says_so_and_prune_ends_with_74() -> None:
    with short_directory() as directory:
        shell = Shell(directory, LIFEBUS_RETENTION_KEEP_DAYS="1", LIFEBUS_RETENTION_CHECK_S="1")
        path = directory / "state" / "ledger.db"
        path.parent.mkdir(mode=0o700)
        asyncio.run(_fill(path, 1, ROWS, at_epoch_s=1_000_000_000))
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute(ALTER, (BAD,))
        with broker_up(shell) as up:
            failed = [f"row {BAD}: ", '"retention_failed"']
            eventually(lambda: any(all(word in line for word in failed) for line in up.log))
            pruned = shell.call("ledger", "prune", "--through", str(BAD + 10))
            assert (pruned.code, f"row {BAD}: " in pruned.err) == (74, True)
            assert shell.call(*EMISSION).code == 0, "the broker goes on"
            ledger = shell.call("status", "--json").json["ledger"]
            assert (ledger["floor"], ledger["head"] > ROWS) == (0, True)
