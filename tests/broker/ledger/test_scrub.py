"""A scrub finds what `verify` finds, in slices that no transaction outlives (docs/ledger.md, "The scrub")."""

from itertools import pairwise
from pathlib import Path

import apsw
import pytest

from lifebus_broker.ledger.scrubbing import ScrubPlace
from lifebus_broker.ledger.sqlite.checks.scrub import scrub
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import NewRecord
from support.receipts import keyed, recorded
from support.snapshots.ledgers import change_rows

COUNT = 300


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    """A ledger of 300 receipts and some records."""
    ledger = await SqliteLedger.open(tmp_path / "ledger.db")
    for start in range(0, COUNT, 100):
        await recorded(ledger, keyed(range(start, start + 100)))
    ledger.journal.append([NewRecord("notes", b"one"), NewRecord("notes", b"two")], lambda _: None)
    await ledger.aclose()
    return tmp_path / "ledger.db"


class Pass:
    """One scrub: the places before its slices, and what it found."""

    def __init__(self, path: Path, after: int = 0) -> None:
        self.places: list[ScrubPlace] = []
        self.found: list[str] = []
        scrub(path, after, self.places.append, self.found.extend)


def test_a_sound_ledger_is_gone_through_in_small_slices_part_by_part(path: Path) -> None:
    done = Pass(path)
    assert done.found == []
    rows = [place.position for place in done.places if place.part == "rows"]
    assert rows[-1] >= COUNT - 64
    assert max(after - before for before, after in pairwise(rows)) == 64
    assert {place.part for place in done.places} >= {"rows", "notes", "keys", "marks"}


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE rows SET receipt = CAST(CAST(receipt AS TEXT) || ' ' AS BLOB) WHERE position = 100",
        "UPDATE rows SET sequence = 7 WHERE position = 65",
        "DELETE FROM rows WHERE position = 64",
        "DELETE FROM keys WHERE position = 130",
        "UPDATE keys SET position = 9 WHERE position = 130",
        "UPDATE notes SET body = CAST('ONE' AS BLOB) WHERE number = 1",
        "DELETE FROM marks WHERE position = 128",
        "UPDATE streams SET harness_session_id = 'other'",
        "UPDATE meta SET value = 299 WHERE key = 'floor'",
    ],
)
def test_it_finds_what_verify_finds(path: Path, damage: str) -> None:
    change_rows(path, damage)
    expected = verify(path)
    assert expected
    assert expected[0] in Pass(path).found


def test_it_goes_on_behind_a_position_and_before_a_slice_no_transaction_is_open(path: Path) -> None:
    change_rows(path, "UPDATE rows SET status = 'failed' WHERE position IN (10, 200)")
    writer = apsw.Connection(str(path))
    resets: list[int] = []

    def pace(place: ScrubPlace) -> None:
        # A reader's open transaction would keep the log from being cut off; a log without a page always can be.
        writer.pragma("application_id", len(resets) + 1)
        assert Path(f"{path}-wal").stat().st_size > 0
        writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        resets.append(place.position)

    found: list[str] = []
    scrub(path, 128, pace, found.extend)
    writer.close()
    assert resets[1] == 128
    assert [one.partition(":")[0] for one in found] == ["row 200"]


def test_a_pace_that_raises_ends_it(path: Path) -> None:
    def pace(place: ScrubPlace) -> None:
        if place.position >= 128:
            raise KeyError(place.position)

    with pytest.raises(KeyError, match="128"):
        scrub(path, 0, pace, lambda _: None)
