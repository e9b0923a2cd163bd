"""Whatever leaves a damaged ledger is what was written, and what is not leaves it by name; the oracle is plain SQL."""

import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite import file as sqlite_file
from lifebus_broker.ledger.sqlite.checks.sound_rows import DamagedRow
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import DamagedReceipt, Query
from lifebus_contract import InternalError, LifecycleEvent, ReceiptStatus
from support.receipts import OTHER_DIGEST, append, entry, recorded

ROWS, BAD = 480, 100
SESSIONS = ("s0", "s1", "s2")
EVENTS = (LifecycleEvent.FRAME_OPENED, LifecycleEvent.FRAME_ENDED)
QUERIES: dict[str, dict[str, Any]] = {
    "all": {},
    "in small pages": {"limit": 30},
    "a session": {"session": ("codex", SESSIONS[(BAD - 1) % 3]), "limit": 30},
    "an event": {"event": EVENTS[(BAD - 1) % 2]},
    "a status": {"status": ReceiptStatus.OBSERVED, "limit": 50},
    "an adapter": {"adapter_id": "codex"},
    "since a time": {"since_epoch_s": 1_790_000_050},
    "a session and an event": {"session": ("codex", SESSIONS[(BAD - 1) % 3]), "event": EVENTS[(BAD - 1) % 2]},
}
ALTERED = {
    "a changed byte": "UPDATE rows SET receipt = CAST(replace(receipt, 'vt_', 'vz_') AS BLOB) WHERE position = ?",
    "a receipt as text": "UPDATE rows SET receipt = CAST(receipt AS TEXT) WHERE position = ?",
    "a receipt cut off": "UPDATE rows SET receipt = substr(receipt, 1, 100) WHERE position = ?",
    "a number as a receipt": "UPDATE rows SET receipt = 5 WHERE position = ?",
    "a byte of the link": "UPDATE rows SET link = CAST(x'00' || substr(link, 2) AS BLOB) WHERE position = ?",
    "a link as text": "UPDATE rows SET link = 'x' WHERE position = ?",
    "another row before": "UPDATE rows SET previous = previous + 1 WHERE position = ?",
    "no row before": "UPDATE rows SET previous = 0 WHERE position = ?",
    "a row before as text": "UPDATE rows SET previous = 'x' WHERE position = ?",
    "dropped": "DELETE FROM rows WHERE position = ?",
}
UNSEEN = {
    "another event": "UPDATE rows SET event = 'session.ended' WHERE position = ?",
    "another status": "UPDATE rows SET status = 'failed' WHERE position = ?",
    "another time": "UPDATE rows SET at_epoch_s = 5 WHERE position = ?",
    "another stream": "UPDATE rows SET stream = 99 WHERE position = ?",
    "another sequence": "UPDATE rows SET sequence = sequence + 1 WHERE position = ?",
    "a time as a blob": "UPDATE rows SET at_epoch_s = x'ff' WHERE position = ?",
    "a second further on": "UPDATE seconds SET position = position + 100 WHERE second = 1790000050 AND ? > 0",
    "marks gone": "DELETE FROM marks WHERE ? > 0",
    "marks to another session": "UPDATE marks SET position = position + 1 WHERE ? > 0",
    "marks to nowhere": "UPDATE marks SET position = position + 100000 WHERE ? > 0",
}
"""What is no part of the receipt and in no link: it must hide nothing."""


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(sqlite_file, "BOOT_TAIL", 10)  # all but the newest rows are old
    return tmp_path / "ledger.db"


async def fill(path: Path) -> dict[int, bytes]:
    """Record rows of three sessions, and return what was written, by position."""
    ledger = await SqliteLedger.open(path)
    entries = [
        entry(n, key=f"k{n}", harness_session_id=SESSIONS[n % 3], event=EVENTS[n % 2], at_epoch_s=1_790_000_000 + n)
        for n in range(ROWS)
    ]
    stored = await recorded(ledger, entries)
    await ledger.aclose()
    return {one.position: one.receipt for one in stored}


def change(path: Path, statement: str, position: int = BAD) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, (position,))


def altered(path: Path, name: str, statement: str) -> Path:
    """Return a changed copy of a closed ledger."""
    copy = path.with_name(f"{name}.db")
    copy.write_bytes(path.read_bytes())
    change(copy, statement)
    return copy


def expected(written: dict[int, bytes], query: dict[str, Any]) -> list[int]:
    """Return which positions a query asks for, by what was recorded at them and by nothing in the file."""
    found: list[int] = []
    for position in written:
        number = position - 1
        session, event = query.get("session"), query.get("event")
        if (
            (session is None or session[1] == SESSIONS[number % 3])
            and (event is None or event is EVENTS[number % 2])
            and 1_790_000_000 + number >= query.get("since_epoch_s", 0)
        ):
            found.append(position)
    return found


async def read_on(ledger: SqliteLedger, query: dict[str, Any]) -> tuple[dict[int, bytes], list[DamagedReceipt]]:
    """Read to the end as a client does that goes on behind whatever it is refused."""
    served: dict[int, bytes] = {}
    refused: list[DamagedReceipt] = []
    after = 0
    while True:
        try:
            page = await ledger.read(Query(after=after, **query))
        except DamagedRow as fault:
            refused.append(fault.refusal)
            after = _checked(fault, after)
            continue
        for one in page.stored:
            assert one.position not in served
            served[one.position] = one.receipt
        if page.complete:
            return served, refused
        assert page.next > after, "a page must lead on"
        after = page.next


def _checked(fault: DamagedRow, after: int) -> int:
    """Return where reading goes on, by what a refusal says."""
    assert fault.code == "row_damaged"
    assert f"row {fault.refusal.position}: " in fault.detail
    assert after < fault.refusal.position <= fault.refusal.through
    assert f"after position {fault.refusal.through}" in fault.detail
    return fault.refusal.through


def hidden(wanted: Sequence[int], served: dict[int, bytes], refused: list[DamagedReceipt]) -> list[int]:
    """Return what was asked for and is neither served nor named."""
    named = {position for one in refused for position in range(one.position, one.through + 1)}
    return [position for position in wanted if position not in served and position not in named]


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
async def test_a_row_that_was_changed_or_dropped_is_refused_by_name_and_every_other_one_is_served(
    path: Path, query: dict[str, Any]
) -> None:
    written = await fill(path)
    wanted = expected(written, query)
    for name, statement in ALTERED.items():
        ledger = await SqliteLedger.open(altered(path, name, statement))
        served, refused = await read_on(ledger, query)
        assert all(written[position] == receipt for position, receipt in served.items()), name
        assert hidden(wanted, served, refused) == [], name
        assert BAD not in served, name
        # with the row, at most the one that continues it cannot be proved
        assert sorted(set(wanted) - set(served)) in ([], [BAD], [BAD, BAD + 3]), name
        assert (BAD in wanted) <= bool(ledger.status().damaged), name
        assert ledger.status().writable
        assert (await recorded(ledger, [entry(999)]))[0].position == ROWS + 1
        await ledger.aclose()


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES.keys())
async def test_what_is_in_no_link_hides_no_row(path: Path, query: dict[str, Any]) -> None:
    written = await fill(path)
    wanted = expected(written, query)
    for name, statement in UNSEEN.items():
        ledger = await SqliteLedger.open(altered(path, name, statement))
        served, refused = await read_on(ledger, query)
        assert (list(served), refused) == (wanted, []), name
        await ledger.aclose()


async def test_verification_names_a_damaged_row_once_and_nothing_that_follows_from_it(path: Path) -> None:
    await fill(path)
    for name, statement in {**ALTERED, **UNSEEN}.items():
        if not name.startswith(("marks", "a second")):
            found = verify(altered(path, name, statement))
            assert [finding.partition(":")[0] for finding in found] == [f"row {BAD}"], (name, found)


async def test_a_page_ends_before_the_damage_and_says_so_at_once(path: Path) -> None:
    await fill(path)
    change(path, ALTERED["dropped"])
    ledger = await SqliteLedger.open(path)
    page = await ledger.read(Query(after=90, limit=50))
    assert ([one.position for one in page.stored], page.next, page.complete) == (list(range(91, BAD)), BAD - 1, False)
    assert [one.position for one in page.damaged] == [BAD]
    assert [f"row {BAD}: is missing" in text for text in ledger.status().damaged] == [True]
    with pytest.raises(InternalError, match=f"row {BAD}: is missing.*goes on after position {BAD}"):
        await ledger.read(Query(after=BAD - 1))
    page = await ledger.read(Query(after=90, limit=4096, past_damage=True))
    assert [one.position for one in page.stored] == [
        *range(91, BAD),
        *range(BAD + 1, BAD + 3),
        *range(BAD + 4, ROWS + 1),
    ]
    assert ([one.position for one in page.damaged], page.complete) == ([BAD, BAD + 3], True)
    await ledger.aclose()


@pytest.mark.parametrize("statement", ALTERED.values(), ids=ALTERED.keys())
async def test_a_damaged_row_is_no_answer_to_its_key(path: Path, statement: str) -> None:
    await fill(path)
    change(path, statement)
    ledger = await SqliteLedger.open(path)
    # by both ways: a client's question and the writer, which comes upon the key
    found = await ledger.find([("alice", "codex", f"k{BAD - 1}"), ("alice", "codex", f"k{BAD}")])
    assert isinstance(found[0] and found[0][1], DamagedReceipt)
    assert getattr(found[1] and found[1][1], "position", 0) == BAD + 1
    again, other, sound = await append(
        ledger,
        [
            entry(BAD - 1, key=f"k{BAD - 1}", harness_session_id="s9"),
            entry(BAD - 1, key=f"k{BAD - 1}", digest=OTHER_DIGEST, harness_session_id="s9"),
            entry(BAD, key=f"k{BAD}", harness_session_id="s9"),
        ],
    )
    assert [again.stored, again.refusal and again.refusal.code] == [None, "row_damaged"]
    assert other.refusal is not None
    assert other.refusal.code == "duplicate_id_conflict"
    assert sound.replayed
    assert len(ledger.status().damaged) == 1
    await ledger.aclose()


async def test_damage_among_the_newest_rows_ends_the_ledger(path: Path) -> None:
    await fill(path)
    failures: list[Exception] = []
    ledger = await SqliteLedger.open(path, failed=failures.append)
    change(path, ALTERED["a changed byte"], ROWS - 5)
    served, refused = await read_on(ledger, {})
    assert (list(served), [one.position for one in refused]) == (
        [n for n in range(1, ROWS + 1) if n != ROWS - 5],
        [ROWS - 5],
    )
    assert [str(ROWS - 5) in str(fault) for fault in failures][:1] == [True]
    assert ledger.append([entry(999)], lambda _: None) is not None
    await ledger.aclose()
