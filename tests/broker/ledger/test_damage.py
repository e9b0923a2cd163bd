"""Whatever in a ledger file is not what was written, verification names, the first bad place first."""

import asyncio
import shutil
from pathlib import Path

import pytest

from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.schema import open_writer
from lifebus_contract import InternalError
from support.crash.rotting import write_ledger
from support.receipts import entry, recorded

TAMPERED = {
    "a space inside a receipt": (
        (
            "UPDATE rows SET receipt = CAST(replace(CAST(receipt AS TEXT), ',\"client', ', \"client') AS BLOB)"
            " WHERE position = 31"
        ),
        "row 31: link (hash chain) does not match",
    ),
    "one byte of a receipt": (
        "UPDATE rows SET receipt = CAST(replace(CAST(receipt AS TEXT), 'inv_1', 'inv_2') AS BLOB) WHERE position = 40",
        "row 40: link (hash chain) does not match",
    ),
    "one byte of the last receipt": (
        "UPDATE rows SET receipt = CAST(replace(CAST(receipt AS TEXT), 'inv_1', 'inv_2') AS BLOB) WHERE position = 83",
        "row 83: link (hash chain) does not match",
    ),
    "the last row dropped": (
        "DELETE FROM rows WHERE position = 83",
        "row 83: was acknowledged and is missing",
    ),
    "the last rows dropped": (
        "DELETE FROM rows WHERE position > 76",
        "row 77: was acknowledged and is missing, as is everything up to row 83",
    ),
    "a row in the middle dropped": ("DELETE FROM rows WHERE position = 31", "row 31: is missing"),
    "the first row dropped": ("DELETE FROM rows WHERE position = 13", "row 13: is missing"),
    "two rows swapped": (
        (
            "UPDATE rows SET position = -31 WHERE position = 31; UPDATE rows SET position = 31 WHERE position = 32;"
            "UPDATE rows SET position = 32 WHERE position = -31"
        ),
        "row 31: link (hash chain) does not match",
    ),
    "two receipts swapped": (
        (
            "UPDATE rows SET receipt = (SELECT receipt FROM rows o WHERE o.position = 63 - rows.position)"
            " WHERE position IN (31, 32)"
        ),
        "row 31: link (hash chain) does not match",
    ),
    "the last row twice": (
        (
            "INSERT INTO rows SELECT 84, stream, previous, sequence, at_epoch_s, event, status, ended, open_frames,"
            " harness_sequence, link, receipt FROM rows WHERE position = 83"
        ),
        "row 84: link (hash chain) does not match",
    ),
    "a number as a receipt": ("UPDATE rows SET receipt = 5 WHERE position = 31", "row 31: does not hold a receipt"),
    "a text as a link": ("UPDATE rows SET link = 'x' WHERE position = 31", "row 31: does not hold a receipt"),
    "a key of a dropped last row": (
        "UPDATE keys SET position = 99, digest = guarded(key, substr(digest, 1, 16), 99) WHERE position = 80",
        "row 80: idempotency key does not match",
    ),
    "an alias above the head": (
        "UPDATE keys SET position = 99, digest = guarded(key, substr(digest, 1, 16), 99) WHERE key LIKE 'carol%167'",
        "row 80: the emitter's idempotency key does not match",
    ),
    "one bit of a digest": (
        "UPDATE keys SET digest = CAST(x'31' || substr(digest, 2) AS BLOB) WHERE position = 31",
        "row 31: idempotency key does not match",
    ),
    "a key of nobody": (
        "INSERT INTO keys VALUES ('nobody', x'000102030405060708090a0b0c0d0e0f00000000', 20)",
        "row 20: the digest or position of an idempotency key is not what was written",
    ),
    "a key above the head": (
        "INSERT INTO keys VALUES ('nobody', guarded('nobody', zeroblob(16), 84), 84)",
        "row 84: is missing, an idempotency key leads to it",
    ),
    "a missing mark": ("DELETE FROM marks", "row 68: mark does not match"),
    "a mark too many": ("INSERT INTO marks VALUES (2, 20)", "row 20: a mark of stream 2 leads to it"),
    "a missing second": (
        "DELETE FROM seconds WHERE second = 1790000100",
        "row 13: the index by time does not match",
    ),
    "another second": (
        "UPDATE seconds SET second = second - 1 WHERE position <= 12",
        "seconds: what is known of `1790000006` is not what was written",
    ),
    "another start of a session": (
        "UPDATE streams SET started_at_epoch_s = 5 WHERE stream = 1",
        "streams: what is known of `1` is not what was written",
    ),
    "a session without receipts": (
        "INSERT INTO streams VALUES (99, 'x', 'y', 5, 5, checksum(99, 'x', 'y', 5, 5))",
        "row 5: stream 99 holds no receipt",
    ),
    "another head of a pruned session": (
        "UPDATE bases SET ended = 1 WHERE stream = 1",
        "bases: what is known of `1` is not what was written",
    ),
    "another base": ("UPDATE base SET body = x'00'", "row 12: the base is not what its hash says"),
    "no base": ("DELETE FROM base", "row 12: the base is not there, or is not of the floor"),
    "the base of another floor": ("UPDATE base SET position = 3", "row 12: the base is not there"),
    "a tombstone": (
        "UPDATE tombstones SET pruned_at_epoch_s = 1 WHERE key = x'00000000000000000000000000000000'",
        "tombstones: what is known of 00000000000000000000000000000000 is not what was written",
    ),
    "another floor": ("UPDATE meta SET value = 11 WHERE key = 'floor'", "the ledger's own value `floor`"),
    "another epoch": ("UPDATE meta SET value = 'x' || value WHERE key = 'epoch'", "the ledger's own value `epoch`"),
    "no floor": ("DELETE FROM meta WHERE key = 'floor'", "the ledger's own values are not all there"),
    "a floor above the head": (
        "UPDATE meta SET value = 999, checksum = checksum(key, 999) WHERE key = 'pointed'",
        "the ledger's own values contradict each other",
    ),
    "another table": ("CREATE TABLE more (x)", "the definitions of its tables are not those that were written"),
    "another trigger": (
        "PRAGMA writable_schema = 1;UPDATE sqlite_schema SET sql = replace(sql, '% 64', '% 65') WHERE name = 'take'",
        "the definitions of its tables are not those that were written",
    ),
    "notes of a rewound journal": (
        "DELETE FROM notes WHERE id = 1 AND number = 6; UPDATE note_streams SET head = 5 WHERE id = 1",
        "notes: the newest 1 that were acknowledged are missing",
    ),
}


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger with something of everything, 83 receipts, of which 12 are pruned; never changed."""
    path = tmp_path_factory.mktemp("sound") / "ledger.db"
    asyncio.run(write_ledger(path))
    return path


@pytest.fixture
def path(sound: Path, tmp_path: Path) -> Path:
    for suffix in ("", "-witness"):
        shutil.copy(f"{sound}{suffix}", tmp_path / f"ledger.db{suffix}")
    return tmp_path / "ledger.db"


def tamper(path: Path, statement: str) -> None:
    connection = open_writer(path)
    connection.execute(statement).fetchall()
    connection.close()


@pytest.mark.parametrize(("statement", "expected"), TAMPERED.values(), ids=TAMPERED)
def test_what_was_tampered_with_is_named_by_its_first_bad_place(path: Path, statement: str, expected: str) -> None:
    assert verify(path) == []
    tamper(path, statement)
    found = verify(path)
    assert found
    assert found[0].startswith(expected)
    assert verify(path) == found, "nothing is repaired in silence"


def test_a_dropped_last_row_is_found_without_the_witness_as_well(path: Path) -> None:
    path.with_name("ledger.db-witness").unlink()
    assert verify(path) == []
    tamper(path, "DELETE FROM rows WHERE position > 76; DELETE FROM marks WHERE position > 76")
    assert "row 77: is missing, an idempotency key leads to it" in verify(path)


async def test_a_file_that_was_emptied_is_no_new_ledger_and_one_that_was_taken_away_is(path: Path) -> None:
    path.write_bytes(b"")  # noqa: ASYNC240  a test may wait for a file
    with pytest.raises(InternalError, match="row 1: was acknowledged and is missing, as is everything up to row 83"):
        await SqliteLedger.open(path)
    path.unlink()  # noqa: ASYNC240
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, [entry(1)])
    assert await ledger.verify() == []
    await ledger.aclose()
    assert verify(path) == []


async def test_an_older_copy_of_the_file_is_not_taken_for_the_present_one(path: Path, sound: Path) -> None:
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, [entry(900, key="k900"), entry(901, key="k901")])
    await ledger.aclose()
    shutil.copy(sound, path)
    with pytest.raises(InternalError, match="row 84: was acknowledged and is missing, as is everything up to row 85"):
        await SqliteLedger.open(path)


async def test_who_relaxes_has_no_witness_and_is_accused_of_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    for number in range(2):
        ledger = await SqliteLedger.open(path, durability="relaxed")
        await recorded(ledger, [entry(number)])
        await ledger.aclose()
    assert not path.with_name("ledger.db-witness").exists()
    assert verify(path) == []


async def test_a_ledger_without_room_for_a_witness_works_without(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    path.with_name("ledger.db-witness").mkdir()
    ledger = await SqliteLedger.open(path)
    await recorded(ledger, [entry(1)])
    assert await ledger.verify() == []
    await ledger.aclose()
