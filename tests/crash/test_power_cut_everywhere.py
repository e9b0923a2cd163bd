"""The power goes at every single call: first start, recovery, checkpoint, pruning, upgrade; what is left is sound."""

import random
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path

import apsw
import pytest

from crash.test_power_cut import EPOCH, missing
from lifebus_broker.ledger.batching import Batch
from lifebus_broker.ledger.record_batch import RecordBatch
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.store import Store
from lifebus_broker.ports import NewRecord
from support.crash.disks import ForgetfulDisk
from support.effort import TORTURE, effort
from support.paths import LEDGER_FORMATS
from support.receipts import entry

OLDER = LEDGER_FORMATS
IMAGES = effort(1, 25)
STEP = 1 if TORTURE else 2
ROWS, FLOOR = 24, 15

Known = dict[str, bytes]
"""What is acknowledged: receipts by key, notes by number."""


@pytest.fixture(autouse=True)
def _small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_store, "POINT_EVERY", 8)
    monkeypatch.setattr(sqlite_store, "PRUNE_STEP", 4)


def write(store: Store, many: int) -> Known:
    """Record receipts and notes; return what is known from then on."""
    known: Known = {}
    for number in range(store.head, store.head + many):
        batch = Batch(store.tip_of, head=store.head, newest_second=store.newest_second, known={})
        (answer,) = batch.add([entry(number, key=f"k{number}", harness_session_id=f"s{number % 3}")])
        notes = RecordBatch(store.records.tip_of)
        (note,) = notes.add([NewRecord("a", b"note %d" % number)], 0)
        store.write(batch, notes)
        assert answer.stored is not None
        known |= {f"k{number}": answer.stored.receipt, f"note {note.number}": note.body}
    return known


def nothing(directory: Path) -> Known:
    return {}


def closed(directory: Path) -> Known:
    """A ledger that was closed in order."""
    with closing(Store.open(directory / "ledger.db", epoch=EPOCH)) as store:
        return write(store, ROWS)


def killed(directory: Path) -> Known:
    """A ledger whose newest rows are in its write-ahead log alone."""
    live = directory.with_name("live")
    live.mkdir()
    with closing(Store.open(live / "ledger.db", epoch=EPOCH)) as store:
        known = write(store, ROWS)
        for path in live.glob("ledger.db*"):
            if path.suffix != ".db-shm":
                (directory / path.name).write_bytes(path.read_bytes())
    return known


def older(version: int) -> Callable[[Path], Known]:
    """A ledger of an older format."""

    def prepare(directory: Path) -> Known:
        with closing(apsw.Connection(str(directory / "ledger.db"))) as connection:
            connection.execute((OLDER / f"ledger_format_{version}.sql").read_text("utf-8")).fetchall()
        connection = apsw.Connection(str(directory / "ledger.db"))
        found = connection.execute("SELECT key, receipt FROM keys JOIN rows USING (position)").fetchall()
        connection.close()
        return {str(key).split("\x1f")[2]: bytes(receipt) for key, receipt in found}  # type: ignore[arg-type]

    return prepare


def reopen(store: Store) -> Known:
    return {}


def go_on(store: Store) -> Known:
    return write(store, 3)


def checkpoint(store: Store) -> Known:
    known = write(store, 3)
    store.checkpoint()
    return known | write(store, 1)


def prune(store: Store) -> Known:
    store.prune_to(FLOOR, b"base")
    while store.prune_step():
        store.checkpoint()
    store.drop_many({"a": FLOOR})
    store.remove_streams("", 0)
    store.checkpoint()
    return {}


@dataclass(frozen=True)
class Case:
    """What is there, and what is done to it while the power goes."""

    prepare: Callable[[Path], Known]
    act: Callable[[Store], Known]


CASES = {
    "first start": Case(nothing, go_on),
    "recovery": Case(killed, reopen),
    "checkpoint": Case(killed, checkpoint),
    "pruning": Case(closed, prune),
    "upgrade of format 1": Case(older(1), go_on),
    "upgrade of format 2": Case(older(2), go_on),
}


def cuts(tmp_path: Path, case: Case) -> Iterator[tuple[ForgetfulDisk, Known]]:
    """Do it again and again, the power going at the first call, the second …; at last it survives untouched."""
    template = tmp_path / "template"
    template.mkdir()
    before = case.prepare(template)
    for number in count(1, STEP):
        directory = tmp_path / f"d{number}"
        directory.mkdir()
        for path in template.iterdir():
            (directory / path.name).write_bytes(path.read_bytes())
        disk = ForgetfulDisk(directory.as_posix(), number)
        disk.load(directory)
        store, known = None, dict(before)
        with suppress(apsw.Error):
            store = Store.open(directory / "ledger.db", epoch=EPOCH, vfs=disk.name)
            known |= case.act(store)
        yield disk, known
        survived = not disk.is_cut
        disk.repair()
        if store is not None:
            store.close()
        disk.unregister()
        if survived:
            return


def check(path: Path, known: Known) -> None:
    """Start on what is left: everything known is there, everything matches, and writing goes on."""
    assert missing(path, known) == []
    with closing(Store.open(path, epoch=EPOCH)) as store:
        assert store.floor in {0, FLOOR}
        while store.prune_step():
            pass
        again = write(store, 2)
        assert verify(path) == []
    assert missing(path, known | again) == []


@pytest.mark.parametrize("name", CASES)
def test_whenever_the_power_goes_the_ledger_is_sound_and_nothing_is_lost(
    tmp_path: Path, name: str, record_property: Callable[[str, object], None]
) -> None:
    images = 0
    for disk, known in cuts(tmp_path, CASES[name]):
        for seed in range(IMAGES):
            left = tmp_path / f"left{images}"
            disk.leave(random.Random(seed * 1_000_003 + images), left)
            check(left / "ledger.db", known)
            images += 1
    record_property("cuts", images)
