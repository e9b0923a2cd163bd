"""Subscribers, retention, restarts and slow reading against a small model, a list and a floor (issue 5, part 6).

Whatever happens, a subscriber's view is the model's, or an explicit gap exactly as wide as what was dropped.
"""

import asyncio
import shutil
import tempfile
from functools import partial
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from msgspec import structs

from lifebus._internal.view import Gap, View
from lifebus_broker.ledger.sqlite import reader as sqlite_reader
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ledger.sqlite.log import SqliteLog
from lifebus_broker.ports import StoredReceipt
from lifebus_broker.snapshots.frozen import freeze_map
from lifebus_broker.state.stores import Stores, dump_stores, load_stores, reduce_event
from lifebus_supervisor.api.queries import query_of
from lifebus_supervisor.api.reads import page_of
from lifebus_supervisor.api.state import States, state_at_floor
from lifebus_transports.messages.reads import BackfillPage, WireReceipt
from lifebus_transports.messages.state import StateQuery
from support.effort import effort
from support.receipts import append, entry

SESSIONS = ("s1", "s2", None)
FILTERS = (None, ("codex", "s1"), ("codex", "s2"))
WHO = st.integers(0, len(FILTERS) - 1)


class Reader:
    """One subscriber: its view, the page that is on its way to it, and all that it has returned."""

    def __init__(self, epoch: str, session: tuple[str, str] | None) -> None:
        self.session = session
        self.view = View(epoch=epoch, position=0, session=session)
        self.view.sequence = 0
        self.page: BackfillPage | None = None
        self.returned: list[WireReceipt | Gap | int] = []

    def take(self, items: list[WireReceipt] | list[WireReceipt | Gap]) -> None:
        self.returned += items


class Subscribing(RuleBasedStateMachine):
    """A real ledger file with real views on it; the model is the list of its rows' sessions, and the floors it had."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch.object(sqlite_store, "POINT_EVERY", 8), patch.object(sqlite_store, "PRUNE_STEP", 3)]
        self.patches += [patch.object(sqlite_reader, "SCAN_ROWS", 6)]
        for each in self.patches:
            each.start()
        self.directory = Path(tempfile.mkdtemp())
        self.incarnation = 0
        self.runner = asyncio.Runner()
        self.rows: list[str | None] = []
        self.floors = {0}
        self.published: list[StoredReceipt] = []
        self.ledger = self.runner.run(self.open())
        self.readers = [Reader(self.ledger.epoch, session) for session in FILTERS]

    async def open(self) -> SqliteLedger:
        return await SqliteLedger.open(self.path, committed=self.published.extend, durability="relaxed")

    @property
    def path(self) -> Path:
        return self.directory / f"{self.incarnation}.db"

    def teardown(self) -> None:
        for reader in self.readers:
            while reader.view.behind or reader.page is not None:
                self.runner.run(self.read(reader, 4))
                self.deliver(reader)
            self.check(reader)
        self.runner.run(self.ledger.aclose())
        self.runner.close()
        shutil.rmtree(self.directory)
        for each in self.patches:
            each.stop()

    @rule(names=st.lists(st.sampled_from(SESSIONS), min_size=1, max_size=9), reached=st.sets(WHO))
    def receipts_come_and_reach_some(self, names: list[str | None], reached: set[int]) -> None:
        self.published.clear()
        first = len(self.rows) + 1
        new = [entry(n, key=f"k{n}", harness_session_id=name) for n, name in enumerate(names, first)]
        self.runner.run(append(self.ledger, new))
        self.rows += names
        for number, reader in enumerate(self.readers):
            live = [WireReceipt(row.position, row.sequence, row.receipt) for row in self.published]
            mine = [row for row in live if self.wants(reader, row.position)]
            if number in reached:
                reader.take(reader.view.offer(self.ledger.epoch, mine))
            elif mine:
                reader.view.lose()

    @rule(who=WHO, limit=st.integers(1, 5))
    def a_page_is_read(self, who: int, limit: int) -> None:
        self.runner.run(self.read(self.readers[who], limit))

    @rule(who=WHO)
    def a_page_arrives(self, who: int) -> None:
        self.deliver(self.readers[who])

    @rule(who=WHO)
    def a_page_is_lost(self, who: int) -> None:
        self.readers[who].page = None

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def receipts_are_dropped(self, data: st.DataObject) -> None:
        floor = data.draw(st.integers(max(self.floors), len(self.rows)))
        self.floors.add(self.runner.run(self.ledger.prune(floor, dump(self.path, floor))))

    @rule(who=WHO)
    def a_subscriber_takes_the_state(self, who: int) -> None:
        reader = self.readers[who]
        if reader.page is None and reader.returned and isinstance(reader.returned[-1], Gap):
            states = States(self.ledger, partial(state_at_floor, self.ledger.open_log, lambda: freeze_map({})))
            page = self.runner.run(states.answer(StateQuery()))
            assert page.position == max(self.floors)
            if page.position > reader.view.position:
                reader.view.start_from(page.epoch, page.position)
                reader.returned.append(page.position)

    @rule()
    def the_broker_is_killed(self) -> None:
        old, self.incarnation = self.path, self.incarnation + 1
        for part in ("", "-wal"):
            if old.with_name(old.name + part).exists():
                shutil.copy(old.with_name(old.name + part), self.path.with_name(self.path.name + part))
        self.runner.run(self.ledger.aclose())
        self.ledger = self.runner.run(self.open())
        assert self.ledger.status().floor == max(self.floors)
        for reader in self.readers:
            reader.page = None
            reader.view.lose()

    async def read(self, reader: Reader, limit: int) -> None:
        """Have the broker answer a question; the answer is on its way then."""
        if reader.page is None and reader.view.behind:
            asked = structs.replace(reader.view.ask(), limit=limit)
            reader.page = page_of(await self.ledger.read(query_of(asked, asked.after)), has_state=True)

    def deliver(self, reader: Reader) -> None:
        if reader.page is not None:
            page, reader.page = reader.page, None
            reader.take(reader.view.fill(page))

    def wants(self, reader: Reader, position: int) -> bool:
        return reader.session is None or reader.session == ("codex", self.rows[position - 1])

    def check(self, reader: Reader) -> None:
        """Nothing between two things that it was told is for it, unless a gap or a state says so."""
        at = 0
        for item in reader.returned:
            start = item.after if isinstance(item, Gap) else item - 1 if isinstance(item, int) else item.position - 1
            if not isinstance(item, int):
                assert not any(self.wants(reader, position) for position in range(at + 1, start + 1)), "a silent hole"
            if isinstance(item, Gap):
                assert (item.reason, item.until, item.state_at) == ("pruned", item.until, item.until)
                assert item.until in self.floors
                assert any(self.wants(reader, position) for position in range(start + 1, item.until + 1)), "not lost"
                at = item.until
            elif isinstance(item, int):
                assert item in self.floors
                at = item
            else:
                assert item.position > at, "again"
                at = item.position
        assert not any(self.wants(reader, position) for position in range(at + 1, len(self.rows) + 1)), "not the end"


def dump(path: Path, floor: int) -> bytes:
    """Return what retention keeps in place of what it drops."""
    with SqliteLog(path) as log:
        base = log.base()
        stores = Stores() if base is None else load_stores(base)
        for line in log.lines(stores.position, floor):
            reduce_event(stores, line)
        return dump_stores(stores)


TestSubscribersModel = Subscribing.TestCase
TestSubscribersModel.settings = settings(
    max_examples=effort(12, 2_000),
    stateful_step_count=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
