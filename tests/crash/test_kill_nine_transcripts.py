"""Kill -9 of the broker while app-servers talk: every piece of text is in its transcript, once and in order.

The oracle is what the reporters sent: they count their pieces themselves, and join them without any code of ours.
"""

import os
import random
from collections.abc import Callable
from pathlib import Path

import anyio
import pytest

import lifebus
from lifebus_contract.transcripts import TranscriptEntry
from lifebus_transports.messages.signals import Observation
from support.broker_process import broker_process, until
from support.crash.killed_signals import Follower, Reporter, kill_amid_reports
from support.effort import effort
from support.integration.observing import signal
from support.patience import PATIENCE_S
from support.running import short_directory
from support.transcripts.boxes import until_read

CYCLES = effort(4, 150)
PIECES_A_CYCLE = (30, 200)
THREADS = ("t1", "t2")
PIECES_OF_AN_ITEM = 60
LONGEST_S = 0.15  # a round of filling, and half of one


class Talker(Reporter):
    """An app-server that says a session's items piece by piece; its origin is the session."""

    largest = 12

    @property
    def expected(self) -> dict[str, str]:
        """What each item has to say, joined from the numbers of its pieces."""
        said: dict[str, str] = {}
        for number in range(self.sent):
            item, place = divmod(number, PIECES_OF_AN_ITEM)
            said[f"i{item}"] = said.get(f"i{item}", "") + (f"{number};" if place else "")
        return said

    def make(self, number: int) -> Observation:
        number -= 1
        item, place = divmod(number, PIECES_OF_AN_ITEM)
        context = {"threadId": self.origin, "turnId": "u"}
        if not place:
            params = {"item": {"type": "agentMessage", "id": f"i{item}", "text": ""}, "startedAtMs": number}
            event = "app_server.item.started"
            return signal(self.origin, event=event, method="item/started", context=context, params=params)
        return signal(self.origin, context=context, params={"itemId": f"i{item}", "delta": f"{number};"})


class Told(Follower):
    """Follows the transcripts through every restart, and keeps what their events said."""

    def told(self) -> dict[str, dict[str, str]]:
        """What the events of each thread make of its entries; each content goes on from the one before it."""
        told: dict[str, dict[str, str]] = {}
        for one in self.seen:
            payload = one.envelope["payload"]
            said = told.setdefault(payload["threadId"], {})
            content = payload["entry"]["content"]
            assert content.startswith(said.get(payload["messageId"], ""))
            said[payload["messageId"]] = content
        return told


async def until_filled(bus: lifebus.Bus, talker: Talker) -> dict[str, str]:
    """What a transcript says once it has as much text as was sent."""
    wanted = sum(map(len, talker.expected.values()))

    def is_whole(entries: list[TranscriptEntry]) -> bool:
        return sum(len(one.content) for one in entries) >= wanted and len(entries) >= len(talker.expected)

    entries = await until_read(lambda: bus.transcripts.entries(talker.origin), is_whole)
    return {one.message_id: one.content for one in entries}


async def kill_again_and_again(
    directory: Path, talkers: list[Talker], follower: Told, chance: random.Random
) -> dict[str, dict[str, str]]:
    async with anyio.create_task_group() as tasks:
        for number in range(CYCLES):
            async with broker_process(directory) as broker:
                if number == 0:
                    await tasks.start(follower.follow, broker)
                batches = chance.randint(*PIECES_A_CYCLE) // 6
                await kill_amid_reports(broker, talkers, batches, LONGEST_S, chance)
        async with (
            broker_process(directory) as broker,
            lifebus.connect("test", runtime_dir=broker.runtime_dir, timeout=PATIENCE_S) as bus,
        ):
            for talker in talkers:
                await talker.report(bus)
            found = {talker.origin: await until_filled(bus, talker) for talker in talkers}
            await until(lambda: follower.told() == found)
        tasks.cancel_scope.cancel()
    return found


@pytest.mark.slow
async def test_kills_lose_no_piece_of_a_transcript_and_double_none(
    record_property: Callable[[str, object], None],
) -> None:
    seed = int(os.environ.get("LIFEBUS_TEST_SEED") or random.randrange(2**32))
    print(f"seed {seed}")  # noqa: T201  shown when it fails; set LIFEBUS_TEST_SEED to repeat it
    chance = random.Random(seed)
    talkers, follower = [Talker(thread, chance) for thread in THREADS], Told("lifebus")
    with short_directory() as directory:
        found = await kill_again_and_again(directory, talkers, follower, chance)
    assert follower.gaps == []
    assert found == {talker.origin: talker.expected for talker in talkers}
    for thread in THREADS:
        numbers = [one.sequence for one in follower.seen if one.thread == f"transcript/{thread}"]
        assert numbers == list(range(1, len(numbers) + 1))
    record_property("kills", CYCLES)
    record_property("pieces", sum(talker.sent for talker in talkers))
