"""A small ledger with something of everything in it, all that can be read of it, and how a flipped bit is met."""

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import apsw

from lifebus_broker.ledger.sqlite.checks.verify import verify
from lifebus_broker.ledger.sqlite.checksums import checksum
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ledger.sqlite.reader import Reader
from lifebus_broker.ledger.sqlite.records import read_page, read_streams
from lifebus_broker.ledger.sqlite.schema import executor
from lifebus_broker.ports import Query, StoredReceipt
from lifebus_contract import LifebusError, LifecycleEvent
from support.contract_suites.journal_suite import noted
from support.receipts import append, entry, keyed, recorded

SESSIONS = [("codex", "s1"), ("codex", "s2"), ("claude", "s1"), ("gemini", "old")]
FLOOR = 12


async def write_ledger(path: Path, crashed: Path | None = None) -> None:
    """Write the ledger; `crashed` gets the files as they are before it is closed."""
    ledger = await SqliteLedger.open(path, entropy=lambda size: b"\x03" * size, clock=lambda: 1_790_000_200.0)
    await recorded(ledger, keyed(range(4), adapter_id="gemini", harness_session_id="old"))
    facts = {"frame_id": "f1", "harness_sequence": 3}
    await recorded(
        ledger, [entry(n, key=f"k{n}", telemetry_summary=facts, at_epoch_s=1_790_000_000 + n) for n in range(8)]
    )
    await noted(
        ledger.journal, *[(stream, b"note %d" % n) for n in range(6) for stream in ("cursor/a", "signal/codex/t")]
    )
    await ledger.journal.drop("cursor/a", 2)
    await ledger.prune(FLOOR, b'{"base":1}')
    store = ledger._file.store
    while store.pruned < FLOOR:
        await append(ledger, [])
    await ledger._write(lambda store: _make_tombstones(store.connection))
    await recorded(ledger, keyed(range(100, 164), at_epoch_s=1_790_000_100))
    await recorded(ledger, keyed(range(164, 168), adapter_id="claude", telemetry_summary={"emitter": "carol"}))
    await recorded(ledger, [entry(170, harness_session_id=None), entry(171, harness_session_id="s2")])
    await recorded(ledger, [entry(172, harness_session_id="s2", event=LifecycleEvent.SESSION_ENDED)])
    if crashed is not None:
        copy_ledger(path, crashed)
    await ledger.aclose()


def copy_ledger(path: Path, copy: Path) -> None:
    """Copy the files of a ledger."""
    for suffix in ("", "-wal", "-witness"):
        if path.with_name(path.name + suffix).exists():
            shutil.copy(f"{path}{suffix}", f"{copy}{suffix}")


def _make_tombstones(connection: apsw.Connection) -> None:
    """Leave two tombstones."""
    for number in range(2):
        values = (bytes([number]) * 16, b"digest--", 1_790_000_100)
        executor(connection)("INSERT INTO tombstones VALUES (?, ?, ?, ?)", (*values, checksum(*values)))


def everything_in(path: Path) -> list[Any]:
    """Return whatever can be read of the ledger, by every way there is."""
    found: list[Any] = []
    with closing(Reader(path)) as reader:
        found.append(_pages(reader, Query(after=FLOOR, limit=20)))
        cursors = [(place, after) for place in SESSIONS for after in (FLOOR, 40, 78)]
        found += [_pages(reader, Query(after=after, session=place, limit=3)) for place, after in cursors]
        found += [_pages(reader, Query(after=FLOOR, since_epoch_s=1_790_000_000 + late)) for late in (0, 9, 100, 101)]
        found.append(reader.page(Query()))
        keys = [("alice", adapter, f"k{n:06d}") for adapter in ("codex", "claude", "gemini") for n in range(172)]
        keys += [("carol", "claude", f"k{n:06d}") for n in range(172)] + [("alice", "codex", f"k{n}") for n in range(9)]
        found.append(reader.find(keys))
        found += [reader.sessions(None), *[reader.sessions(place) for place in SESSIONS]]
        streams = read_streams(reader.connection, "")
        found.append(streams)
        found += [read_page(reader.connection, each.stream, 0, 99, 9999) for each in streams]
        found.append(executor(reader.connection)("SELECT key, digest, pruned_at_epoch_s FROM tombstones").fetchall())
    with SqliteLog(path) as log:
        found += [log.epoch, log.floor, log.head, log.base(), [*log.lines(FLOOR, 999)], [*log.records("")]]
    return found


def _pages(reader: Reader, query: Query) -> list[StoredReceipt]:
    stored: list[StoredReceipt] = []
    while True:
        page = reader.page(
            Query(after=query.after, limit=query.limit, session=query.session, since_epoch_s=query.since_epoch_s)
        )
        stored += page.stored
        if page.complete or page.next <= query.after or len(stored) > 999:
            return stored
        query = Query(after=page.next, limit=query.limit, session=query.session, since_epoch_s=query.since_epoch_s)


def findings(path: Path) -> list[str]:
    """Return what verifying tells, or the refusal."""
    try:
        return verify(path)
    except (apsw.Error, LifebusError) as refusal:
        return [str(refusal)]


@contextmanager
def flipped(path: Path, place: int, bit: int) -> Iterator[None]:
    """Flip one bit of a file for a while."""
    with path.open("r+b", buffering=0) as file:
        file.seek(place)
        before = file.read(1)
        file.seek(place)
        file.write(bytes([before[0] ^ (1 << bit)]))
    yield
    with path.open("r+b", buffering=0) as file:
        file.seek(place)
        file.write(before)
