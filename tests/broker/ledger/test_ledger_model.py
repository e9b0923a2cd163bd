"""Random histories of the durable ledger against a small model: a list, a dictionary and the fold (recipe R14)."""

import asyncio
import shutil
import tempfile
from pathlib import Path
from unittest.mock import patch

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from lifebus_broker.ledger.sqlite import reader as sqlite_reader
from lifebus_broker.ledger.sqlite import store as sqlite_store
from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import StoredReceipt
from lifebus_contract import LifecycleEvent
from support.contract_suites.heads import heads_of
from support.effort import effort
from support.receipts import DIGEST, OTHER_DIGEST, append, entry, every_receipt

SESSIONS = st.sampled_from([("codex", "s1"), ("codex", "s2"), ("claude", "s1"), ("codex", None)])
EVENTS = st.sampled_from(
    [
        LifecycleEvent.FRAME_OPENED,
        LifecycleEvent.FRAME_ENDED,
        LifecycleEvent.SESSION_ENDED,
        LifecycleEvent.SESSION_STARTED,
    ]
)
FACTS = st.fixed_dictionaries(
    {}, optional={"frame_id": st.sampled_from(["f1", "f2"]), "harness_sequence": st.integers(0, 9)}
)
NEW = st.lists(st.tuples(SESSIONS, EVENTS, FACTS), min_size=1, max_size=12)


class LedgerMachine(RuleBasedStateMachine):
    """Does to a ledger what may happen to it; the model is what must have come of it."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch.object(sqlite_store, "POINT_EVERY", 8), patch.object(sqlite_store, "PRUNE_STEP", 3)]
        self.patches += [patch.object(sqlite_store, "MAX_TIPS", 2), patch.object(sqlite_reader, "SCAN_ROWS", 10)]
        for each in self.patches:
            each.start()
        self.directory = Path(tempfile.mkdtemp())
        self.incarnation = 0
        self.runner = asyncio.Runner()
        self.stored: list[StoredReceipt] = []
        self.floor = 0
        self.published: list[StoredReceipt] = []
        self.ledger = self.runner.run(self.open())
        self.epoch = self.ledger.epoch

    async def open(self) -> SqliteLedger:
        return await SqliteLedger.open(self.path, committed=self.published.extend)

    @property
    def path(self) -> Path:
        return self.directory / f"{self.incarnation}.db"

    def teardown(self) -> None:
        assert self.runner.run(self.ledger.verify()) == []
        self.runner.run(self.ledger.aclose())
        self.runner.close()
        shutil.rmtree(self.directory)
        for each in self.patches:
            each.stop()

    @rule(new=NEW)
    def emit(self, new: list[tuple[tuple[str, str | None], LifecycleEvent, dict[str, object]]]) -> None:
        first = len(self.stored)
        entries = [
            entry(
                n, key=f"k{n}", adapter_id=place[0], harness_session_id=place[1], event=event, telemetry_summary=facts
            )
            for n, (place, event, facts) in enumerate(new, first)
        ]
        answers = self.runner.run(append(self.ledger, entries))
        counts = {place: sum(place_of(one) == place for one in self.stored) for place, _, _ in new}
        for (place, _, _), answer in zip(new, answers, strict=True):
            assert answer.stored is not None
            assert not answer.replayed
            counts[place] += 1
            assert answer.stored.sequence == (counts[place] if place[1] else None)
            assert answer.stored.position == len(self.stored) + 1
            self.stored.append(answer.stored)

    @precondition(lambda self: self.stored)
    @rule(data=st.data(), changed=st.booleans())
    def retry(self, data: st.DataObject, changed: bool) -> None:
        position = data.draw(st.integers(1, len(self.stored)))
        stored = self.stored[position - 1]
        again = entry(
            9999, key=f"k{position - 1}", digest=OTHER_DIGEST if changed else DIGEST, adapter_id=stored.adapter_id
        )
        (answer,) = self.runner.run(append(self.ledger, [again]))
        if changed:
            assert answer.refusal is not None
            assert answer.refusal.code == "duplicate_id_conflict"
        elif position <= self.floor:
            assert answer.refusal is not None
            assert answer.refusal.code == "history_pruned"
        else:
            assert answer.replayed
            assert answer.stored == stored

    @rule()
    def crash(self) -> None:
        """Go on from a copy of the files as they are, without the ledger having closed them."""
        old = self.path
        self.incarnation += 1
        for suffix in ("", "-wal"):
            if old.with_name(f"{old.name}{suffix}").exists():
                shutil.copy(f"{old}{suffix}", f"{self.path}{suffix}")
        self.runner.run(self.ledger.aclose())
        self.ledger = self.runner.run(self.open())

    @rule()
    def close_and_open(self) -> None:
        self.runner.run(self.ledger.aclose())
        self.ledger = self.runner.run(self.open())

    @rule(data=st.data())
    def prune(self, data: st.DataObject) -> None:
        keep_after = data.draw(st.integers(0, len(self.stored) + 1))
        self.floor = max(self.floor, min(keep_after, len(self.stored)))
        assert self.runner.run(self.ledger.prune(keep_after, b"{}")) == self.floor

    @rule(limit=st.integers(1, 20), place=SESSIONS)
    def read_one_session(self, limit: int, place: tuple[str, str | None]) -> None:
        if place[1] is not None:
            found = self.runner.run(every_receipt(self.ledger, session=place, limit=limit, after=self.floor))
            assert found == [one for one in self.stored[self.floor :] if place_of(one) == place]

    @invariant()
    def everything_is_as_the_model_says(self) -> None:
        assert self.ledger.epoch == self.epoch
        assert self.ledger.head == len(self.stored)
        assert self.published == self.stored
        assert self.runner.run(every_receipt(self.ledger, after=self.floor, limit=17)) == self.stored[self.floor :]
        heads = self.runner.run(self.ledger.sessions())
        assert {(head.adapter_id, head.harness_session_id): head for head in heads} == heads_of(self.stored)
        assert heads == sorted(heads, key=lambda head: head.last_position)


def place_of(stored: StoredReceipt) -> tuple[str, str | None]:
    return stored.adapter_id, stored.harness_session_id


TestLedgerModel = LedgerMachine.TestCase
TestLedgerModel.settings = settings(
    max_examples=effort(10, 500),
    stateful_step_count=25,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
