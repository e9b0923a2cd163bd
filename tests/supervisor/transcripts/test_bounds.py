"""Transcripts within their bounds: the quota of all together, and writing one down anew while the broker is killed."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from lifebus_broker.ledger.sqlite.ledger import SqliteLedger
from lifebus_broker.ports import Journal
from lifebus_supervisor.transcripts.quota import TranscriptQuota
from support.transcripts.boxes import MIB, box_over, entry, transcript_box

S = "s1"


async def test_all_transcripts_together_keep_to_their_bound_and_the_oldest_entries_go() -> None:
    async with transcript_box("old", "new") as box:
        quota = TranscriptQuota(box.journal, box.store, 2 * MIB)
        for session in ("old", "new"):
            for number in range(60):
                await box.store.upsert(session, entry(f"m{number}", content="x" * 30_000))
        await quota.enforce()
        assert sum(one.bytes for one in await box.journal.streams("transcript/")) <= 2 * MIB
        for session in ("old", "new"):
            names = [one.message_id for one in await box.entries(session)]
            # What is left is an unbroken end, and what is gone is counted.
            assert names == [f"m{number}" for number in range(60 - len(names), 60)]
            assert (await box.store.info(session)).dropped == 60 - len(names)
        assert await box.entries("new")
        again = await box_over(box.journal)
        assert await again.entries("new") == await box.entries("new")
        before = await box.entries("new")
        await quota.enforce()
        assert await box.entries("new") == before


async def test_within_the_bound_nothing_goes() -> None:
    async with transcript_box(S) as box:
        for number in range(20):
            await box.store.upsert(S, entry(f"m{number}", content="x" * 30_000))
        await TranscriptQuota(box.journal, box.store, 2 * MIB).enforce()
        assert (await box.store.info(S)).dropped == 0


class Killed(Exception):
    """The process is gone."""


class DyingJournal:
    """A journal whose process is killed before its write of a number; what came before is durable."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.left: int | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)

    def append(self, *arguments: Any) -> Any:
        self._count()
        return self._journal.append(*arguments)

    async def drop(self, stream: str, through: int) -> int:
        self._count()
        return await self._journal.drop(stream, through)

    def _count(self) -> None:
        if self.left is not None:
            if not self.left:
                raise Killed
            self.left -= 1


@pytest.mark.parametrize("writes", range(7))
async def test_a_kill_while_a_transcript_is_written_down_anew_changes_nothing_of_it(
    tmp_path: Path, writes: int
) -> None:
    path = tmp_path / "ledger.db"
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        dying = DyingJournal(ledger.journal)
        box = await box_over(dying, S)
        for number in range(20):
            await box.store.upsert(S, entry(f"m{number}", content=f"{number} " + "x" * 30_000))
        await box.store.shrink(S, 15 * 31_000)
        expected, info = await box.entries(S), await box.store.info(S)
        assert info.dropped
        dying.left = writes
        try:
            await box.store.shrink(S, 16 * MIB)
        except Killed:
            was_killed = True
        else:
            was_killed = False
    # What it drops, two parts of what it has, and the end of the older records: then it is done.
    assert was_killed is (writes < 4)
    async with aclosing(await SqliteLedger.open(path)) as ledger:
        again = await box_over(ledger.journal)
        assert await again.entries(S) == expected
        assert (await again.store.info(S)).dropped == info.dropped
        await again.store.shrink(S, 16 * MIB)
        await again.store.upsert(S, entry("more"))
        assert [one.message_id for one in await again.entries(S)] == [one.message_id for one in expected] + ["more"]
