"""What a session was marked as is known for good: wherever marks are kept, whoever marks it at the same time."""

import asyncio
import random
from contextlib import aclosing

import pytest

from lifebus_broker.ledger.factory import open_unkept
from lifebus_broker.state.sealed import SealedInMemory
from lifebus_contract import StateConflict
from lifebus_supervisor.transcripts.session_marks import SessionKind, SessionMarks
from support.effort import effort

SESSIONS = ("s1", "s2", "ünïcode")


@pytest.mark.parametrize("in_file", [True, False])
@pytest.mark.parametrize("seed", range(effort(10, 300)))
async def test_a_deleted_session_stays_deleted_since_the_first_time(seed: int, in_file: bool) -> None:
    chance = random.Random(seed)
    kinds, deleted_at = dict.fromkeys(SESSIONS, SessionKind.USER), dict[str, int]()
    async with aclosing(await open_unkept()) as ledger:
        new_items = ledger.new_sealed_items if in_file else SealedInMemory
        marks, at_ms = SessionMarks(ledger.journal, new_items), 0
        await marks.load()
        for _ in range(12):
            calls = list[asyncio.Future[None]]()
            refused = 0
            before = dict(kinds)
            for _ in range(chance.randint(1, 4)):
                session, at_ms = chance.choice(SESSIONS), at_ms + 1
                if chance.random() < 0.5:
                    calls.append(asyncio.ensure_future(marks.mark_deleted(session, at_ms)))
                    kinds[session] = SessionKind.DELETED
                    deleted_at.setdefault(session, at_ms)
                else:
                    calls.append(asyncio.ensure_future(marks.mark_system(session, at_ms)))
                    refused += before[session] is SessionKind.DELETED
                    if kinds[session] is SessionKind.USER:
                        kinds[session] = SessionKind.SYSTEM
            results = await asyncio.gather(*calls, return_exceptions=True)
            faults = [result for result in results if result is not None]
            assert [getattr(fault, "code", fault) for fault in faults] == ["session_deleted"] * refused
            assert all(isinstance(fault, StateConflict) for fault in faults)
            if chance.random() < 0.2:
                marks = SessionMarks(ledger.journal, new_items)
                await marks.load()
            assert {one: marks.kind_of(one) for one in SESSIONS} == kinds
            assert {one: at for one in SESSIONS if (at := marks.deleted_at(one)) is not None} == deleted_at
            assert sorted(marks.deleted()) == sorted(deleted_at)
