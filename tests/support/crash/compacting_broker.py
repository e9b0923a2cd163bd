"""A broker that writes down a job's and a transcript's records anew, again and again, and kills itself at such a write.

What it was promised it writes into a file of its own, after each promise.
"""

import asyncio
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from lifebus_contract.jobs import Dedupe, NewJob, SuggestionStatus
from lifebus_contract.transcripts import EntryRole, EntryStatus, TranscriptEntry
from lifebus_supervisor.configuration.resolution import load
from lifebus_supervisor.daemon.composition import Daemon
from lifebus_supervisor.queue import dropping, engine
from lifebus_supervisor.queue.records import STREAMS as JOBS
from lifebus_supervisor.transcripts import store
from lifebus_supervisor.transcripts.state import TranscriptState
from lifebus_supervisor.transcripts.store import TranscriptChanges, TranscriptStore
from support.crash.dying_life import die_at_writes, life_root
from support.parts import running_whole, sessions_of

MANY = 12
SHRINKS_AT = 4
SUGGESTS_AT = 2
ENTRIES = 3
SESSION = "s1"
FAR_MS = 4_000_000_000_000
"""In the year 2096: the job never begins."""


async def merge(daemon: Daemon, root: Path) -> None:
    """Put one number after the other into the payload of a job that waits."""
    for number in range(promised(root) + 1, MANY + 1):
        await sessions_of(daemon).queue.enqueue(
            NewJob(
                type="command",
                project_id="p",
                dedupe=Dedupe.MERGE_DUPLICATE,
                dedupe_key="k",
                not_before_ms=FAR_MS,
                payload={"argv": ["true"], "cwd": "/", "input": number},
            )
        )
        promise(root, number)
    # What is dropped is dropped beside: nobody is promised when.
    while any(
        one.head - one.floor > engine.CHECKPOINT_RECORDS for one in await daemon.bus.ledger.journal.streams(JOBS)
    ):
        pass


async def upsert(daemon: Daemon, root: Path) -> None:
    """Change one entry after the other; once a suggestion comes, and once the oldest entry is dropped."""
    parts = sessions_of(daemon).transcripts
    for number in range(promised(root) + 1, MANY + 1):
        made = TranscriptEntry(
            message_id=f"m{number % ENTRIES}",
            turn_id="u",
            role=EntryRole.ASSISTANT,
            type="note",
            content=f"{number} " + "x" * 2_000,
            status=EntryStatus.COMPLETE,
        )
        await parts.store.change(SESSION, partial(placed, made))
        if number == SUGGESTS_AT:
            await parts.suggestions.upsert(SESSION, "k", SuggestionStatus.STREAMING, "text", project_id="p")
        if number == SHRINKS_AT and (await parts.store.info(SESSION)).dropped == 0:
            await parts.store.shrink(SESSION, 5_000)
        promise(root, number)


def placed(made: TranscriptEntry, state: TranscriptState) -> TranscriptChanges:
    return TranscriptChanges(entries=(state.place(made),))


async def found(daemon: Daemon) -> dict[str, Any]:
    """How the job and the transcript stand."""
    standings = sessions_of(daemon).queue.standings()
    entries = await sessions_of(daemon).transcripts.store.read(SESSION)
    known = bool(entries)
    return {
        "jobs": [one.payload["input"] for one in standings],
        "entries": {one.entry.message_id: int(one.entry.content.split()[0]) for one in entries},
        "order": [one.entry.message_id for one in entries],
        "dropped": (await sessions_of(daemon).transcripts.store.info(SESSION)).dropped if known else 0,
        "suggestions": [
            one.suggestion for one in [await sessions_of(daemon).transcripts.store.suggestion(SESSION, "k")] if one
        ],
        "faults": await daemon.bus.ledger.verify(),
    }


def promised(root: Path) -> int:
    return max(map(int, (root / "promised").read_text().split()), default=0)


def promise(root: Path, number: int) -> None:
    with (root / "promised").open("a") as file:
        file.write(f"{number}\n")
        file.flush()
        os.fsync(file.fileno())


def count_compactions() -> None:
    """Have the writes of compactions counted, and compactions come soon."""
    engine.CHECKPOINT_RECORDS = 3  # type: ignore[misc]
    dropping.GATHER_S = 0.0  # type: ignore[misc]
    store._SLACK_BYTES = 1_000  # type: ignore[misc]
    depth = [0]

    def within(method: Any) -> Any:
        async def counted(*values: Any) -> Any:
            depth[0] += 1
            try:
                return await method(*values)
            finally:
                depth[0] -= 1

        return counted

    for name in ("shrink", "_compact"):
        setattr(TranscriptStore, name, within(getattr(TranscriptStore, name)))
    jobs = (life_root() / "kind").read_text() == "jobs"
    die_at_writes(
        lambda records: bool(depth[0]) or any(b'"record":"whole"' in one.body for one in records),
        drops=lambda: jobs or bool(depth[0]),
    )


async def live(root: Path) -> str:
    """Say how everything stands, do what is left, and say it again."""
    settings, _ = load()
    count_compactions()
    async with running_whole(settings) as daemon:
        before = await found(daemon)
        await (merge if (root / "kind").read_text() == "jobs" else upsert)(daemon, root)
        return json.dumps([before, await found(daemon)])


def main() -> None:
    """Live one life."""
    print(asyncio.run(live(life_root())), flush=True)  # noqa: T201  its answer


if __name__ == "__main__":
    main()
