"""What only the durable ledger promises: it comes back as it was, it notices damage, it stays within bounds."""

import random
import re
import shutil
import stat
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.sqlite import reader as sqlite_reader
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import MAX_QUEUED, SqliteLedger
from lifebus_broker.ledger.sqlite.schema import check_library
from lifebus_broker.ledger.sqlite.writing import maintenance as sqlite_maintenance
from lifebus_broker.ports import AppendResult, NewReceipt, Query, StoredReceipt
from lifebus_contract import InternalError, Warning  # noqa: A004  the contract's own word
from support.contract_suites.heads import heads_of
from support.integration.following import until
from support.receipts import OTHER_DIGEST, append, entry, every_receipt, keyed, receipt, recorded

SESSIONS = ["s1", "s2", "s3", None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make everything that happens every few thousand rows happen every few rows."""
    monkeypatch.setattr(sqlite_store, "POINT_EVERY", 16)
    monkeypatch.setattr(sqlite_store, "MAX_TIPS", 2)
    monkeypatch.setattr(sqlite_store, "PRUNE_STEP", 8)
    monkeypatch.setattr(sqlite_reader, "SCAN_ROWS", 32)
    monkeypatch.setattr(sqlite_maintenance, "CHECKPOINT_BYTES", 65_536)


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def flip(path: Path, copy: Path, text: bytes, place: int, bit: int) -> None:
    """Copy the file with one bit of `text` flipped, wherever it stands: pages that were split keep dead copies."""
    content = bytearray(path.read_bytes())
    for found in re.finditer(re.escape(text), bytes(content)):
        content[found.start() + place] ^= bit
    copy.write_bytes(content)


async def filled(path: Path, count: int, *, calls: int = 10) -> list[StoredReceipt]:
    """Record rows of four streams in several appends, close the ledger, return the rows."""
    ledger = await SqliteLedger.open(path)
    stored: list[StoredReceipt] = []
    for first in range(0, count, calls):
        numbers = range(first, min(first + calls, count))
        stored += await recorded(
            ledger, [entry(n, key=f"k{n}", harness_session_id=SESSIONS[n % len(SESSIONS)]) for n in numbers]
        )
    await ledger.aclose()
    return stored


async def test_it_comes_back_with_everything_and_goes_on_counting(path: Path) -> None:
    stored = await filled(path, 50)
    ledger = await SqliteLedger.open(path)
    assert await every_receipt(ledger) == stored
    assert list(heads_of(stored).values()) == sorted(await ledger.sessions(), key=lambda head: head.first_position)
    (again,) = await append(ledger, [entry(999, key="k7")])
    assert again == AppendResult(stored=stored[7], replayed=True)
    (one,) = await recorded(ledger, [entry(50, harness_session_id="s1")])
    assert (one.position, one.sequence) == (51, 14)
    await ledger.aclose()


async def test_the_epoch_is_made_once(path: Path) -> None:
    ledger = await SqliteLedger.open(path, entropy=lambda size: b"\x01" * size)
    assert ledger.epoch == "01" * 16
    await ledger.aclose()
    ledger = await SqliteLedger.open(path, entropy=lambda size: b"\x02" * size)
    assert ledger.epoch == "01" * 16
    await ledger.aclose()


async def test_the_file_is_private(path: Path) -> None:
    await filled(path, 1)
    assert mode_of(path) == 0o600


@pytest.mark.usefixtures("small_steps")
async def test_pointers_pieces_and_forgotten_tips_change_nothing(path: Path) -> None:
    stored = await filled(path, 400, calls=7)
    for _ in range(2):
        ledger = await SqliteLedger.open(path)
        assert await every_receipt(ledger, limit=50) == stored
        for name in ("s1", "s2"):
            expected = [one for one in stored if one.harness_session_id == name]
            assert await every_receipt(ledger, session=("codex", name), limit=20) == expected
        assert sorted(await ledger.sessions(), key=lambda head: head.first_position) == [*heads_of(stored).values()]
        assert await ledger.verify() == []
        stored += await recorded(ledger, [entry(len(stored) + n, harness_session_id="s2") for n in range(3)])
        await ledger.aclose()


@pytest.mark.usefixtures("small_steps")
async def test_an_empty_page_still_leads_on(path: Path) -> None:
    await filled(path, 200)
    ledger = await SqliteLedger.open(path)
    page = await ledger.read(Query(adapter_id="nobody"))
    assert (page.stored, page.next, page.complete) == ((), 32, False)
    assert await every_receipt(ledger, adapter_id="nobody") == []
    await ledger.aclose()


async def test_a_long_session_is_read_from_anywhere(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    stored: list[StoredReceipt] = []
    for first in range(0, 1500, 100):
        stored += await recorded(ledger, [entry(n, harness_session_id=f"s{n % 2}") for n in range(first, first + 100)])
    odd = [one for one in stored if one.harness_session_id == "s1"]
    for after in (0, 1, 127, 128, 129, 700, 1498, 1499, 1500):
        for limit in (1, 63, 64, 65, 300):
            expected = [one for one in odd if one.position > after]
            page = await ledger.read(Query(after=after, limit=limit, session=("codex", "s1")))
            assert list(page.stored) == expected[: len(page.stored)]
            assert len(page.stored) == min(limit, len(expected))
            assert await every_receipt(ledger, after=after, limit=limit, session=("codex", "s1")) == expected
    await ledger.aclose()


async def test_appends_larger_than_one_statement_stay_one_transaction(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    stored = await recorded(ledger, [entry(n, key=f"k{n}") for n in range(1300)])
    assert [one.sequence for one in stored] == list(range(1, 1301))
    again = await append(ledger, [entry(n, key=f"k{n}") for n in range(1300)])
    assert [answer.stored for answer in again] == stored
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_an_append_larger_than_the_queue_is_refused_for_good(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    refusal = ledger.append([entry(1)] * (MAX_QUEUED + 1), lambda _: None)
    assert refusal is not None
    assert refusal.code == "batch_too_large"
    await ledger.aclose()


async def test_the_queue_is_bounded_in_bytes_too(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    warnings = tuple(Warning(code="c", message="m" * 1000) for _ in range(60))
    heavy = [entry(n, warnings=warnings) for n in range(256)]
    done: list[AppendResult] = []
    refusals = [ledger.append(heavy, done.extend) for _ in range(16)]
    assert refusals[0] is None
    assert {refusal.code for refusal in refusals if refusal} == {"busy"}
    await ledger.aclose()
    assert len(done) == 256 * refusals.count(None)


async def test_many_at_once_with_the_same_keys_record_each_key_once(path: Path) -> None:
    chance = random.Random(7)
    ledger = await SqliteLedger.open(path)
    answers: list[AppendResult] = []
    for _ in range(60):
        keys = [chance.randrange(40) for _ in range(chance.randrange(1, 8))]
        digests = [OTHER_DIGEST if chance.random() < 0.2 else b"0123456789abcdef" for _ in keys]
        batch = [entry(n, key=f"k{n}", digest=digest) for n, digest in zip(keys, digests, strict=True)]
        assert ledger.append(batch, answers.extend) is None
    await append(ledger, [])
    new = [answer.stored for answer in answers if answer.stored is not None and not answer.replayed]
    assert [one.position for one in new] == list(range(1, len(new) + 1))
    assert [one.sequence for one in new] == list(range(1, len(new) + 1))
    assert len(new) == 40
    assert {answer.refusal.code for answer in answers if answer.refusal} == {"duplicate_id_conflict"}
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_a_failing_done_does_not_keep_others_from_their_answer(path: Path) -> None:
    ledger = await SqliteLedger.open(path)

    def fail(_: list[AppendResult]) -> None:
        raise RuntimeError("a caller's mistake")

    answers: list[AppendResult] = []
    ledger.append([entry(1)], fail)
    ledger.append([entry(2)], answers.extend)
    await append(ledger, [])
    assert len(answers) == 1
    await ledger.aclose()


@pytest.mark.usefixtures("small_steps")
async def test_pruned_rows_are_deleted_and_heads_outlive_them(path: Path) -> None:
    stored = await filled(path, 120)
    heads = heads_of(stored)
    ledger = await SqliteLedger.open(path)
    await ledger.prune(119, b"{}")
    store = ledger._file.store
    await until(lambda: store.pruned >= 119)
    assert {(head.adapter_id, head.harness_session_id): head for head in await ledger.sessions()} == heads
    assert await ledger.verify() == []
    await ledger.aclose()
    ledger = await SqliteLedger.open(path)
    assert await ledger.sessions(("codex", "s1")) == [heads["codex", "s1"]]
    (one,) = await recorded(ledger, [entry(500, harness_session_id="s1")])
    assert (one.position, one.sequence) == (121, 31)
    assert await ledger.verify() == []
    await ledger.aclose()


async def test_an_interrupted_prune_goes_on_after_the_next_open(path: Path) -> None:
    await filled(path, 40)
    store = sqlite_store.Store.open(path, epoch="")
    store.prune_to(30, b"{}")
    store.close()
    assert verify(path) == []
    ledger = await SqliteLedger.open(path)
    assert ledger.status().floor == 30
    await until(lambda: ledger._file.store.pruned >= 30)
    assert await ledger.verify() == []
    await ledger.aclose()


@pytest.mark.parametrize("version", ["3.7.0", "3.40.1", "3.51.2"])
def test_a_sqlite_that_corrupts_logs_is_refused(version: str) -> None:
    with pytest.raises(InternalError, match="can corrupt"):
        check_library(version)


@pytest.mark.parametrize("version", ["3.51.3", "3.52.0", "4.0.0"])
def test_a_repaired_sqlite_is_accepted(version: str) -> None:
    check_library(version)


async def test_a_file_of_another_format_is_left_alone(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE notes (text)")
    connection.close()
    before = path.read_bytes()  # noqa: ASYNC240  a test may wait for a file
    with pytest.raises(InternalError, match="ledger format 0"):
        await SqliteLedger.open(path)
    assert path.read_bytes()[100:] == before[100:]  # noqa: ASYNC240


async def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"not a database" * 100)  # noqa: ASYNC240  a test may wait for a file
    with pytest.raises(InternalError, match="NotADB"):
        await SqliteLedger.open(path)


DAMAGE = {
    "a changed receipt": "UPDATE rows SET receipt = replace(CAST(receipt AS TEXT), 'evt_000030', 'evt_000031') "
    "WHERE position = 31",
    "a changed link": "UPDATE rows SET link = zeroblob(32) WHERE position = 31",
    "a changed column": "UPDATE rows SET status = 'failed' WHERE position = 31",
    "a changed head": "UPDATE rows SET ended = 1 WHERE position = 31",
    "a missing row": "DELETE FROM rows WHERE position = 31",
    "a renumbered row": "UPDATE rows SET sequence = 99 WHERE position = 31",
    "a row of another session": "UPDATE rows SET stream = 2 WHERE position = 31",
    "a missing key": "DELETE FROM keys WHERE position = 31",
    "a key that points elsewhere": "UPDATE keys SET position = 30 WHERE position = 31",
}


@pytest.mark.parametrize("statement", DAMAGE.values(), ids=DAMAGE)
async def test_damage_is_found_by_verification_and_at_the_next_open(path: Path, statement: str) -> None:
    await filled(path, 60)
    connection = apsw.Connection(str(path))
    connection.execute(statement)
    connection.close()
    found = verify(path)
    assert found
    with pytest.raises(InternalError, match="is damaged"):
        await SqliteLedger.open(path)
    assert verify(path) == found, "nothing was repaired in silence"


@pytest.mark.usefixtures("small_steps")
async def test_a_lost_pointer_is_found(path: Path) -> None:
    await filled(path, 60)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE tips SET position = position - 4 WHERE stream = 1")
    connection.close()
    assert verify(path)[0] == "row 53: the pointer of stream 1 is not as the rows say"


async def test_any_flipped_bit_of_a_receipt_is_found(path: Path, tmp_path: Path) -> None:
    stored = await filled(path, 30)
    chance = random.Random(3)
    for number in range(40):
        copy = tmp_path / f"{number}.db"
        one = chance.choice(stored)
        flip(path, copy, one.receipt, chance.randrange(len(one.receipt)), 1 << chance.randrange(8))
        assert verify(copy), f"bit flipped in row {one.position}"


async def test_the_tail_alone_is_checked_at_open(path: Path) -> None:
    await filled(path, 1100, calls=100)
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE rows SET link = zeroblob(32) WHERE position = 5")
    connection.close()
    ledger = await SqliteLedger.open(path)
    assert await ledger.verify(tail=1000) == []
    assert await ledger.verify() != []
    await ledger.aclose()


async def test_a_copy_taken_without_closing_opens_as_after_a_crash(path: Path, tmp_path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    stored = await recorded(ledger, keyed(range(100)))
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")
    await ledger.aclose()
    revived = await SqliteLedger.open(copy)
    assert await every_receipt(revived) == stored
    assert await revived.verify() == []
    await revived.aclose()


async def test_the_same_receipt_without_a_session_is_chained_but_not_numbered(path: Path) -> None:
    ledger = await SqliteLedger.open(path)
    entries = [NewReceipt(receipt=receipt(n, harness_session_id=None)) for n in range(5)]
    stored = await recorded(ledger, entries)
    assert [one.sequence for one in stored] == [None] * 5
    assert await ledger.sessions() == []
    assert await ledger.verify() == []
    await ledger.aclose()
